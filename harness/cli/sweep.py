"""The command `sweep`: measure a grid and report it, or say with `--dry-run` what it would measure and for how long."""

import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from harness import registry, store
from harness.analysis.papers import paper_of
from harness.calibration import record
from harness.case import Case, grid
from harness.cli import CASES_FAILED, DONE, INTERRUPTED
from harness.cli.options import Parser
from harness.config import SweepConfig, compose
from harness.config.schema import HERE
from harness.errors import UsageError
from harness.machine import describe_machine
from harness.measure.cluster_launch import check_cluster_settings, check_nobody_measures, launch_on_cluster
from harness.measure.executor import Executor, UnsupportedCase, unsupported_cases
from harness.measure.progress import Screen
from harness.measure.scheduler import ResumeState, Scheduler, read_resume_state
from harness.measure.session import (
    CODE,
    COMPILE_CACHE,
    check_code,
    check_devices,
    check_machine,
    check_output_directory,
    code_digests,
    describe_impl,
    output_directory,
    run_twice_if_killed,
    runner_of,
    update_code_digests,
    update_paper,
)
from harness.registry import Traits
from harness.report.background_plots import BackgroundPlots
from harness.results.summarise import summarise_run
from harness.results.table import CaseResult
from harness.stats.stopping import fewest
from harness.store.directory import RESULTS

# The time that a trial and a whole sweep take beside sampling, in seconds.
_TRIAL_COST_S = 0.05
_SWEEP_COST_S = 10.0
# The time to compile a case, once to verify it and once for its trials.
_COMPILE_S = 12.0


def show_plan(
    cases: Sequence[Case], traits: Mapping[str, Traits], config: SweepConfig, finished: Collection[Case] = ()
) -> None:
    """Print the cases, the reason for each refused one, and the expected time.

    `finished` are the cases that need no more trials.
    """
    refused = _unsupported(cases, traits, config.precision.timeout_s, finished)
    left = [case for case in cases if case not in refused and case not in finished]
    for case in cases:
        note = ": ".join(refused[case]) if case in refused else "finished" if case in finished else ""
        print(case.key + (f"   # {note}" if note else ""))
    p = config.precision
    once = _SWEEP_COST_S + _COMPILE_S * sum(registry.is_compiled(case.impl) for case in left)
    rounds = (fewest(p), p.max_rounds)
    least, most = (once + len(left) * (r * (p.trial_s + _TRIAL_COST_S) + _TRIAL_COST_S) for r in rounds)
    to = f" to {_duration(most)}" if most > least else ""
    done = len(cases) - len(refused) - len(left)
    there = f", {done} finished, {len(left)} left to measure" if finished else ""
    ends = Counter(status for status, _ in refused.values())
    others = "".join(f", {number} {status}" for status, number in sorted(ends.items()) if status != "unsupported")
    print(
        f"{len(cases)} cases, {ends['unsupported']} of them unsupported{others}{there}; "
        f"about {_duration(least)}{to}, more where one call takes longer than {p.trial_s:g} s"
    )


