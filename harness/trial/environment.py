"""Control and record what surrounds the samples of a trial: its heap, its CPUs, the machine's speed, and interference.

All of these differ by chance between trials of the same layer, and so do the layer's times. A GPU's clock rates, power,
temperature and other processes are read with NVML.
"""

import contextlib
import ctypes
import importlib
import os
import random
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.sweep_axes import MAPPED_FROM_BYTES
from harness.trial.workload import Unsupported

# Parameter numbers of `mallopt` in malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
# glibc's own initial threshold and number of mapped blocks. A threshold set explicitly no longer changes.
_FRESH_BYTES = MAPPED_FROM_BYTES["fresh"]
_FRESH_BLOCKS = 65536

# A heap that keeps its memory has reached its size after `_SETTLED_CALLS` calls in a row with at most `_SETTLED_FAULTS`
# page faults each. `_MOST_CALLS` bounds the calls.
_SETTLED_CALLS = 6
_SETTLED_FAULTS = 16
_MOST_CALLS = 40

# `mallopt` parameters and values, in order.
_SETTINGS = {
    "default": (),
    # No block is mapped separately and none is returned. Memory stays once touched, and causes no further faults.
    "steady": ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1)),
    # Every large block is mapped separately and returned when freed, so it causes faults at every call.
    "fresh": ((_M_MMAP_MAX, _FRESH_BLOCKS), (_M_MMAP_THRESHOLD, _FRESH_BYTES), (_M_TRIM_THRESHOLD, _FRESH_BYTES)),
}


def set_allocator(name: str) -> None:
    """Configure the allocator of this process as `default`, `steady` or `fresh`.

    Large blocks cause page faults never (`steady`) or at every call (`fresh`). By default, glibc returns a freed block
    to the kernel if its size exceeds a threshold, which depends on earlier blocks. So a layer's past decides whether
    its n × n scores are new memory at every call, zeroed page by page. See mallopt(3), M_MMAP_THRESHOLD.

    Raises Unsupported if the C library is not glibc or refuses the setting.
    """
    settings = _SETTINGS[name]
    if not settings:
        return
    library = ctypes.CDLL(None)
    if sys.platform != "linux" or not hasattr(library, "gnu_get_libc_version"):
        raise Unsupported(f"allocator={name} needs glibc: measure with allocator=default")
    for parameter, value in settings:
        if not library.mallopt(parameter, value):
            raise Unsupported(f"allocator={name}: glibc refused mallopt({parameter}, {value})")


def warm_up(
    call: Callable[[], Any],
    sync: Callable[[], None],
    until: Callable[[list[float], float], bool],
    clock: Callable[[], float] = perf_counter,
) -> tuple[list[float], float]:
    """Call until `until(seconds of each call, seconds in all)` is true. Return both. `sync` waits for a call's work."""
    times: list[float] = []
    begin = clock()
    while True:
        start = clock()
        call()
        sync()
        now = clock()
        times.append(now - start)
        if until(times, now - begin):
            return times, now - begin


def settle_heap(call: Callable[[], Any]) -> None:
    """Call until a heap that keeps its memory no longer grows. The page faults of growing then occur before timing."""
    faults = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]

    def is_settled(times: list[float], _: float) -> bool:
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
        quiet = [after - before <= _SETTLED_FAULTS for before, after in pairwise(faults[-_SETTLED_CALLS - 1 :])]
        return len(times) == _MOST_CALLS or (len(quiet) == _SETTLED_CALLS and all(quiet))

    warm_up(call, lambda: None, is_settled)


_BLOCKS = 128
# Blocks of up to 2^16 bytes are below glibc's initial mmap threshold of 128 KiB. A larger block would not lie in the
# heap, and freeing it would move the threshold.
_LARGEST_POWER = 16


