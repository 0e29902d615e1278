"""`python -m harness verify`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.case import Case, grid
from harness.catalog import unsupported_reason
from harness.cli import CASES_FAILED, DONE
from harness.cli.parser import Parser
from harness.config import compose
from harness.report.escaped import printable
from harness.sweep.configured import check_devices, describe_impl, runner_of

# Small and quick, and the same for everybody; any axis can be set otherwise. `train` checks gradients too.
_DEFAULTS = ("seq_len=64", "d_model=64", "num_heads=4", "batch_size=2", "mode=train")


def run(arguments: Sequence[str]) -> int:
    """Verify every case of a small grid; 3 if one is not what it must be."""
    parser = Parser("verify", "Hold layers' outputs and gradients against a float64 reference.")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="the axes of sweep, such as impl=… dtype=…")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="a directory of your own beside conf/")
    options = parser.parse_intermixed_args(arguments)
    config = compose([*_DEFAULTS, *options.overrides], options.config_dir)
    table = Table(title="Errors relative to the reference's norm", title_justify="left")
    for heading in ("case", "reference", "output", "gradients", "tolerance", "verdict"):
        table.add_column(heading)
    good = True
    with runner_of(config, None) as runner:
        check_devices(config, runner)
        traits = {impl: describe_impl(impl, runner) for impl in config.axes["impl"]}
        for case in grid(config.axes, lambda impl: traits[impl].has_heads):
            reason = unsupported_reason(case, traits[case.impl].has_heads)
            outcome = {"status": "unsupported", "reason": reason} if reason else runner.run("verify", case)
            good = good and outcome["status"] in ("ok", "unsupported")
            table.add_row(*_cells(case, outcome))
    Console().print(table)
    return DONE if good else CASES_FAILED


def _cells(case: Case, outcome: dict[str, Any]) -> tuple[str, ...]:
    name = escape(f"{case} {case.mode} {case.dtype}")
    if outcome["status"] != "ok":
        return name, "", "", "", "", f"[red]{outcome['status']}[/]: {escape(printable(str(outcome['reason'])))}"
    gradient = f"{outcome['gradient_error']:.1e}" if "gradient_error" in outcome else ""
    return (
        name,
        outcome["against"],
        f"{outcome['output_error']:.1e}" if outcome["output_error"] is not None else "",
        gradient,
        f"{outcome['tolerance']:.1e}",
        "[green]ok",
    )
