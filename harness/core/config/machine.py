"""Describe the machine of a run in enough detail to decide whether two runs can be compared.

Times of a GPU can be compared within a few per cent only if its clock rate is locked: `lock_advice` says how.
"""

import importlib
import os
import platform
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import psutil

from harness.core.model.background_process import PLACE, version_of
from harness.core.model.errors import UsageError
from harness.core.model.file_io import memory_left, read_setting
from harness.core.model.sweep_axes import device_kind

from .key_value_options import usable_cpus

_LIBRARIES = "attn-harness torch numpy scipy pandas hydra-core seaborn matplotlib rich psutil"
# Beginnings of the names of environment variables that may change times.
_VARIABLES = """
    OMP_ MKL_ KMP_ GOMP_ ATEN_ TORCH_ PYTORCH_ CUDA_ MALLOC_ GLIBC_TUNABLES LD_PRELOAD
    CUBLAS CUDNN_ NVIDIA_ TRITON_ HIP_ ROCR_ HSA_ ZE_
"""
# Entries of the trial's answer that do not describe torch.
_NOT_OF_TORCH = ("harness", "python", "packages", "devices")
# The states of GPUs in the description of torch, by UUID.
GPU_STATES = "gpu_states"
# Name of each decisive property, and its part and key in the description.
_DECISIVE = (
    ("processor", "cpu", "model"),
    ("usable CPUs", "cpu", "usable"),
    ("GPU", "torch", "gpu"),
    ("torch", "torch", "version"),
)
# The same of each GPU: the name and unit of what makes times incomparable, and of what may change them.
_DECISIVE_OF_GPU = {"driver": ("driver", ""), "power_limit_w": ("power limit", " W")}
_NOTED_OF_GPU = {
    "application_sm_clock_mhz": ("application clock", " MHz"),
    "application_memory_clock_mhz": ("application clock of the memory", " MHz"),
    "ecc_mode": ("ECC mode", ""),
    "mig_mode": ("MIG mode", ""),
    "persistence_mode": ("persistence mode", ""),
}
# A locked clock rate is below this share of the highest one, and varies by less than the second share.
_LOCKED_BELOW, _LOCKED_STEADY = 0.97, 0.01
# Under a power cap, most GPUs can hold this share of their highest rate. Rates are multiples of the step.
_HELD_SHARE, _STEP_MHZ = 0.75, 15
# This much of a UUID is shown.
_SHORT = 12
# Part of the description of a run in several environments: the versions in each, by its name.
ENVIRONMENTS = "environments"


# The description of a machine, as `describe_machine` makes it. A damaged file may hold only a part.
Machine = Mapping[str, Any]
# What `harness.core.trial.nvml.gpu_state` describes.
GpuState = Mapping[str, Any]


