"""The commands `doctor` and `calibrate`: what an issue report needs, and whether the machine is fit to measure on."""

import argparse
import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from harness import __version__, formatting
from harness.background_process import PLACE
from harness.calibration import record
from harness.calibration.calibrate import Plan, measure_peaks, with_noise
from harness.calibration.record import NamedTexts
from harness.cli.commands import DONE
from harness.config import SweepConfig, compose
from harness.errors import UsageError
from harness.file_io import cpu_quota
from harness.machine import Machine, describe_machine, gpu_states
from harness.measure.executor import Executor
from harness.measure.expected_time import ExpectedTime
from harness.measure.progress import Screen
from harness.measure.session import Session
from harness.results.run_directory import RESULTS, check_writable
from impls.registry import IMPLS

# Optional packages by import name; those of layers come from the registry.
_OPTIONAL = ("triton", "submitit", "pytest")
_TIMEOUT_S = 60.0


def run_doctor(options: argparse.Namespace) -> int:
    """Print the report. Returns 0 whatever it says."""
    with Executor(seed=0, trial_s=1.0, timeout_s=_TIMEOUT_S, memory_limit=None) as executor:
        facts = executor.ask("machine")
    problems = [] if facts.ok else [f"torch cannot be used ({facts.status}): {facts.reason}"]
    torch = facts.values if facts.ok else {"harness": str(PLACE)}
    try:
        machine = describe_machine(torch)
    except UsageError as error:
        problems.append(str(error))
        machine = describe_machine({**torch, "harness": str(PLACE)})
    rows = [*_versions(machine), *_hardware(machine), *_packages(machine), *_files(RESULTS)]
    rows += [("calibration", _calibration(machine)), *(("problem", problem) for problem in problems)]
    width = max(len(name) for name, _ in rows)
    print(*(f"{name:<{width}}  {formatting.printable(text)}" for name, text in rows), sep="\n")
    return DONE


def _versions(machine: Machine) -> NamedTexts:
    torch = machine["torch"]
    commit = machine["project_commit"]
    yield "attn-harness", f"{__version__}{f', commit {commit}' if commit else ''}"
    yield "python", f"{machine['python']}, {machine['kernel']}, {machine['libc'] or 'unknown libc'}"
    yield "torch", f"{torch['version']}, CUDA {torch['cuda'] or 'not built in'}" if torch else "not usable"


def _hardware(machine: Machine) -> NamedTexts:
    cpu, torch = machine["cpu"], machine["torch"]
    yield "processor", f"{cpu['model']}, {torch.get('cpu_capability', 'unknown instruction set')}"
    load = ", ".join(f"{one:.2f}" for one in cpu["load_average"])
    yield "cpus", f"{cpu['usable']} usable of {cpu['threads']}; governor {cpu['governor'] or 'unknown'}; load {load}"
    if quota := cpu_quota()[0]:
        yield "quota", f"{quota:g} CPUs' time"
    if torch:
        yield "threads", f"{torch['default_threads']} in torch, {torch['interop_threads']} between operations"
    total, free = (formatting.size(machine[name]) for name in ("memory_bytes", "memory_available_bytes"))
    yield "memory", f"{total}, {free} available; huge pages: {machine['huge_pages'] or 'unknown'}"
    gpu = torch.get("gpu")
    yield "gpu", f"{gpu}, {formatting.size(torch['gpu_memory_bytes'])}" if gpu else "none that torch sees"
    for place, other in enumerate(torch.get("gpus", [])[1:], start=1):
        yield f"gpu-{place}", other
    advice = dict[str, None]()
    for uuid, state in gpu_states(machine).items():
        told = {"uuid": uuid, **state}
        yield "gpu-state", ", ".join(f"{name} {'unknown' if value is None else value}" for name, value in told.items())
        advice |= dict.fromkeys(text for kind, text in record.gpu_rules(state) if kind)
    yield from (("gpu-advice", text) for text in advice)


def _packages(machine: Machine) -> NamedTexts:
    installed = [f"{name} {version}" for name, version in machine["libraries"].items() if version]
    absent = [name for name, version in machine["libraries"].items() if not version]
    yield "packages", ", ".join(installed)
    if absent:
        yield "absent", ", ".join(absent)
    optional = dict.fromkeys((*_OPTIONAL, *(impl.package for impl in IMPLS.values() if impl.package)))
    yield "optional", ", ".join(f"{name} {_version(name)}" for name in optional)
    variables = [f"{name}={value}" for name, value in machine["environment"].items()]
    yield "environment", " ".join(variables) or "no variable that changes times"


