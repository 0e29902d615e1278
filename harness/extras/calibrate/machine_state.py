"""The state of a machine: its settings as the kernel reports them, and what else ran during a measurement.

Settings are read below a `root`, which is `/` on a real machine. In containers and virtual machines, and off Linux,
many of them cannot be read.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.core.model.file_io import cpu_quota, read_setting
from harness.core.model.gpus import virtual

_CPUS = "sys/devices/system/cpu"


@dataclass(frozen=True)
class MachineState:
    """The machine's settings. A setting that cannot be read is None and named in `unreadable`.

    `cpu_quota` is in CPUs, and None without a quota. `usable_cores` counts the physical cores behind the usable CPUs.
    """

    usable_cpus: int
    usable_cores: int | None
    governors: tuple[str, ...] | None
    scaling_driver: str | None
    turbo: bool | None
    smt: bool | None
    virtual: bool | None
    clocksource: str | None
    huge_pages: str | None
    cpu_quota: float | None
    on_battery: bool | None
    swap_used_bytes: int
    unreadable: tuple[str, ...]


def read_machine_state(root: Path = Path("/")) -> MachineState:
    """Read the machine's settings now."""
    # Not every system can bind a process to CPUs.
    usable = getattr(psutil.Process(), "cpu_affinity", lambda: [*range(os.cpu_count() or 1)])()
    quota, quota_is_known = cpu_quota(root)
    huge_pages = read_setting(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    governors = root.glob(f"{_CPUS}/cpu[0-9]*/cpufreq/scaling_governor")
    settings = {
        "usable_cores": usable_cores(root, usable),
        "governors": tuple(sorted({*filter(None, map(read_setting, governors))})) or None,
        "scaling_driver": read_setting(root / _CPUS / "cpu0/cpufreq/scaling_driver"),
        "turbo": turbo(root),
        "smt": _flag(root / _CPUS / "smt/active"),
        "virtual": virtual(root),
        "clocksource": read_setting(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "huge_pages": huge_pages.partition("[")[2].partition("]")[0] or None,  # the marked one: always [madvise] never
        "on_battery": on_battery(),
    }
    unreadable = [name for name, value in settings.items() if value is None]
    if not quota_is_known:
        unreadable.append("cpu_quota")
    return MachineState(
        usable_cpus=len(usable),
        cpu_quota=quota,
        swap_used_bytes=psutil.swap_memory().used,
        unreadable=tuple(sorted(unreadable)),
        **settings,  # type: ignore[arg-type]
    )


def usable_cores(root: Path, cpus: list[int]) -> int | None:
    """The number of physical cores behind the given CPUs: hyper-threads of one core count once."""
    siblings = [read_setting(root / _CPUS / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus]
    return None if None in siblings else len(set(siblings))


def turbo(root: Path) -> bool | None:
    """Whether the clock may exceed its nominal frequency while the chip is cool enough."""
    off = _flag(root / _CPUS / "intel_pstate/no_turbo")
    return not off if off is not None else _flag(root / _CPUS / "cpufreq/boost")


def on_battery() -> bool | None:
    """Whether the machine runs on its battery. False if it has none."""
    try:
        battery = psutil.sensors_battery()
    except (OSError, AttributeError):  # hidden by a container, or not known on this system
        return None
    return battery is not None and battery.power_plugged is False


def _flag(path: Path) -> bool | None:
    text = read_setting(path)
    return None if text is None else text == "1"


# At most this many processes are named, and only those that took at least this share of one core.
_MOST_NAMED = 3
_LEAST_NAMED = 0.02


@dataclass(frozen=True)
class Snapshot:
    """Counters of CPU time in seconds, and of swapped bytes, since boot.

    The machine's are `busy_s`, `total_s` and `steal_s`; the last is None if the kernel does not report it. Those of
    this process and its ended children are in `own_s`. The map `others` holds the name and CPU time of every other
    process, by (id, time of creation). The CPU time includes that of its ended children: what a shell starts ends soon,
    and only the shell remains to be named.
    """

    at_s: float
    total_s: float
    busy_s: float
    steal_s: float | None
    own_s: float
    swapped_bytes: int
    others: dict[tuple[int, float], tuple[str, float]]


@dataclass(frozen=True)
class Busy:
    """Another process that used the CPU, with its children. `cores` is 0.5 for half a core's time."""

    pid: int
    name: str
    cores: float


@dataclass(frozen=True)
class BackgroundLoad:
    """What else ran during a measurement: time stolen by the host, other processes, and swapping.

    Both shares are of the time of all CPUs. `steal_share` is None if the kernel does not report it.
    """

    steal_share: float | None
    other_share: float
    swapped_bytes: int
    busiest: tuple[Busy, ...]


def take_snapshot() -> Snapshot:
    """The counters now. Take one before the first child process starts, and one after the last has ended."""
    times = psutil.cpu_times()._asdict()
    swap = psutil.swap_memory()
    busy_s = sum(times.get(name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    processes = {}
    for process in psutil.process_iter(["pid", "name", "create_time", "cpu_times"]):
        info = process.info
        if info["pid"] not in ours and info["cpu_times"] is not None:
            used = info["cpu_times"]
            cpu_s = used.user + used.system + used.children_user + used.children_system
            processes[info["pid"], info["create_time"]] = (info["name"] or "?", cpu_s)
    return Snapshot(
        at_s=time.monotonic(),
        total_s=busy_s + times["idle"] + times.get("iowait", 0.0) + times.get("steal", 0.0),
        busy_s=busy_s,
        steal_s=times.get("steal"),
        own_s=sum(os.times()[:4]),
        swapped_bytes=swap.sin + swap.sout,
        others=processes,
    )


def background_load(before: Snapshot, after: Snapshot) -> BackgroundLoad:
    """The load from `before` to `after`. A process that ended in between counts under its parent's name."""
    total_s = max(after.total_s - before.total_s, 1e-9)
    wall_s = max(after.at_s - before.at_s, 1e-9)
    steal = None
    if before.steal_s is not None and after.steal_s is not None:
        steal = max(0.0, after.steal_s - before.steal_s) / total_s
    other_s = max(0.0, after.busy_s - before.busy_s - (after.own_s - before.own_s))
    # A child that ends adds its whole CPU time to its parent's, including time before `before`. Hence the cap of
    # `other_s`.
    busy = []
    for process, (name, cpu_s) in after.others.items():
        _, cpu_s_before = before.others.get(process, (name, 0.0))
        busy.append(Busy(process[0], name, min(other_s, cpu_s - cpu_s_before) / wall_s))
    busiest = sorted(busy, key=lambda process: -process.cores)[:_MOST_NAMED]
    named = tuple(process for process in busiest if process.cores >= _LEAST_NAMED)
    return BackgroundLoad(steal, other_s / total_s, max(0, after.swapped_bytes - before.swapped_bytes), named)
