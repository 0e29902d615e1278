"""The commands `check FILE`, which measures a baseline's cases again, and `baseline RUN`, which writes that file.

`check` says what got worse. It measures with the scheduler of `sweep`, and selects cases with the overrides of its
axes.
"""

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from harness.cli import DONE
from harness.cli.options import Parser
from harness.errors import UsageError
from harness.gate.publish import add_outputs, check_outputs, publish_outcomes

if TYPE_CHECKING:
    from harness.case import Case
    from harness.gate.baseline import Baseline
    from harness.gate.check_rules import Outcome
    from harness.gate.remeasure import Remeasurement

_CHECK_EPILOG = """\
settings:
  impl seq_len d_model … kv_len          choose among the file's cases: a value, a list, Hydra's grammar, 'impl=rnn.*'
  seed=N  memory_limit=8GiB  compile_timeout_s=900  precision=quick|standard|strict  as in sweep; seed as in FILE
  out=DIR                                keep the new measurement in DIR, as a run like that of a sweep

what is judged:
  flops, operations, depth               must not increase at all; a decrease is reported and passes
  peak memory                            must not grow by more than 1 %
  the kernel that ran                    must stay fused if it was fused
  how memory, flops, depth and time grow the exponents of their cost models must not lie above their intervals
                                         (memory: by more than 0.1)
  claims of theory                       none may be newly refuted
The command never compares two times. It judges how time grows where both cost models are determined. Growth that
seems worse is measured a second time in new processes before it counts.

examples:
  python -m harness check baseline.json --exact
  python -m harness check baseline.json 'impl=attention.*' seq_len=256,512 --junit check.xml

exit status: 0 nothing got worse; 1 something did; 2 usage error, or an unreadable file; 3 something could not be
measured; 130 interrupted
"""


def run_check(arguments: Sequence[str]) -> int:
    """Run the check and return its exit status."""
    parser = Parser("check", "Measure the cases of a baseline again, and report what got worse.", _CHECK_EPILOG)
    parser.add_argument("file", type=Path, metavar="FILE", help="a file that `python -m harness baseline` wrote")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--exact", action="store_true", help="check only what repeats exactly, and time nothing")
    add_outputs(parser)
    options = parser.parse_intermixed_args(arguments)
    # Imported here so that `--help` does not load the code that reads files and measures.
    from rich.console import Console

    from harness.cli.filters import choose_cases, split_filters
    from harness.config import compose
    from harness.gate.baseline_file import read_baseline
    from harness.gate.check_rules import exit_status
    from harness.gate.remeasure import Remeasurement
    from harness.gate.reporters import show_outcomes

    check_outputs(options)
    was = read_baseline(options.file)
    axes, others = split_filters(options.overrides)
    if not any(text.startswith("seed=") for text in others):
        others.append(f"seed={was.seed}")
    config = compose(others)
    cases = choose_cases(was.cases, axes, options.file)
    console = Console()
    with TemporaryDirectory(prefix="harness-check-") as scratch:
        measured = Remeasurement(config, Path(scratch), console, timed=not options.exact)
        outcomes, now = _judged_outcomes(was, cases, measured)
    from harness.gate.check import check_remarks

    title = f"check {options.file}"
    said = check_remarks(was, now, cases, outcomes)
    show_outcomes(title, outcomes, said, console)
    publish_outcomes(options, title, outcomes, said, {"torch": now.torch, "torch of the baseline": was.torch})
    return exit_status(outcomes)


def _judged_outcomes(
    was: "Baseline", cases: "Collection[Case]", measured: "Remeasurement"
) -> "tuple[list[Outcome], Baseline]":
    """The outcomes of the cases, and the new measurement as a baseline. Doubtful times are measured twice."""
    from harness.gate.check import doubtful_cases, judge_baseline, with_confirmation

    with measured:
        now = measured.take(cases, measured.first)
        outcomes = judge_baseline(was, now, cases, measured.timed)
        again = doubtful_cases(was, outcomes)
        if again:
            outcomes = with_confirmation(
                outcomes, judge_baseline(was, measured.take(again, measured.second), again, measured.timed)
            )
    return outcomes, now


_BASELINE_EPILOG = """\
The file is JSON with one entry per line, always in the same order. Commit it, and read its diff.
`python -m harness check FILE` measures its cases again and reports what got worse. The times in the file are for
information only.

examples:
  python -m harness baseline results/latest -o baseline.json
  python -m harness baseline results/latest | diff baseline.json -

exit status: 0 done; 2 usage error, or a run without any case that could be measured
"""


# Statuses that may be due to chance, and may not occur again.
_BY_CHANCE = ("timeout", "killed")


def run_baseline(arguments: Sequence[str]) -> int:
    """Write the known facts of a run's cases to a file that `check` reads."""
    parser = Parser(
        "baseline", "Write what a run found to a file that `check` reads. Measures nothing.", _BASELINE_EPILOG
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, such as results/latest")
    parser.add_argument("-o", dest="out", type=Path, metavar="FILE", help="where to write; default: standard output")
    options = parser.parse_args(arguments)
    # Imported here so that `--help` does not load the code that fits laws.
    import harness
    from harness.analysis.claims_table import verdicts
    from harness.analysis.fitted_laws import fit_laws
    from harness.gate.baseline import baseline_of, subject_of
    from harness.gate.baseline_file import baseline_text, write_baseline
    from harness.results.run_directory import read_run_directory

    stored = read_run_directory(options.run)
    for notice in stored.notices:
        print(f"harness: {notice}", file=sys.stderr)
    if not any(line.status == "ok" for line in stored.lines):
        raise UsageError(f"{options.run} has no case that could be measured: its baseline would be empty")
    if all(line.flops is None and line.ops is None and line.peak_bytes is None for line in stored.lines):
        raise UsageError(f"{options.run} has only times: a baseline needs facts, which `sweep` measures")
    for line in stored.lines:
        if line.status in _BY_CHANCE:
            said = f"{subject_of(line.case)}: {line.status}: `check` never judges this case; measure it again"
            print(f"harness: {said}", file=sys.stderr)
    seed = stored.config.get("seed", 0)
    if type(seed) is not int:
        raise UsageError(f"{options.run}: seed={seed} in config.yaml is not a whole number")
    laws = fit_laws(stored.lines)
    found = baseline_of(stored.lines, laws, verdicts(stored.lines, laws), stored.machine, seed, harness.__version__)
    if options.out is None:
        print(baseline_text(found), end="")
        return DONE
    write_baseline(found, options.out)
    print(f"{options.out}: {len(found.cases)} cases, {len(found.laws)} laws, {len(found.claims)} claims")
    return DONE


# Keys that define a grid. Here the cases are given.