def _version(module: str) -> str:
    """The version of the distribution that has this module, `absent` without one."""
    if importlib.util.find_spec(module) is None:
        return "absent"
    names = importlib.metadata.packages_distributions().get(module, ())
    return importlib.metadata.version(names[0]) if names else "present"


def _files(results: Path) -> NamedTexts:
    try:
        check_writable(results, str(results))
        state = "writable"
    except UsageError as error:
        state = str(error)
    nearest = next(path for path in (results, *results.absolute().parents) if path.exists())
    free = formatting.size(shutil.disk_usage(nearest).free)
    yield "results", f"{os.path.join(results, '')} in {Path.cwd()}: {state}, {free} free"


def _calibration(machine: Machine) -> str:
    if not record.PATH.exists():
        return "none; make one with: python -m harness calibrate"
    try:
        _, made = record.load_calibration(record.PATH)
    except UsageError as error:
        return str(error)
    if (made.host, made.cpu_model) != (machine["host"], machine["cpu"]["model"]):
        return f"{record.PATH} is of another machine; make one with: python -m harness calibrate"
    return f"{record.verdict(record.advice_for(made))}, {record.noise_text(made)}, made {made.date}"


# A loop of short calls, a kernel, and a layer whose page faults take time in some processes but not in others.
_CALIBRATION = ("impl=rnn.torch,attention.fused,attention.packed", "seq_len=256,1024", "d_model=256", "num_heads=8")
# Smaller sizes would tell how long launches take. Flash attention has no float32 on a GPU. A trial takes two seconds
# there, so two cases must do.
_ON_GPU = ("impl=rnn.torch,attention.fused", "seq_len=4096", "d_model=1024", "num_heads=16", "dtype=bfloat16")


def run_calibrate(options: argparse.Namespace) -> int:
    """Calibrate the machine, then print and save the results. The peaks are saved before the noise is measured."""
    config = _calibration_config(options.overrides, options.config_dir)
    record.check_calibration_path(options.out)
    console = Console(highlight=False)
    plan = _plan(config, _precision_name(options.overrides))

    def executor_for(trial_s: float) -> Executor:
        return Session.of(replace(config, precision=replace(config.precision, trial_s=trial_s))).executor

    console.out("peaks and noise floor: with precision=quick about a minute, on a GPU about 3 minutes (an estimate)")
    peaks = measure_peaks(plan, executor_for)
    on_disk = record.save_peaks(peaks, options.out)
    try:
        console.out(on_disk)
        calibration = with_noise(
            peaks, plan, executor_for, lambda cases: Screen(cases, ExpectedTime(config.precision), console), console.out
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{on_disk}; repeat the command to measure the noise floor") from None
    record.save(calibration, options.out)
    record.show_calibration(calibration, console)
    console.out(f"{options.out}: took {calibration.took_s:.0f} s")
    return DONE


def _calibration_config(overrides: Sequence[str], config_dir: Path | None) -> SweepConfig:
    on_gpu = any(text.startswith("device=") and text != "device=cpu" for text in overrides)
    config = compose(overrides, config_dir, usual=_ON_GPU if on_gpu else _CALIBRATION)
    for axis in ("device", "threads", "dtype", "env"):
        if len(config.axes[axis]) > 1:
            raise UsageError(f"{axis} takes one value here: calibrate each one by itself, with -o FILE")
    return config


def _precision_name(overrides: Sequence[str]) -> str:
    name = next((text.partition("=")[2] for text in overrides if text.startswith("precision=")), "quick")
    return f"{name}, changed" if any(text.startswith("precision.") for text in overrides) else name


def _plan(config: SweepConfig, precision_name: str) -> Plan:
    with Session.of(config) as session:
        session.check_devices(config)
        cases = session.cases(config)
        for case in cases:
            if reason := session.indivisible_size(case):
                raise UsageError(f"{case}: {reason}")
    return Plan(cases, session.traits, config.precision, precision_name)
