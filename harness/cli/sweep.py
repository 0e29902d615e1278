"""The command `sweep`: measure a grid and report it, or say with `--dry-run` what it would measure and for how long.

With `--profile TOOL`, one case runs under a profiler, by a command that can be typed again.
"""

import argparse
import importlib
import math
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from harness.core.config import SweepConfig, compose
from harness.core.config.key_value_options import usable_cpus
from harness.core.model import gpus
from harness.core.model.errors import UsageError, notify
from harness.core.model.extra_tables import entries, referenced
from harness.core.model.formatting import counted, duration
from harness.core.model.sweep_axes import AXES, BAD_STATUSES, OWN_ENVIRONMENT, Case, Setting, device_kind, setting_text
from harness.core.results import run_directory
from harness.core.run.output_directory import OutputDirectory, launcher_of, launchers
from harness.core.run.session import COMPILE_CACHE, Plan, Session
from harness.study.report.document import Table, grouped, show

from .commands import CASES_FAILED, DONE, INTERRUPTED
from .stored_runs import open_report, show_report, write_report


def run_sweep(options: argparse.Namespace) -> int:
    """Measure a grid and report it."""
    config = compose(options.overrides, options.config_dir, for_sweep=True)
    if options.cfg:
        print(config.yaml, end="")
        return DONE
    if options.profile:
        return profile_case(config, options.profile)
    if config.paper:
        from harness.study.analyse import more_findings

        more_findings({"paper": config.paper}, [])  # reports errors in the paper's file before anything is measured
    launcher = launcher_of(config)
    target, console = OutputDirectory.of(config, options.fresh), Console(highlight=False)
    most, usable = max(config.axes["threads"]), usable_cpus()
    if most > usable and not target.uses_launcher:
        cpus = f"{usable} CPUs are" if usable > 1 else "1 CPU is"
        notify(f"threads={most}: only {cpus} usable here, so threads will wait for each other")
    with Session.of(config, target.path / COMPILE_CACHE) as session:
        if not options.dry_run:  # while the fork server imports torch: later, the import would cost time
            importlib.import_module("harness.study.report.build")
        cases = session.cases(config)
        target.check_code(session.layers)
        target.check_options(session, cases)
        if not target.uses_launcher:
            session.check_devices(config)
        if options.dry_run:
            return _show_plan(session.plan(cases, target.finished()), options.verbose, console)
        machine = session.machine()
        target.check_machine(machine)
        if config.out is None:
            target = replace(target, path=run_directory.make_unused(target.path))
        with run_directory.locked(target.path, make=not target.continues) as left_by:
            for other in launchers():
                other.check_nobody_measures(target)
            if left_by:
                console.out(f"{left_by} has not come to an end there")
            for place in entries("MACHINE_FACTS"):
                machine |= referenced(place)(machine, config.axes["threads"], config.axes["device"])
            target.begin(machine, session.layers)
            if launcher is None:
                trials, is_complete = target.measure(session, cases, console), True
            else:
                trials, is_complete = {}, launcher.launch(target, session, cases, console)
                if not config.wait:
                    return DONE
            contents, written = write_report(target.path, not options.no_plots, baseline=config.baseline)
            if target.path.absolute().parent == run_directory.RESULTS.absolute():
                try:
                    run_directory.link_latest(target.path)
                except OSError as error:  # such as another user's link
                    notify(f"the link latest still points elsewhere: {error.strerror}")
            show_report(contents, target.path, target.path, written, console)
    if trials is None:
        notify("interrupted; the measurements so far are reported")
        return INTERRUPTED
    if options.open:
        open_report(target.path)
    unfinished = target.unfinished(cases, contents.lines, trials) if is_complete else ""
    if unfinished:
        notify(unfinished)
    is_bad = unfinished or not is_complete or any(line.status in BAD_STATUSES for line in contents.lines)
    return CASES_FAILED if is_bad else DONE


def _show_plan(plan: Plan, is_verbose: bool, console: Console) -> int:
    """Print what a dry run would measure. Return 3 if a case is known to fail."""
    if is_verbose:
        notes = dict.fromkeys(plan.finished, "finished")
        notes |= {case: ": ".join(why) for case, why in plan.refused.items()}
        for case in plan.cases:  # each line can be pasted after `sweep`
            print(case.key + (f"   # {notes[case]}" if case in notes else ""))
    show(plan_parts(plan), console)
    statuses = {*plan.finished.values(), *(status for status, _ in plan.refused.values())}
    return CASES_FAILED if statuses.intersection(BAD_STATUSES) else DONE


