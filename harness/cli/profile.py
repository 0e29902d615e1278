"""`sweep --profile TOOL`: one case under a profiler, by a command that can be typed again."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness import gpus
from harness.cli.commands import CASES_FAILED, DONE
from harness.config import SweepConfig
from harness.errors import UsageError
from harness.measure.session import Session
from harness.results.run_directory import RESULTS
from harness.sweep_axes import OWN_ENVIRONMENT, Case, device_kind

# What each tool needs to be installed, and the end of its file's name.
_PACKAGES = {
    "ncu": "install NVIDIA Nsight Compute (developer.nvidia.com/nsight-compute)",
    "nsys": "install NVIDIA Nsight Systems (developer.nvidia.com/nsight-systems)",
}
_SUFFIXES = {"torch": ".json.gz", "ncu": ".ncu-rep", "nsys": ".nsys-rep"}


def profile_case(config: SweepConfig, tool: str) -> int:
    """Profile three calls of the only case of the configuration. Return the exit status.

    Raises UsageError for several cases, for a tool that is not installed, and for one that cannot profile the device.
    """
    with Session.of(config) as session:
        cases = session.cases(config)
        case = _only(cases, config)
        if case.env != OWN_ENVIRONMENT:
            raise UsageError(f"--profile runs in this environment: leave env={case.env} out")
        if tool != "torch" and device_kind(case.device) != "cuda":
            raise UsageError(f"--profile {tool} is of CUDA devices: give device=cuda too, or --profile torch")
        file = _file(case, tool, config.out or RESULTS / "profiles")
        command = command_of(case, tool, file)
        if shutil.which(command[0]) is None:
            raise UsageError(f"{command[0]} is not found: {_PACKAGES[tool]}, then type: {shlex.join(command)}")
        session.check_devices(config)
    file.parent.mkdir(parents=True, exist_ok=True)
    print(shlex.join(command), flush=True)
    with gpus.one_trial_on(case.device):
        status = subprocess.run(command, check=False).returncode
    if status:
        print(f"harness: the command above failed with status {status}", file=sys.stderr)
        return CASES_FAILED
    print(f"{file}: three calls of {case}{_VIEWERS[tool]}")
    return DONE


_VIEWERS = {
    "torch": ", for chrome://tracing or ui.perfetto.dev",
    "ncu": ", for 'ncu-ui', or 'ncu --import' with this file",
    "nsys": ", for 'nsys-ui', or 'nsys stats' with this file",
}


def command_of(case: Case, tool: str, file: Path) -> list[str]:
    """The command that profiles the case with this tool."""
    calls = [sys.executable, "-m", "harness.trial.profiled_calls", tool, str(file), *case.key.split(" ")]
    if tool == "ncu":
        return ["ncu", "--profile-from-start", "off", "--nvtx", "--set", "full", "-f", "-o", str(file), *calls]
    if tool == "nsys":
        capture = ["--capture-range=cudaProfilerApi", "--capture-range-end=stop", "--trace=cuda,nvtx"]
        return ["nsys", "profile", *capture, "--force-overwrite=true", "-o", str(file), *calls]
    return calls


def _only(cases: Sequence[Case], config: SweepConfig) -> Case:
    if len(cases) != 1:
        several = ", ".join(axis for axis, values in config.axes.items() if len(values) > 1)
        raise UsageError(f"--profile takes one case, and these are {len(cases):,}: give one value of {several}")
    return cases[0]


def _file(case: Case, tool: str, directory: Path) -> Path:
    name = re.sub(r"[^\w.=-]+", "-", str(case))
    return directory / f"{name}{_SUFFIXES[tool]}"
