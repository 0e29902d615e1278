"""The command `sweep`: measure a grid and report it, or say with `--dry-run` what it would measure and for how long."""

import argparse
import importlib
import sys

from rich.console import Console

from harness.calibration import record
from harness.cli.commands import CASES_FAILED, DONE, INTERRUPTED
from harness.cli.stored_runs import open_report, show_report, write_report
from harness.config import compose
from harness.key_value_options import usable_cpus
from harness.measure import cluster_launch
from harness.measure.session import COMPILE_CACHE, OutputDirectory, Session
from harness.results import run_directory
from harness.sweep_axes import BAD_STATUSES


def run_sweep(options: argparse.Namespace) -> int:
    """Measure a grid and report it."""
    config = compose(options.overrides, options.config_dir, for_sweep=True)
    if options.cfg:
        print(config.yaml, end="")
        return DONE
    if config.paper:
        from harness.analysis.published_papers import read_paper

        read_paper(config.paper)  # reports errors in the paper's file before anything is measured
    cluster_launch.check_cluster_settings(config)
    target, console = OutputDirectory.of(config, options.fresh), Console()
    most, usable = max(config.axes["threads"]), usable_cpus()
    if most > usable and not target.is_elsewhere:
        cpus = f"{usable} CPUs are" if usable > 1 else "1 CPU is"
        print(f"harness: threads={most}: only {cpus} usable here, so threads will wait for each other", file=sys.stderr)
    with Session.of(config, target.path / COMPILE_CACHE) as session:
        if not options.dry_run:  # while the fork server imports torch: later, the import would cost time
            importlib.import_module("harness.report.build")
        cases = session.cases(config)
        target.check_code(session.traits)
        if not target.is_elsewhere:
            session.check_devices(config)
        if options.dry_run:
            print("\n".join(session.plan(cases, target.finished())))
            return DONE
        machine = session.machine()
        target.check_machine(machine)
        with run_directory.Lock(target.path, make=not target.continues) as lock:
            cluster_launch.check_nobody_measures(target)
            if lock.left_by:
                console.out(f"{lock.left_by} has not come to an end there", highlight=False)
            calibration = record.attachment(record.PATH, machine, config.axes["threads"], config.axes["device"])
            target.begin({**machine, **calibration}, session.traits)
            if not target.is_elsewhere:
                trials, is_complete = target.measure(session, cases, console), True
            else:
                trials, is_complete = {}, cluster_launch.launch_on_cluster(target, session, cases, console)
                if not config.wait:
                    return DONE
            contents, written = write_report(target.path, not options.no_plots)
            if target.path.absolute().parent == run_directory.RESULTS.absolute():
                run_directory.link_latest(target.path)
            show_report(contents, target.path, written, console)
    if options.open and trials is not None:
        open_report(target.path)
    if trials is None:
        print("harness: interrupted; the measurements so far are reported", file=sys.stderr)
        return INTERRUPTED
    unfinished = target.unfinished(cases, contents.lines, trials) if is_complete else ""
    if unfinished:
        print(f"harness: {unfinished}", file=sys.stderr)
    is_bad = unfinished or not is_complete or any(line.status in BAD_STATUSES for line in contents.lines)
    return CASES_FAILED if is_bad else DONE
