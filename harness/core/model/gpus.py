"""The GPUs of this machine: which of them `device=cuda:1` is, whose turn it is on each, and whose they may be.

A variable such as CUDA_VISIBLE_DEVICES lists the GPUs that a process sees, by number or UUID. `cuda:1` is the second of
them, and `cuda` the first. A trial sees its own GPU only, which is then `cuda` for its layer.

CUDA numbers the GPUs by CUDA_DEVICE_ORDER, by default the fastest one first. NVML (`nvidia-smi`) numbers them by their
place on the bus. So a number alone does not tell a GPU. Torch tells the UUIDs of those that it sees, in CUDA's order.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import UsageError
from .file_io import read_setting

_VARIABLES = {"cuda": ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"), "xpu": ("ZE_AFFINITY_MASK",)}
# The kinds of devices that may have a number.
NUMBERED = tuple(_VARIABLES)
# The time between two looks at whether a GPU is free.
_LOOK_EVERY_S = 0.5
# The descriptors of the open lock files of this process, each with the number of its holders here.
_held: dict[Path, tuple[int, int]] = {}
# The UUID of each GPU by its kind and entry, as torch has told it.
_uuids: dict[tuple[str, str], str] = {}
_told: set[str] = set()  # the kinds of which torch has told what it knows
# Files and environment variables of places where the machine may not be the user's own.
_SIGNS = {
    ".dockerenv": "a container",
    "run/.containerenv": "a container",
    ".singularity.d": "a container",
    "KUBERNETES_SERVICE_HOST": "a container",
    "SLURM_JOB_ID": "a batch job",
    "PBS_JOBID": "a batch job",
}


def borrowed_because(root: Path = Path("/")) -> str | None:
    """Why the machine may not be the user's own, such as `a container, a virtual machine`; None without a sign."""
    places = {place for sign, place in _SIGNS.items() if sign in os.environ or (root / sign).exists()}
    if virtual(root):
        places.add("a virtual machine")
    return ", ".join(sorted(places)) or None


def virtual(root: Path) -> bool | None:
    """Whether this is a virtual machine. x86 CPUs report it among their flags."""
    flags = [line for line in (read_setting(root / "proc/cpuinfo") or "").splitlines() if line.startswith("flags")]
    return "hypervisor" in flags[0].split() if flags else None


def variable_of(kind: str, variables: Mapping[str, str] = os.environ) -> str:
    """The variable that lists the visible GPUs of this kind: on ROCm its own one, if it is set."""
    names = _VARIABLES[kind]
    return next((name for name in names if variables.get(name)), names[-1])


def entry_of(device: str, variables: Mapping[str, str] = os.environ) -> str:
    """The GPU of a device such as `cuda:1`, as the variable lists it: its number on this machine, or its UUID.

    Raises UsageError if the variable lists fewer GPUs.
    """
    kind, _, number = device.partition(":")
    place = int(number or 0)
    if kind not in _VARIABLES:
        return str(place)
    name = variable_of(kind, variables)
    listed = [entry.strip() for entry in variables.get(name, "").split(",") if entry.strip()]
    if listed and place >= len(listed):
        raise UsageError(f"device={device}: {name}={','.join(listed)} shows no such GPU: the first is device={kind}:0")
    return listed[place] if listed else str(place)


def entries(kind: str, count: int) -> list[str]:
    """The first `count` visible GPUs of this kind: the UUID of each if `learn` knows it, or else as `entry_of`."""
    named = [entry_of(f"{kind}:{number}") for number in range(count)]
    return [_uuids.get((kind, entry), entry) for entry in named]


def learn(kind: str, uuids: Sequence[str | None], variables: Mapping[str, str] = os.environ) -> None:
    """Remember the UUIDs of the visible GPUs of this kind, in the order in which torch sees them."""
    _told.add(kind)
    for number, uuid in enumerate(uuids):
        if uuid:
            _uuids[kind, entry_of(f"{kind}:{number}", variables)] = uuid


def is_learned(device: str) -> bool:
    """Whether torch has told which GPU the device is, or cannot tell it."""
    kind = device.partition(":")[0]
    return kind in _told or kind not in _VARIABLES


def see_only(device: str) -> str:
    """Let this process and its children see only the GPU of a device such as `cuda:1`. Return its kind, `cuda`.

    A device without a number stays as it is. Call this before anything has initialised the GPUs.
    """
    kind, numbered, _ = device.partition(":")
    if numbered and kind in _VARIABLES:
        os.environ[variable_of(kind)] = entry_of(device)
    return kind


@contextmanager
def one_trial_on(device: str, variables: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Wait until no other process has a trial on the GPU of this device, and keep others off it.

    Trials of this process may share it: the two sides of a comparison take turns. Without effect on the CPU.
    `variables` is the environment of the trial.
    """
    if device == "cpu":
        yield
        return
    kind = device.partition(":")[0]
    path = _path(kind, kind, entry_of(device, variables))
    while not _take(path):
        time.sleep(_LOOK_EVERY_S)
    try:
        yield
    finally:
        descriptor, holders = _held.pop(path)
        if holders > 1:
            _held[path] = descriptor, holders - 1
        else:
            os.close(descriptor)


def take_free_gpu(kind: str, visible: Sequence[str]) -> int:
    """Wait for a GPU among `visible` that no other shard has, and take it until this process ends. Return its place."""
    while True:
        for place, entry in enumerate(visible):
            path = _path(f"shard-{kind}", kind, entry)
            if path not in _held and _take(path):
                return place
        time.sleep(_LOOK_EVERY_S)


def _path(what: str, kind: str, entry: str) -> Path:
    return Path(tempfile.gettempdir(), f"attn-harness-{what}-{_identity(kind, entry).replace('/', '_')}.lock")


def _identity(kind: str, entry: str) -> str:
    """What tells a GPU from all others of this machine: its UUID if known, or its number in this job of Slurm."""
    job = entry.isdigit() and os.environ.get("SLURM_JOB_ID")  # the entry may be the beginning of a UUID too
    return _uuids.get((kind, entry), f"{entry}-of-job-{job}" if job else entry)


def _take(path: Path) -> bool:
    """Take the lock of this file, which ends with the process at the latest. Return whether it was free, or ours."""
    if path in _held:
        descriptor, holders = _held[path]
        _held[path] = descriptor, holders + 1
        return True
    try:  # in /tmp, Linux lets nobody create what is another user's already (fs.protected_regular)
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    # Everybody on the machine may use the GPU, so everybody may open the file.
    with suppress(PermissionError):  # it is somebody else's
        os.chmod(path, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    _held[path] = descriptor, 1
    return True
