"""`python -m harness check FILE`: measure a baseline's cases again, and say what got worse."""

from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from harness.cli.parser import Parser
from harness.gate.said.publish import add_outputs, check_outputs, publish

if TYPE_CHECKING:
    from harness.case import Case
    from harness.cli.remeasure import Remeasured
    from harness.gate.baseline import Baseline
    from harness.gate.outcome import Outcome

_EPILOG = """\
settings:
  impl seq_len d_model … source_len      choose among the file's cases: a value, a list, Hydra's grammar, 'impl=rnn.*'
  seed=N  memory_limit=8GiB  compile_timeout_s=900  precision=quick|standard|strict         as in sweep; seed as in FILE
  out=DIR                                keep what is measured there, a run as that of a sweep

what is judged:
  flops, operations, depth               no more than they were, to the last digit; less is told, and fine
  peak memory                            within 1 %
  the kernel that ran                    a fused one must stay one
  how memory, flops, depth and time grow the exponents of their laws must not lie above their intervals (of memory: by
                                         more than 0.1)
  claims of theory                       none may be newly refuted
No time is ever compared with another; how time grows is judged where both laws are determined, and what seems worse
is measured a second time in new processes before it counts.

examples:
  python -m harness check baseline.json --exact
  python -m harness check baseline.json 'impl=attention.*' seq_len=256,512 --junit check.xml

exit status: 0 nothing got worse; 1 something did; 2 usage, or a file that cannot be read; 3 something could not be
measured; 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    """Run the check and return its exit status."""
    parser = Parser("check", "Measure the cases of a baseline again, and say what got worse.", _EPILOG)
    parser.add_argument("file", type=Path, metavar="FILE", help="what `python -m harness baseline` has written")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--exact", action="store_true", help="only what repeats exactly: nothing is timed")
    add_outputs(parser)
    options = parser.parse_intermixed_args(arguments)
    # Imported here so that `--help` does not load the code that reads files and measures.
    from rich.console import Console

    from harness.cli.choose import apart, choose
    from harness.cli.remeasure import Remeasured
    from harness.config import compose
    from harness.gate.baseline_file import read
    from harness.gate.outcome import exit_status
    from harness.gate.said.table import show

    check_outputs(options)
    was = read(options.file)
    axes, others = apart(options.overrides)
    if not any(text.startswith("seed=") for text in others):
        others.append(f"seed={was.seed}")
    config = compose(others)
    cases = choose(was.cases, axes, options.file)
    console = Console()
    with TemporaryDirectory(prefix="harness-check-") as scratch:
        measured = Remeasured(config, Path(scratch), console, timed=not options.exact)
        outcomes, now = _judged(was, cases, measured)
    from harness.gate.check import remarks

    title = f"check {options.file}"
    said = remarks(was, now, cases, outcomes)
    show(title, outcomes, said, console)
    publish(options, title, outcomes, said, {"torch": now.torch, "torch of the baseline": was.torch})
    return exit_status(outcomes)


def _judged(was: "Baseline", cases: "Collection[Case]", measured: "Remeasured") -> "tuple[list[Outcome], Baseline]":
    """The outcomes of the cases, and the new measurement as a baseline. Doubtful times are measured twice."""
    from harness.gate.check import confirmed, doubtful, judge

    with measured:
        now = measured.take(cases, measured.first)
        outcomes = judge(was, now, cases, measured.timed)
        again = doubtful(was, outcomes)
        if again:
            outcomes = confirmed(outcomes, judge(was, measured.take(again, measured.second), again, measured.timed))
    return outcomes, now