def _unsupported(
    cases: Sequence[Case], traits: Mapping[str, Traits], timeout_s: float, finished: Collection[Case]
) -> dict[Case, UnsupportedCase]:
    """The status and reason of each refused case, judged by its numbers first and then by its layer."""
    by_numbers = {case: registry.unsupported_reason(case, traits[case.impl].has_heads) for case in cases}
    refused = {case: ("unsupported", reason) for case, reason in by_numbers.items() if reason}
    return refused | unsupported_cases(
        (case for case in cases if case not in refused and case not in finished), timeout_s
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


# Statuses that make the exit status 3.
_BAD = ("incorrect", "error", "killed")
# Stop reason in `summary.csv` of a case that needs more trials.
_UNFINISHED = "interrupted"

_EPILOG = """\
settings (each axis takes a value, a list, or Hydra's sweep grammar):
  impl seq_len d_model num_heads batch_size dtype device threads         the axes
  mode=forward|train|backward|decode                                     … what one call is; decode: one more token
  mask=none|causal|padding  padding_fraction=0.25  kv_len=N              … which tokens see which; cross-attention
  allocator=default|steady|fresh                                         … page faults: now and then, never, every call
  preset=ladder                                                          every layer of the ladder, and some blocks
  shape=bert_base|gpt2|vit_b16|transformer_base|llama_7b                 the sizes of a real layer
  points=[{seq_len:512,batch_size:32},{seq_len:1024,batch_size:16}]      these points, not every combination
  paper=NAME scale=full|cpu                                              a published setting, with its figures
  precision=quick|standard|strict                                        target interval and limits; its parts are
  precision.target|min_rounds|max_rounds|trial_s|timeout_s|case_s|patience_s
  grow=seq_len                                                           double n until time or memory runs out
  out=DIR  seed=N  memory_limit=8GiB  compile_timeout_s=900

`out=DIR` continues an existing run and measures only the missing trials.
  retry=timeout,error                                                    re-run the cases with these statuses too
  --fresh                                                                set the old run aside, and measure anew

on a cluster (launcher.partition|account|time|gres|cpus_per_task|exclusive|array_parallelism|setup|apart):
  launcher=slurm threads=N                                               one Slurm array task per shard
  wait=false                                                             submit the shards, and return

examples:
  python -m harness sweep
  python -m harness sweep 'impl=glob(attention.*)' seq_len=128,256,512 shape=gpt2
  python -m harness sweep impl=my.module:MyLayer,attention.fused 'seq_len=range(256,2049,256)'

exit status: 0 done; 2 usage error; 3 some case is incorrect, in error, killed or unfinished; 130 interrupted
"""


def run_sweep(arguments: Sequence[str]) -> int:
    """Measure a grid and report it."""
    options = _parser().parse_intermixed_args(arguments)
    config = compose(options.overrides, options.config_dir, for_sweep=True)
    if options.cfg:
        print(config.yaml, end="")
        return DONE
    paper_of({"paper": config.paper})  # reports errors in the paper's file before anything is measured
    check_cluster_settings(config)
    out = output_directory(config)
    goes_on = check_output_directory(out, config, options.fresh)
    console = Console()
    with runner_of(config, out / COMPILE_CACHE) as runner:
        runner.start()
        if not options.dry_run:
            _load_report()
        traits = {impl: describe_impl(impl, runner) for impl in config.axes["impl"]}
        code = code_digests(traits)
        if goes_on:
            check_code(out, code, config.retry)
        cases = list(grid(config.axes, lambda impl: traits[impl].has_heads, config.points))
        elsewhere = config.launcher.cluster != HERE
        if not elsewhere:
            check_devices(config, runner)
        if options.dry_run:
            show_plan(cases, traits, config, _finished(out, config) if goes_on else ())
            return DONE
        machine = describe_machine(_torch_facts(runner))
        if goes_on and not elsewhere:
            check_machine(out, machine)
        with store.Lock(out, make=not goes_on) as lock:
            if options.fresh or not elsewhere:
                check_nobody_measures(out, config)
            if lock.left_by:
                console.out(f"{lock.left_by} has not come to an end there", highlight=False)
            if goes_on:
                update_paper(out, config)
                update_code_digests(out, code)
            else:
                _new(out, config, {**machine, CODE: code}, options.fresh)
            if elsewhere:
                return _elsewhere(cases, traits, config, runner, out, not options.no_plots, console)
            past = _past(out, cases, config, console) if goes_on else ResumeState()
            trials = _measure(cases, traits, config, runner, out, past, console)
            lines = _report(out, not options.no_plots, console)
    if trials is None:
        print("harness: interrupted; the measurements so far are reported", file=sys.stderr)
        return INTERRUPTED
    return _status(cases, lines, trials, config, out)


def _elsewhere(
    cases: Sequence[Case],
    traits: dict[str, Traits],
    config: SweepConfig,
    runner: Executor,
    out: Path,
    plots: bool,
    console: Console,
) -> int:
    """Measure in shards, then report. Without `wait`, only submit the shards."""
    runner.drop()  # this process measures nothing more
    complete = launch_on_cluster(cases, traits, config, out, console)
    if not config.wait:
        return DONE
    lines = _report(out, plots, console)
    return _status(cases, lines, {}, config, out) if complete else CASES_FAILED


def _parser() -> Parser:
    parser = Parser("sweep", "Measure every case of a grid. Write tables and plots to results/.", _EPILOG)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--dry-run", action="store_true", help="print the cases and the expected time; measure nothing")
    parser.add_argument("--cfg", action="store_true", help="print the composed configuration; measure nothing")
    parser.add_argument("--fresh", action="store_true", help="set an existing run aside, and measure anew")
    parser.add_argument("--no-plots", action="store_true", help="leave plots/ to a later `report`, which saves seconds")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="a directory of your own settings, beside conf/")
    parser.add_argument("-m", "--multirun", action="store_true", help="has no effect: the axes always sweep")
    return parser


def _torch_facts(runner: Executor) -> dict[str, Any]:
    """The facts about torch, from a trial. Raises UsageError if it fails: they identify the machine of a run."""
    facts = run_twice_if_killed(runner, "machine")
    if facts["status"] != "ok":
        raise UsageError(f"the machine could not be described ({facts['status']}: {facts['reason']}): try again")
    return facts