def describe_machine(
    torch: Machine, usable: int | None = None, variables: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Describe the CPU, memory, kernel, libraries and commits. `torch` holds what a trial found out about it.

    `usable` is the earlier number of usable CPUs, if this process has been bound to fewer since. `variables` are
    environment variables that only trials have. Raises UsageError if the trial ran with the harness of another
    directory.
    """
    of_trials, variables = torch.get("harness"), variables or {}
    if of_trials != str(PLACE):
        raise UsageError(
            f"trials use the harness in {of_trials or 'another directory'}, and this process the one in {PLACE}: "
            f"uninstall the other one, or set 'PYTHONPATH={PLACE}'"
        )
    return {
        "host": platform.node(),
        "cpu": {
            "model": cpu_model(),
            "cores": psutil.cpu_count(logical=False),
            "threads": psutil.cpu_count(logical=True),
            "usable": usable or usable_cpus(),
            "governor": read_setting("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            "mhz": _mhz(),
            "load_average": os.getloadavg(),
        },
        "memory_bytes": psutil.virtual_memory().total,
        "memory_available_bytes": min(psutil.virtual_memory().available, memory_left()),
        "huge_pages": read_setting("/sys/kernel/mm/transparent_hugepage/enabled"),
        "kernel": f"{platform.system()} {platform.release()}",
        "libc": " ".join(filter(None, platform.libc_ver())),
        "python": torch.get("python") or sys.version.split()[0],
        "torch": {name: value for name, value in torch.items() if name not in _NOT_OF_TORCH},
        "libraries": {name: version_of(name) for name in _LIBRARIES.split()}
        | {"torch": torch.get("version") or version_of("torch")},
        "packages": torch.get("packages", {}),
        "environment": {
            name: value
            for name, value in sorted({**os.environ, **variables}.items())
            if name.startswith(tuple(_VARIABLES.split())) or name in variables
        },
        "project": str(PLACE),
        # None for an installed wheel beside other packages.
        "project_commit": _commit(PLACE) if (PLACE / "pyproject.toml").is_file() else None,
        "user_commit": _commit(Path.cwd()) if Path.cwd() != PLACE else None,
    }


@cache
def keep_gpus_initialised() -> bool:
    """Keep NVIDIA's driver from resetting its GPUs until this process ends. Return whether that succeeded.

    Without persistence mode, the driver initialises a GPU anew whenever no process uses it, as between two trials. That
    takes seconds and loses the clock rates. A process that has found the GPUs by NVML counts as one that uses them. It
    has no CUDA context, and may still fork.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return False
    try:
        nvml.nvmlInit()
        for number in range(nvml.nvmlDeviceGetCount()):
            nvml.nvmlDeviceGetHandleByIndex(number)
    except nvml.NVMLError:  # no driver: the trials say so
        return False
    return True


def unlike(before: Machine, now: Machine) -> list[str]:
    """The differences that make times of two machines incomparable, such as `"torch 2.6.0 before and 2.13.0 now"`.

    Both arguments are results of `describe_machine`, possibly read from a damaged file.
    """
    differences = []
    for name, of, key in _DECISIVE:
        then, today = part(before, of).get(key), part(now, of).get(key)
        if then != today:
            differences.append(f"{name} {then} before and {today} now")
    differences += unlike_gpus(before, now)
    versions = part(now, ENVIRONMENTS)
    for name, then in part(before, ENVIRONMENTS).items():
        if name in versions and then != versions[name]:
            differences.append(f"env={name} {then} before and {versions[name]} now")
    return differences


def _gpu_differences(before: Machine, now: Machine, decisive: Mapping[str, tuple[str, str]]) -> list[str]:
    """How the GPUs differ now: each from itself, or from all earlier ones if it was not among them.

    The machines are as for `unlike`. What NVML did not tell is no difference.
    """
    then, today = gpu_states(before), gpu_states(now)
    differences = []
    for uuid, state in today.items():
        earlier = [then[uuid]] if uuid in then else [*then.values()]
        of = f" of {uuid[:_SHORT]}" if len({*then, *today}) > 1 else ""
        for key, (name, unit) in decisive.items():
            values = sorted({_shown(gpu[key]) for gpu in earlier if gpu.get(key) is not None})
            if values and state.get(key) is not None and _shown(state[key]) not in values:
                text = f"{' or '.join(values)}{unit} before and {_shown(state[key])}{unit} now"
                differences.append(f"GPU {name}{of} {text}")
    return differences


# The differences in drivers and power limits, such as `"GPU power limit 700 W before and 500 W now"`.
unlike_gpus = partial(_gpu_differences, decisive=_DECISIVE_OF_GPU)
# Those in settings that may change times: `"ECC mode 1 before and 0 now"`. Times remain comparable with care.
changed_gpu_settings = partial(_gpu_differences, decisive=_NOTED_OF_GPU)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def gpu_states(machine: Machine) -> dict[str, GpuState]:
    """The state of each GPU in a description, by UUID."""
    states = part(part(machine, "torch"), GPU_STATES)
    return {uuid: state for uuid, state in states.items() if isinstance(state, Mapping)}


def with_gpus(machine: Machine, states: Mapping[str, GpuState]) -> Machine:
    """The description with the states of these GPUs instead of all that torch sees."""
    torch = {name: value for name, value in part(machine, "torch").items() if name != GPU_STATES}
    return {**machine, "torch": {**torch, GPU_STATES: states} if states else torch}


def gpu_state_of(machine: Machine, device: str) -> dict[str, Any] | None:
    """The state of the GPU that is this device; None if the description has none of it."""
    return next((dict(state) for state in gpu_states(with_gpus_of(machine, [device])).values()), None)


def with_gpus_of(machine: Machine, devices: Iterable[str]) -> Machine:
    """The description with the states of the GPUs that are these devices, such as `cuda:1`."""
    used = {int(device.partition(":")[2] or 0) for device in devices if device_kind(device) == "cuda"}
    return with_gpus(machine, {uuid: gpu for uuid, gpu in gpu_states(machine).items() if gpu.get("index") in used})


def is_locked(state: GpuState, rates_mhz: Collection[float]) -> bool:
    """Whether the clock rates of trials, in MHz, are those of a locked clock.

    NVML does not tell that `nvidia-smi -lgc` has locked it, but such a rate stays below the highest one in every trial.
    `state` is what `harness.core.trial.nvml.gpu_state` describes. Without rates, or without the highest one, the
    answer is no.
    """
    highest = state.get("sm_clock_max_mhz")
    if not rates_mhz or not highest:
        return False
    return max(rates_mhz) < _LOCKED_BELOW * highest and max(rates_mhz) <= (1 + _LOCKED_STEADY) * min(rates_mhz)


def clock_advice(how: str, state: GpuState) -> str:
    """Advice to lock the clock rate as `how` says, or to leave it alone on a machine that may not be the user's.

    Entry `borrowed` of a GPU's state is why it may not be, as `borrowed_because` says.
    """
    if why := state.get("borrowed"):
        return (
            f"The GPU's clock rate is not locked, and the machine may not be yours ({why}): "
            "compare layers within one run, or in cycles (time_s · sm_clock_mhz)."
        )
    return f"{how} On a machine that others use too, leave the clock rate alone."


def lock_advice(state: GpuState, rates_mhz: Collection[float] = ()) -> str | None:
    """How to lock the clock rate and what that costs; None if it is locked, or without a state.

    The arguments are as for `is_locked` and `clock_advice`.
    """
    if not state or is_locked(state, rates_mhz):
        return None
    highest = state.get("sm_clock_max_mhz")
    if not highest:  # without NVML
        return clock_advice("The GPU's clock rate is not locked, unless you did so: 'sudo nvidia-smi -lgc MHZ'.", state)
    base = _base_mhz(state, highest)
    seen = f" It was {min(rates_mhz):.0f} to {max(rates_mhz):.0f} MHz in the trials." if rates_mhz else ""
    free = "is not locked" if rates_mhz else "is not locked, unless you have done so"
    return clock_advice(
        f"The GPU's clock rate {free}: it changes up to {highest} MHz with power and temperature.{seen} To compare "
        "runs within a few per cent, lock it near its base rate, which makes compute-bound layers up to "
        f"{100 * (highest / base - 1):.0f} % slower: 'sudo nvidia-smi -lgc {base}'. To undo: 'sudo nvidia-smi -rgc'.",
        state,
    )


def _base_mhz(state: GpuState, highest: float) -> int:
    """The default application clock, or the present one, if it is below the highest rate; or a share of that."""
    for name in ("default_sm_clock_mhz", "application_sm_clock_mhz"):
        rate = state.get(name)
        if rate and rate < highest:
            return int(rate)
    return int(_HELD_SHARE * highest) // _STEP_MHZ * _STEP_MHZ


def versions_text(machine: Machine) -> str:
    """The versions in a description that matter for times: `python 3.11.7, torch 2.6.0, CUDA 12.4, my-layers 1.0`."""
    torch = part(machine, "torch")
    named = {"torch": "version", "CUDA": "cuda", "cuDNN": "cudnn", "triton": "triton"}
    versions = {"python": machine.get("python"), **{name: torch.get(key) for name, key in named.items()}}
    versions |= part(machine, "packages")
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def kind_of_machine(machine: Machine) -> dict[str, str]:
    """The properties of the machine that stay the same from run to run."""
    cpu, torch = part(machine, "cpu"), part(machine, "torch")
    properties = {
        "processor": cpu.get("model"),
        "threads": cpu.get("usable"),
        "instructions": torch.get("cpu_capability"),
        "gpu": torch.get("gpu"),
        "gpu_settings": gpu_settings(machine),
        "python": machine.get("python"),
    }
    return {name: str(value) for name, value in properties.items() if value is not None}


def gpu_settings(machine: Machine) -> str | None:
    """The drivers and power limits of the GPUs, as text; None if unknown."""
    settings = dict.fromkeys(
        f"{name} {_shown(state[key])}{unit}"
        for key, (name, unit) in _DECISIVE_OF_GPU.items()
        for state in gpu_states(machine).values()
        if state.get(key) is not None
    )
    return ", ".join(settings) or None


def part(machine: Machine, name: str) -> Machine:
    """One part of a machine's description, such as `cpu`; empty if a damaged file holds anything else there."""
    entry = machine.get(name)
    return entry if isinstance(entry, Mapping) else {}


def cpu_model() -> str:
    """The name of the processor, as the kernel reports it."""
    for line in (read_setting("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _mhz() -> float | None:
    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError):  # hidden by some virtual machines
        return None
    return frequency.current if frequency else None


def _commit(directory: Path) -> str | None:
    """The commit checked out in the directory, with `-dirty` if there are changes; None outside a git checkout."""
    command = ["git", "-C", str(directory), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
