"""The commands `list`, which prints the registered layers, and `verify`, which checks layers against a reference."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.case import Case, grid
from harness.cli import CASES_FAILED, DONE
from harness.cli.options import Parser
from harness.registry import unsupported_reason
from impls.impl import Impl
from impls.registry import IMPLS

_WORK = ("work", "work_train", "work_decode")
_ORDERS = ("memory", "depth", "path")
# A block exists around every attention layer that fits, so all blocks of a kind share one line.
_BLOCKS = {
    "encoder": "attention, feed-forward of 4d, residuals, norms, positions",
    "decoder": "the same, causal, and with attention over a source",
    "encoder6": "six blocks of the encoder in a row, positions in the first alone",
}


def run_list(arguments: Sequence[str]) -> int:
    """Print the registered layers."""
    Parser("list", "List the layers that can be measured, and what theory claims of them.").parse_args(arguments)
    console = Console()
    rungs = [impl for impl in IMPLS.values() if impl.family not in _BLOCKS]
    console.print(_layers(rungs))
    console.print(
        _claims(rungs, _WORK, "of one sequence, exactly; a multiply-add is 2, and elementwise work is not counted")
    )
    console.print(_claims(rungs, _ORDERS, "by order; memory in words, beyond weights and input"))
    return DONE


def _layers(rungs: Iterable[Impl]) -> Table:
    table = Table(
        caption="your own layer: impl=module:Class, built as Class(d_model=…, num_heads=…)", caption_justify="left"
    )
    table.add_column("impl", no_wrap=True)
    table.add_column("what it is")
    for impl in rungs:
        table.add_row(impl.name, impl.summary)
    for family, what in _BLOCKS.items():
        inside = [name.removeprefix(f"{family}.") for name, impl in IMPLS.items() if impl.family == family]
        table.add_row(f"{family}.…", f"{what}; around {', '.join(inside)}")
    return table


def _claims(rungs: Iterable[Impl], claims: Sequence[str], caption: str) -> Table:
    table = Table(caption=caption, caption_justify="left")
    table.add_column("impl", no_wrap=True)
    for claim in claims:
        table.add_column(claim.replace("_", ", "))
    for impl in rungs:
        table.add_row(impl.name, *(getattr(impl, claim) for claim in claims))
    return table


# Small, quick and the same for every user; any axis can be overridden. `train` checks gradients too.
_VERIFY_DEFAULTS = ("seq_len=64", "d_model=64", "num_heads=4", "batch_size=2", "mode=train")

_VERIFY_EPILOG = """\
The output lists the failed cases first, each with its reason, and then prints one line per layer.

examples:
  python -m harness verify impl=my.module:MyLayer mode=train,decode mask=none,causal,padding
  python -m harness verify --all impl=attention.fused

exit status: 0 done; 2 usage error; 3 some case failed
"""


def run_verify(arguments: Sequence[str]) -> int:
    """Verify every case of a small grid. Returns 3 if a case fails."""
    parser = Parser("verify", "Compare layers' outputs and gradients with a float64 reference.", _VERIFY_EPILOG)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="the axes of sweep, such as impl=… dtype=…")
    parser.add_argument("-v", "--all", action="store_true", help="print every case, with its errors or its reason")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="a directory of your own settings, beside conf/")
    options = parser.parse_intermixed_args(arguments)
    # Imported here so that `--help` and `list` do not load the code that measures.
    from harness.config import compose
    from harness.measure.session import check_devices, describe_impl, runner_of
    from harness.report.text.checks import verification_lines, verification_summary

    config = compose(options.overrides, options.config_dir, usual=_VERIFY_DEFAULTS)
    found: list[tuple[Case, dict[str, Any]]] = []
    with runner_of(config, None) as runner:
        check_devices(config, runner)
        traits = {impl: describe_impl(impl, runner) for impl in config.axes["impl"]}
        for case in grid(config.axes, lambda impl: traits[impl].has_heads):
            reason = unsupported_reason(case, traits[case.impl].has_heads)
            outcome = {"status": "unsupported", "reason": reason} if reason else runner.run("verify", case)
            found.append((case, outcome))
    if options.all:
        print(*verification_lines(found), "", sep="\n")
    print(*verification_summary(found), sep="\n")
    if not options.all and any(outcome["status"] == "unsupported" for _, outcome in found):
        print("Use --all to see why a case is unsupported.")
    return DONE if all(outcome["status"] in ("ok", "unsupported") for _, outcome in found) else CASES_FAILED