def _new(out: Path, config: SweepConfig, machine: dict[str, Any], fresh: bool) -> None:
    """Create the run. With `fresh`, set an existing run aside first.

    Raises UsageError if the run exists and `fresh` is not set: another sweep has just created it.
    """
    if store.is_run(out) or store.lacks_config(out):
        if not fresh:
            raise UsageError(f"out={out}: another sweep has just created this run: repeat the command to continue it")
        print(f"harness: what was in {out} is now in {store.set_aside(out)}", file=sys.stderr)
    calibration = record.attachment(record.PATH, machine, config.axes["threads"], config.axes["device"])
    store.create(out, config.yaml, {**machine, **calibration})


def _past(out: Path, cases: Sequence[Case], config: SweepConfig, console: Console) -> ResumeState:
    """The finished work of the run, without the failures to retry. Prints how far the run has come."""
    past, notices = read_resume_state(out)
    for notice in notices:
        print(f"harness: {notice}", file=sys.stderr)
    known = past.trials.keys() | past.failures.keys() | past.facts
    begun = known.intersection(cases)
    grown = f", and {len(known) - len(begun)} more, to which it has grown" if len(known) > len(begun) else ""
    console.out(f"{out}: going on; {len(begun)} of {len(cases)} cases have rows{grown}", highlight=False)
    left = Counter(past.failures[case][0] for case in begun & past.failures.keys())
    again = [status for status in left if status not in ("unsupported", *config.retry)]
    if again:
        ended = ", ".join(f"{left[status]} {status}" for status in again)
        console.out(
            f"of these ended without a time: {ended}; retry={','.join(again)} takes them again", highlight=False
        )
    return past.reopening(config.retry)


def _finished(out: Path, config: SweepConfig) -> set[Case]:
    """The cases of the run that will not be measured again."""
    lines, _ = summarise_run(out, config.precision)
    return {line.case for line in lines if line.stop_reason != _UNFINISHED and line.status not in config.retry}


def _measure(
    cases: Sequence[Case],
    traits: dict[str, Traits],
    config: SweepConfig,
    runner: Executor,
    out: Path,
    past: ResumeState,
    console: Console,
) -> dict[Case, int] | None:
    """Run the sweep. Return how many trials each case has, or None if the sweep was interrupted."""
    writer = store.RowWriter(out)
    try:
        with Screen(cases, config.precision, console) as screen:
            sweep = Scheduler(
                cases, traits, config.precision, runner, writer, screen, config.seed, past=past, grow=config.grow
            )
            sweep.run()
    except KeyboardInterrupt:
        return None
    finally:
        writer.close()
        runner.drop()  # only an interrupted trial can still be running
    return sweep.trials


def _load_report() -> None:
    """Import the modules of the report while the fork server imports torch. Later, the import would cost time."""

    from harness.report.build import build  # noqa: F401
    from harness.report.terminal import show_answer  # noqa: F401


def _report(out: Path, plots: bool, console: Console) -> Sequence[CaseResult]:
    """Write the report, show its summary and return the line of each case."""
    from harness.report.build import build
    from harness.report.terminal import show_answer

    with BackgroundPlots() if plots else nullcontext() as studio:
        report = build(out, studio)
    if out.absolute().parent == RESULTS.absolute():
        store.link_latest(out)
    show_answer(report.lines, report.findings, console)
    console.out(f"{out}: {', '.join(report.written)}", highlight=False)
    return report.lines


def _status(
    cases: Sequence[Case], lines: Sequence[CaseResult], trials: Mapping[Case, int], config: SweepConfig, out: Path
) -> int:
    """The exit status of a sweep that was not interrupted. Unfinished cases are reported on stderr.

    A case is unfinished if it has no stop reason and fewer trials than the sweep has measured. This happens if its rows
    cannot be read back. `trials` holds the measured numbers; a case without one needs `min_rounds` trials.

    A case that has all its trials but no stop reason is finished. The sweep was right to stop, and a better probe has
    since shown that some trials were disturbed.
    """
    least = config.precision.min_rounds
    finished = {
        line.case for line in lines if line.stop_reason != _UNFINISHED or line.trials >= trials.get(line.case, least)
    }
    unfinished = len({*cases, *trials} - finished)  # the rows may hold cases of others
    if unfinished:
        number = f"{unfinished} cases are" if unfinished > 1 else "1 case is"
        print(f"harness: {number} unfinished: run the same command with 'out={out}' again", file=sys.stderr)
    return CASES_FAILED if unfinished or any(line.status in _BAD for line in lines) else DONE
