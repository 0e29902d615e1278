"""The commands `baseline` and `check`. `check` reports by exit status whether anything got worse.

It measures a baseline's cases again, with the scheduler of `sweep`. The overrides of axes select cases.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

import harness
from harness.core.config import compose
from harness.core.config.key_value_options import Key, take_keys
from harness.core.model import formatting
from harness.core.model.errors import UsageError, notify
from harness.core.model.sweep_axes import OWN_ENVIRONMENT
from harness.core.results import stored_run
from harness.study.check.baseline import baseline_of, baseline_text, read_baseline, write_baseline
from harness.study.check.check import Remeasurement, check_remarks, choose_cases, judge_twice, split_filters
from harness.study.check.check_rules import ERROR_FACTOR
from harness.study.check.reporters import GateReport, check_outputs

from .commands import DONE

_ERROR_FACTOR = Key(
    "error_factor", float, ERROR_FACTOR, least=1.0, most=float("inf"), takes="a number from 1 on; inf judges no error"
)


def run_check(options: argparse.Namespace) -> int:
    """Run the check and return its exit status."""
    check_outputs(options)
    was = read_baseline(options.file)
    values, overrides = take_keys(options.overrides, (_ERROR_FACTOR,))
    axes, settings = split_filters(overrides)
    if not any(text.startswith("seed=") for text in settings):
        settings.append(f"seed={was.seed}")
    config = compose(settings)
    console = Console(highlight=False)
    with TemporaryDirectory(prefix="harness-check-") as scratch:
        measured = Remeasurement(config, Path(scratch), console, not options.exact)
        with measured.session as session:
            cases = choose_cases(was.cases, axes, options.file, session.described.within)
            outcomes, now = judge_twice(was, cases, measured, values["error_factor"])
    versions = {"torch": now.torch, "torch of the baseline": was.torch}
    report = GateReport(f"check {options.file}", outcomes, check_remarks(was, now, cases, outcomes), versions)
    report.show(console)
    report.publish(options)
    return report.exit_status


# Statuses that may be due to chance, and may not occur again.
_BY_CHANCE = ("timeout", "killed")


def _known_bad(options: argparse.Namespace) -> tuple[str, ...]:
    """The known-bad commits of the file that is replaced, and those of the command line."""
    before: tuple[str, ...] = ()
    if options.out is not None and options.out.is_file():
        try:
            before = read_baseline(options.out).known_bad
        except UsageError as error:
            notify(f"{error}; it is replaced, with its known-bad commits if it had any")
    return tuple(dict.fromkeys([*before, *(full_hash() for full_hash in options.known_bad)]))


def run_baseline(options: argparse.Namespace) -> int:
    """Write the known facts of a run's cases to a file that `check` reads."""
    stored = stored_run.read_run_directory(options.run)
    notify(*stored.notices)
    if not any(line.status == "ok" for line in stored.lines):
        raise UsageError(f"{options.run} has no case that could be measured: its baseline would be empty")
    if all(line.flops is None and line.ops is None and line.peak_bytes is None for line in stored.lines):
        raise UsageError(f"{options.run} has only times: a baseline needs facts, which `sweep` measures")
    if named := sorted({line.env for line in stored.lines} - {OWN_ENVIRONMENT}):
        raise UsageError(f"{options.run} was measured in env={','.join(named)}: a baseline is of one environment")
    for line in stored.lines:
        if line.status in _BY_CHANCE:
            notify(f"{line.case}: {line.status}: `check` never judges this case; measure it again")
    seed = stored.config.get("seed", 0)
    if type(seed) is not int:
        raise UsageError(f"{options.run}: seed={seed} in config.yaml is not a whole number")
    baseline = baseline_of(stored.lines, stored.machine, seed, harness.__version__)
    baseline = replace(baseline, known_bad=_known_bad(options))
    if options.out is None:
        print(baseline_text(baseline), end="")
        return DONE
    write_baseline(baseline, options.out)
    sizes = {"case": len(baseline.cases), "law": len(baseline.laws), "claim": len(baseline.claims)}
    print(f"{options.out}: {', '.join(formatting.counted(size, noun) for noun, size in sizes.items())}")
    return DONE