def randomize_heap() -> list[bytearray]:
    """Give this trial's heap its own random layout. Keep the returned blocks until the trial ends.

    The C library reuses a large block, or fetches new pages from the kernel for every call. Which one happens depends
    on what lies above the block in the heap. This is decided by chance, once in the life of a process, and trials
    forked from one server inherit the same layout. Such trials agree with each other and their interval is narrow, but
    the trials of another sweep may be twice as fast.

    Example: packed attention at n = 512, d = 256, h = 8, with five trials from each of five parents. A call took 4.6 or
    8.2 ms, depending on the server, with 1,500 or 4,600 page faults.

    Therefore each trial first allocates blocks of random sizes and frees a random half. The layout then differs between
    trials, and the interval includes its effect. See Mytkowicz et al. 2009, "Producing wrong data without doing
    anything obviously wrong!".
    """
    draws = random.Random(os.urandom(8))
    blocks = [bytearray(draws.randrange(1, 1 << draws.randint(4, _LARGEST_POWER))) for _ in range(_BLOCKS)]
    return draws.sample(blocks, _BLOCKS // 2)


_TASKS = Path("/proc/self/task")


def cpu_places(threads: int) -> list[set[int]]:
    """Sets of `threads` CPUs each, which together contain all CPUs that this process may run on.

    With them, two trials can use the same CPUs in turn. The CPUs of a shared machine differ in speed. A neighbour on
    the other half of a core slows the CPU down for seconds, by two thirds on the machine where this was found. A
    process of one thread stays on its CPU. Of two such processes, one may have the fast CPU throughout and the other
    one the slow CPU.

    Empty if there is no choice: on systems other than Linux, or with at least as many threads as CPUs.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    cpus = sorted(os.sched_getaffinity(0))
    if threads >= len(cpus):
        return []
    starts = [*range(0, len(cpus) - threads, threads), len(cpus) - threads]
    return [set(cpus[start : start + threads]) for start in starts]


def affinity_mover(threads: int) -> Callable[[int], None]:
    """A function that moves all threads of this process to the CPU set of a number (see `cpu_places`).

    Numbers wrap around. Without a choice of CPUs the function does nothing.
    """
    known = cpu_places(threads)

    def move(number: int) -> None:
        if known:
            for task in _TASKS.iterdir():
                with contextlib.suppress(ProcessLookupError):  # the thread has just ended
                    os.sched_setaffinity(int(task.name), known[number % len(known)])

    return move


# 192³ multiply-adds: a tenth of a millisecond on one core, large enough to wake all threads. Exponentials, products of
# other sizes and attention, tried beside it, followed the times of layers no better.
_SIZE = 192
_READINGS = 8


@cache
def probe_matrices() -> tuple[Tensor, Tensor]:
    """The factor and the product of the probe. The fork server makes them, so that trials allocate nothing for them.

    A trial copies the pages of the product when it first writes to them, in the reading that does not count.

    The cost of new memory depends on the allocator, and large blocks that are freed change how the allocator behaves.
    NumPy fills the matrices, because the fork server must not start torch's threads.
    """
    factor, product = torch.from_numpy(np.ones((2, _SIZE, _SIZE), np.float32))
    return factor, product


def probe_readings() -> list[float]:
    """Times of the probe in seconds, with torch's present number of threads, after a first one that does not count.

    The probe is a reference workload, timed before and after the samples, and between long ones. Shared machines have
    several speeds. For seconds at a time, a neighbour takes part of the cores or the cache, and everything runs a third
    slower. A layer's samples cannot distinguish a disturbed machine from a slow layer. A fixed workload can.
    """
    factor, product = probe_matrices()
    readings = []
    with torch.no_grad():
        for _ in range(1 + _READINGS):
            start = perf_counter()
            torch.mm(factor, factor, out=product)
            readings.append(perf_counter() - start)
    return readings[1:]


_STAT = Path("/proc/stat")
_FREQUENCY = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"


@dataclass
class Usage:
    """Counters at one moment: this process's own, from getrusage(2), and the machine's ticks, from proc(5).

    Their increase during the samples shows what else happened, so that a slow trial can be explained. `cpu_s` is in
    seconds, from Python's `process_time`.
    """

    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    cpu_s: float
    steal_ticks: int = 0
    machine_ticks: int = 0

    def since(self, earlier: "Usage") -> dict[str, float]:
        """The increase of each counter since `earlier`."""
        return {name: round(value - getattr(earlier, name), 6) for name, value in vars(self).items()}


def usage() -> Usage:
    """The present counters, over all threads of this process."""
    # Read the process's own counters first, because reading the machine's increases them.
    r, cpu_s = resource.getrusage(resource.RUSAGE_SELF), process_time()
    try:
        steal, machine = cpu_ticks(_STAT.read_text())
    except OSError:  # not on Linux, or hidden by a sandbox
        steal = machine = 0
    return Usage(r.ru_minflt, r.ru_majflt, r.ru_nvcsw, r.ru_nivcsw, cpu_s, steal, machine)


def cpu_ticks(stat: str) -> tuple[int, int]:
    """`(stolen, all)` ticks of all CPUs, from the text of /proc/stat.

    The fields are user nice system idle iowait irq softirq steal …. The guest time that follows is part of user time,
    so it is not counted again.
    """
    counted = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
    return (counted[7] if len(counted) > 7 else 0), sum(counted)


def cpu_mhz(root: Path = Path("/")) -> float | None:
    """The clock rate of this thread's present CPU in MHz; None if the machine does not report it."""
    try:
        # Split after the command's name, which may contain spaces. `processor` is the 39th field of the whole line.
        cpu = (root / "proc/self/stat").read_text().rpartition(")")[2].split()[36]
        return int((root / _FREQUENCY.format(cpu)).read_text()) / 1000
    except (OSError, ValueError, IndexError):
        return None


# The reasons why a GPU lowers its clock rate: `nvmlClocksEventReason…` in NVML's API reference, before its version 12.2
# `nvmlClocksThrottleReason…`. The first is that nothing runs.
_IDLE = 0x1
_REASONS = {
    0x2: "application clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
    0x200: "board limit",
    0x400: "reliability",
}


def in_words(bits: int) -> list[str]:
    """The reasons in `bits`, lowest bit first, without idleness. All unknown bits become one entry, in hexadecimal."""
    named = [word for bit, word in _REASONS.items() if bits & bit]
    unknown = bits & ~(_IDLE | sum(_REASONS))
    return named + ([f"reason {unknown:#x}"] if unknown else [])


# Reasons that the layer's own work at its usual power explains, or a setting of the user. The others disturb a trial.
_USUAL = _IDLE | 0x2 | 0x4 | 0x10 | 0x100

# The name of an NVML function that finds a GPU, and the function's argument.
Address = tuple[str, str]
# Drivers and bindings used the second name before NVML 12.2.
_REASONS_FUNCTIONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


def addresses(properties: Any) -> list[Address]:
    """Ways for NVML to find the GPU with these properties (`torch.cuda.get_device_properties`), best first.

    NVML numbers all GPUs of a machine and ignores CUDA_VISIBLE_DEVICES. The GPU is therefore identified by its UUID, or
    by its PCI address.
    """
    found: list[Address] = []
    uuid = str(getattr(properties, "uuid", "")).removeprefix("GPU-")
    if uuid:
        found.append(("nvmlDeviceGetHandleByUUID", f"GPU-{uuid}"))
    if hasattr(properties, "pci_bus_id"):  # since torch 2.8
        where = f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
        found.append(("nvmlDeviceGetHandleByPciBusId", where))
    if uuid:  # a slice of a GPU, for which NVML reports fewer values than for a whole GPU
        found.append(("nvmlDeviceGetHandleByUUID", f"MIG-{uuid}"))
    return found


class NvmlGauge:
    """Readings of one GPU. A reading never raises: an unavailable value is None, and `nvml_note` gives the reason.

    `nvml` is the module of nvidia-ml-py, or a module with the same interface.
    """

    def __init__(self, where: Sequence[Address], nvml: Any = None) -> None:
        self._handle: Any = None
        self._notes: dict[str, str] = {}
        self._readings: list[dict[str, Any]] = []
        self._nvml = nvml
        self._open(where)
        self.sm_clock_max_mhz: int | None = self.ask("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM")

    def read(self) -> None:
        """Take a reading. This enqueues nothing, but takes host time, so do not call it inside a sample."""
        power = self.ask("nvmlDeviceGetPowerUsage")
        self._readings.append(
            {
                "sm_clock_mhz": self.ask("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
                "memory_clock_mhz": self.ask("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
                "power_w": None if power is None else power / 1000,
                "temperature_c": self.ask("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
                "throttle": self._reasons(),
            }
        )

    def driver(self) -> str | None:
        """The version of NVIDIA's driver."""
        version = self._nvml.nvmlSystemGetDriverVersion() if self.is_open else None
        return version.decode() if isinstance(version, bytes) else version

    @property
    def is_open(self) -> bool:
        """Whether NVML has found the GPU."""
        return self._handle is not None

    def energy_j(self) -> float | None:
        """The energy that the GPU has used since its driver was loaded, in joules; None if it does not count it.

        The difference of two readings is exact, where `power_w` is an average over the second before it was read.
        """
        energy_mj = self.ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if energy_mj is None else energy_mj / 1000

    def facts(self) -> dict[str, Any]:
        """Summarise the readings.

        Clock rates (MHz) and power (W) are medians, and the temperature (°C) is the highest. All throttle reasons are
        listed. `gpu_processes` is the number of other processes on the GPU. In a container, NVML may not see them all.
        `gpu_disturbed` is whether another process computes there, or the clock rate falls for a reason not in `_USUAL`.
        """
        bits, computing = self._values("throttle"), self._others("Compute")
        signs = [b & ~_USUAL for b in bits] + ([] if computing is None else [computing])
        names = ("sm_clock_mhz", "memory_clock_mhz", "power_w")
        medians = {name: median(values) if (values := self._values(name)) else None for name in names}
        return {
            **medians,
            "sm_clock_max_mhz": self.sm_clock_max_mhz,
            "temperature_c": max(self._values("temperature_c"), default=None),
            "throttle_reasons": sorted({word for b in bits for word in in_words(b)}) if bits else None,
            "gpu_processes": self._others("Compute", "Graphics"),
            "gpu_disturbed": any(signs) if signs else None,
            "nvml_note": "; ".join(f"{what}: {why}" for what, why in self._notes.items()) or None,
        }

    def _open(self, where: Sequence[Address]) -> None:
        try:
            self._nvml = self._nvml or importlib.import_module("pynvml")
        except ImportError as error:
            self._notes["pynvml"] = str(error)
            return
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            self._notes["nvmlInit"] = str(error)
            return
        failed: dict[str, str] = {}
        for function, value in where:
            try:
                self._handle = getattr(self._nvml, function)(value)
                return
            except self._nvml.NVMLError as error:
                failed[value] = str(error)
        self._notes |= failed or {"nvml": "torch does not say which GPU it uses"}

    def ask(self, function: str, *constants: str) -> Any:
        """Call an NVML function for this GPU, with the NVML constants of these names. None if there is no answer."""
        if self._handle is None:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *(getattr(self._nvml, name) for name in constants))
        except self._nvml.NVMLError as error:
            self._notes[function] = str(error)
        except AttributeError:
            self._notes[function] = "not in this nvidia-ml-py"
        return None

    def _reasons(self) -> int | None:
        for function in _REASONS_FUNCTIONS:
            bits: int | None = self.ask(function)
            if bits is not None:
                for other in _REASONS_FUNCTIONS:
                    self._notes.pop(other, None)
                return bits
        return None

    def _others(self, *kinds: str) -> int | None:
        lists = [self.ask(f"nvmlDeviceGet{kind}RunningProcesses") for kind in kinds]
        known = [processes for processes in lists if processes is not None]
        pids = {process.pid for processes in known for process in processes}
        # One of them is this process, with its number outside its container.
        return max(0, len(pids) - 1) if known else None

    def _values(self, name: str) -> list[Any]:
        return [reading[name] for reading in self._readings if reading[name] is not None]


# Facts of a GPU that decide how fast it is, and the NVML function and constant that tell each.
_GPU_STATE = {
    "power_limit_mw": ("nvmlDeviceGetPowerManagementLimit",),
    "sm_clock_max_mhz": ("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
    "memory_clock_max_mhz": ("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM"),
    "application_sm_clock_mhz": ("nvmlDeviceGetApplicationsClock", "NVML_CLOCK_SM"),
    "default_sm_clock_mhz": ("nvmlDeviceGetDefaultApplicationsClock", "NVML_CLOCK_SM"),
    "application_memory_clock_mhz": ("nvmlDeviceGetApplicationsClock", "NVML_CLOCK_MEM"),
    "persistence_mode": ("nvmlDeviceGetPersistenceMode",),
    "ecc_mode": ("nvmlDeviceGetEccMode",),
    "mig_mode": ("nvmlDeviceGetMigMode",),
}


def gpu_state(where: Sequence[Address], nvml: Any = None) -> dict[str, Any]:
    """The GPU's driver, power limit, clock rates and modes. A mode is 1 if it is on; None if NVML does not tell."""
    gauge = NvmlGauge(where, nvml)
    state = {name: gauge.ask(*asked) for name, asked in _GPU_STATE.items()}
    # ECC and MIG modes are pairs of the present mode and the one after the next start.
    state |= {name: value[0] for name, value in state.items() if isinstance(value, list | tuple)}
    power_mw = state.pop("power_limit_mw")
    return {"driver": gauge.driver(), "power_limit_w": None if power_mw is None else power_mw / 1000, **state}