def plan_parts(plan: Plan) -> list[Table | str]:
    """A dry run in words: the grid as a table of axes, what cannot be measured, and the expected time."""
    of_impl = grouped(plan.cases, lambda case: case.impl)
    headless = [impl for impl, cases in of_impl.items() if {case.num_heads for case in cases} == {1}]
    rows = []
    for name, axis in AXES.items():
        values = dict.fromkeys(str(getattr(case, name)) for case in plan.cases)
        text = ", ".join(values)
        if name == "num_heads" and 0 < len(headless) < len(of_impl):
            heads = dict.fromkeys(str(case.num_heads) for case in plan.cases if case.impl not in headless)
            text = f"{', '.join(heads)}; layers without heads: 1"
        if len(values) > 1 or name in _ALWAYS:
            rows.append((f"{name} ({axis.letter})" if axis.letter else name, text))
    parts: list[Table | str] = [Table({"axis": "", "values": ""}, rows)]
    settings = {setting_text(Setting.of(case).as_dict()) for case in plan.cases}
    if len(settings) == 1:
        parts.append(f"Everything else: {settings.pop()}.")
    combined = [math.prod(len({getattr(case, name) for case in cases}) for name in AXES) for cases in of_impl.values()]
    if sum(combined) > len(plan.cases):
        parts.append("Not all combinations of these values are measured: -v lists the cases.")
    for (_, status, reason), cases in grouped(plan.refused, lambda case: (case.impl, *plan.refused[case])).items():
        more = f" and {counted(len(cases) - 1, 'more case')}" if len(cases) > 1 else ""
        parts.append(f"{status}: {cases[0]}{more}: {reason}")
    return [*parts, *plan.expected.timeouts(plan.left), _summary(plan)]


# Axes that a dry run shows even if they have a single value.
_ALWAYS = ("impl", "seq_len", "d_model", "num_heads")


def _summary(plan: Plan) -> str:
    statuses = Counter(status for status, _ in plan.refused.values())
    numbers = [f"{len(plan.cases)} case{'s' if len(plan.cases) > 1 else ''}"]
    numbers += [f"{number} {status}" for status, number in sorted(statuses.items())]
    if done := sum(case in plan.finished for case in plan.cases):
        numbers += [f"{done} finished", f"{len(plan.left)} left to measure"]
    text = ", ".join(numbers)
    if not plan.left:
        return f"{text}. Nothing is left to measure."
    trials = sum(map(plan.expected.trials, plan.left))
    return f"{text}. Expected time: {duration(plan.expected.sweep_s(plan.left))}, for {trials} timed trials."


# For each profiler the end of its file's name, what opens the file, and which product of Nsight it is.
_PROFILERS = {
    "torch": (".json.gz", "for chrome://tracing or ui.perfetto.dev", ""),
    "ncu": (".ncu-rep", "for 'ncu-ui', or 'ncu --import' with this file", "Compute"),
    "nsys": (".nsys-rep", "for 'nsys-ui', or 'nsys stats' with this file", "Systems"),
}


def profile_case(config: SweepConfig, tool: str) -> int:
    """Profile three calls of the only case of the configuration. Return the exit status.

    Raises UsageError for several cases, for a tool that is not installed, and for one that cannot profile the device.
    """
    suffix, viewer, product = _PROFILERS[tool]
    with Session.of(config) as session:
        cases = session.cases(config)
        if len(cases) != 1:
            several = ", ".join(axis for axis, values in config.axes.items() if len(values) > 1)
            raise UsageError(f"--profile takes one case, and these are {len(cases):,}: give one value of {several}")
        case = cases[0]
        if case.env != OWN_ENVIRONMENT:
            raise UsageError(f"--profile runs in this environment: leave env={case.env} out")
        if tool != "torch" and device_kind(case.device) != "cuda":
            raise UsageError(f"--profile {tool} needs a CUDA device: add device=cuda, or use --profile torch")
        name = re.sub(r"[^\w.=-]+", "-", str(case))
        file = (config.out or run_directory.RESULTS / "profiles") / f"{name}{suffix}"
        command = command_of(case, tool, file)
        if shutil.which(command[0]) is None:
            install = f"install NVIDIA Nsight {product} (developer.nvidia.com/nsight-{product.lower()})"
            raise UsageError(f"{command[0]} is not found: {install}, then type: {shlex.join(command)}")
        session.check_devices(config)
    file.parent.mkdir(parents=True, exist_ok=True)
    print(shlex.join(command), flush=True)
    with gpus.one_trial_on(case.device):
        status = subprocess.run(command, check=False).returncode
    if status:
        notify(f"the command above failed with status {status}")
        return CASES_FAILED
    print(f"{file}: three calls of {case}, {viewer}")
    return DONE


def command_of(case: Case, tool: str, file: Path) -> list[str]:
    """The command that profiles the case with this tool."""
    calls = [sys.executable, "-m", "harness.core.trial.profiled_calls", tool, str(file), *case.key.split(" ")]
    around = {
        "torch": "",
        "ncu": "ncu --profile-from-start off --nvtx --set full -f -o",
        "nsys": "nsys profile --capture-range=cudaProfilerApi --capture-range-end=stop --trace=cuda,nvtx "
        "--force-overwrite=true -o",
    }[tool].split()
    return [*around, str(file), *calls] if around else calls
