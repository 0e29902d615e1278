"""The command `sweep`: measure a grid and report it, or say with `--dry-run` what it would measure and for how long."""

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console

from harness.calibration import record
from harness.cli.commands import CASES_FAILED, DONE, INTERRUPTED
from harness.cli.stored_runs import show_report, write_report
from harness.config import compose
from harness.config.schema import HERE
from harness.measure.cluster_launch import check_cluster_settings, check_nobody_measures, launch_on_cluster
from harness.measure.session import COMPILE_CACHE, OutputDirectory, Session
from harness.results import run_directory
from harness.results.columns import CaseResult
from harness.results.run_directory import RESULTS
from harness.sweep_axes import BAD_STATUSES, Case


def run_sweep(options: argparse.Namespace) -> int:
    """Measure a grid and report it."""
    config = compose(options.overrides, options.config_dir, for_sweep=True)
    if options.cfg:
        print(config.yaml, end="")
        return DONE
    if config.paper:
        from harness.analysis.published_papers import read_paper

        read_paper(config.paper)  # reports errors in the paper's file before anything is measured
    check_cluster_settings(config)
    target, elsewhere = OutputDirectory.of(config, options.fresh), config.launcher.cluster != HERE
    console = Console()
    with Session.of(config, target.path / COMPILE_CACHE) as session:
        if not options.dry_run:  # while the fork server imports torch: later, the import would cost time
            importlib.import_module("harness.report.build")
        cases = session.cases(config)
        target.check_code(session.traits)
        if not elsewhere:
            session.check_devices(config)
        if options.dry_run:
            print("\n".join(session.plan(cases, target.finished())))
            return DONE
        machine = session.machine()
        if not elsewhere:
            target.check_machine(machine)
        with run_directory.Lock(target.path, make=not target.continues) as lock:
            if options.fresh or not elsewhere:
                check_nobody_measures(target.path, config)
            if lock.left_by:
                console.out(f"{lock.left_by} has not come to an end there", highlight=False)
            calibration = record.attachment(record.PATH, machine, config.axes["threads"], config.axes["device"])
            target.begin({**machine, **calibration}, session.traits)
            if elsewhere:
                session.executor.drop()  # this process measures nothing more
                complete = launch_on_cluster(cases, session.traits, config, target.path, console)
                if not config.wait:
                    return DONE
                trials: Mapping[Case, int] | None = {}
            else:
                complete, trials = True, _measure(session, target, cases, console)
            contents, written = write_report(target.path, not options.no_plots)
            if target.path.absolute().parent == RESULTS.absolute():
                run_directory.link_latest(target.path)
            show_report(contents, target.path, written, console)
    if trials is None:
        print("harness: interrupted; the measurements so far are reported", file=sys.stderr)
        return INTERRUPTED
    return _status(target, cases, contents.lines, trials) if complete else CASES_FAILED


def _measure(
    session: Session, target: OutputDirectory, cases: Sequence[Case], console: Console
) -> Mapping[Case, int] | None:
    """Run the sweep. Return how many trials each case has, or None if the sweep was interrupted."""
    past = target.past(cases, console)
    try:
        return session.measure_into(target.path, cases, console, past=past, grow=target.config.grow).trials
    except KeyboardInterrupt:
        return None
    finally:
        session.executor.drop()  # only an interrupted trial can still be running


def _status(
    target: OutputDirectory, cases: Sequence[Case], lines: Sequence[CaseResult], trials: Mapping[Case, int]
) -> int:
    """The exit status of a sweep that was not interrupted. Unfinished cases are reported on stderr."""
    unfinished = target.unfinished(cases, lines, trials)
    if unfinished:
        number = f"{unfinished} cases are" if unfinished > 1 else "1 case is"
        print(f"harness: {number} unfinished: run the same command with 'out={target.path}' again", file=sys.stderr)
    return CASES_FAILED if unfinished or any(line.status in BAD_STATUSES for line in lines) else DONE
