"""`python -m harness verify`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.case import Case, grid
from harness.catalog import unsupported_reason
from harness.cli import CASES_FAILED, DONE
from harness.cli.parser import Parser
from harness.config import compose
from harness.report.said.verified import each, summary
from harness.sweep.configured import check_devices, describe_impl, runner_of

# Small, quick and the same for every user; any axis can be overridden. `train` checks gradients too.
_DEFAULTS = ("seq_len=64", "d_model=64", "num_heads=4", "batch_size=2", "mode=train")

_EPILOG = """\
What is wrong is told first, each case with its reason; then a line a layer.

examples:
  python -m harness verify impl=my.module:MyLayer mode=train,decode mask=none,causal,padding
  python -m harness verify --all impl=attention.fused

exit status: 0 done; 2 usage; 3 some case is not what it must be
"""


def run(arguments: Sequence[str]) -> int:
    """Verify every case of a small grid. Returns 3 if a case fails."""
    parser = Parser("verify", "Hold layers' outputs and gradients against a float64 reference.", _EPILOG)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="the axes of sweep, such as impl=… dtype=…")
    parser.add_argument("-v", "--all", action="store_true", help="every case, with its errors or its reason")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="a directory of your own beside conf/")
    options = parser.parse_intermixed_args(arguments)
    config = compose(options.overrides, options.config_dir, usual=_DEFAULTS)
    found: list[tuple[Case, dict[str, Any]]] = []
    with runner_of(config, None) as runner:
        check_devices(config, runner)
        traits = {impl: describe_impl(impl, runner) for impl in config.axes["impl"]}
        for case in grid(config.axes, lambda impl: traits[impl].has_heads):
            reason = unsupported_reason(case, traits[case.impl].has_heads)
            outcome = {"status": "unsupported", "reason": reason} if reason else runner.run("verify", case)
            found.append((case, outcome))
    if options.all:
        print(*each(found), "", sep="\n")
    print(*summary(found), sep="\n")
    if not options.all and any(outcome["status"] == "unsupported" for _, outcome in found):
        print("With --all it is told why a case is unsupported.")
    return DONE if all(outcome["status"] in ("ok", "unsupported") for _, outcome in found) else CASES_FAILED
