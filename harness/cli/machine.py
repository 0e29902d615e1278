"""The command `doctor`: what an issue report needs."""

import argparse
import importlib.metadata
import importlib.util
import os
import shutil
from pathlib import Path

from harness import __version__
from harness.core.config.machine import Machine, describe_machine, gpu_states
from harness.core.model import formatting
from harness.core.model.background_process import PLACE
from harness.core.model.errors import UsageError
from harness.core.model.extra_tables import entries, referenced
from harness.core.model.file_io import cpu_quota
from harness.core.model.formatting import NamedTexts
from harness.core.results.run_directory import RESULTS, check_writable
from harness.core.run.executor import short_executor
from impls.registry import IMPLS

from .commands import DONE

# Optional packages by import name; those of layers come from the registry.
_OPTIONAL = ("triton", "submitit", "pytest")


def run_doctor(options: argparse.Namespace) -> int:
    """Print the report. Returns 0 whatever it says."""
    with short_executor() as executor:
        facts = executor.ask("machine")
    problems = [] if facts.ok else [f"torch cannot be used ({facts.status}): {facts.reason}"]
    torch = facts.values if facts.ok else {"harness": str(PLACE)}
    try:
        machine = describe_machine(torch)
    except UsageError as error:
        problems.append(str(error))
        machine = describe_machine({**torch, "harness": str(PLACE)})
    rows = [*_versions(machine), *_hardware(machine), *_packages(machine), *_files(RESULTS)]
    rows += [row for place in entries("DOCTOR") for row in referenced(place)(machine)]
    rows += [("problem", problem) for problem in problems]
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
    load = ", ".join(map("{:.2f}".format, cpu["load_average"]))
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
    for uuid, state in gpu_states(machine).items():
        facts = {"uuid": uuid} | {name: "unknown" if value is None else value for name, value in state.items()}
        yield "gpu-state", ", ".join(f"{name} {fact}" for name, fact in facts.items())


def _packages(machine: Machine) -> NamedTexts:
    libraries = machine["libraries"]
    yield "packages", ", ".join(f"{name} {version}" for name, version in libraries.items() if version)
    absent = [name for name, version in libraries.items() if not version]
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
