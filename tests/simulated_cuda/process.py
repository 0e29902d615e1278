"""The simulated GPU of this process, its settings, and the time in this process.

HARNESS_SIMULATED_CUDA is a file of JSON, or the JSON itself: values of `Settings`, all of which have defaults. Each
process has a GPU of its own, as at most one trial runs at a time. Its time begins with the first use of CUDA. From then
on `time.perf_counter` is the simulated time, and what Python and the CPU do takes none.
"""

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.trial.timing.cuda.records import clock_rates, launch_costs, read
from core.trial.timing.cuda.simulated_gpu import SimClock, SimGpu

VARIABLE = "HARNESS_SIMULATED_CUDA"
UUID = "51310000-0000-4000-8000-000000000001"
# A GPU of today: what its queue, events and launches cost.
HARDWARE: dict[str, Any] = {
    "launch_s": 3e-6,
    "event_launch_s": 1e-6,
    "event_s": 1.5e-6,
    "tick_s": 32e-9,
    "gap_s": 1e-6,
    "graph_gap_s": 0.6e-6,
    "graph_launch_s": 4e-6,
    "graph_node_s": 0.2e-6,
    "lazy_s": 200e-6,
    "jitter": 0.1,
    "stall_s": 50e-6,
    "l2_bytes": 2**16,
    "bytes_per_s": 2.5e8,
}
CLOCK: dict[str, Any] = {"boost_hz": 1.98e9, "sustained_hz": 1.9e9, "tau_s": 20e-3}


@dataclass
class Settings:
    """The GPU. It is a thousand times slower than a real one, so that what a CPU computes quickly takes milliseconds.

    Only its half precision is fast, as the reference workload uses it, with products of a fixed size.

    - `record`: the file of a recorder. Launches, events, the queue and the clock rates are as recorded, in place of
      those above. Cache and memory stay those above, which are slow.
    - `hardware`, `clock`: arguments of `SimGpu` and `SimClock`, in place of those above and of the record's.
    - `flops_per_s`: the peak of products by dtype, at the boost clock. Other dtypes have the peak of float64.
    - `spread`: the standard deviation between processes of the logarithm of the clock rate.
    - `slower`: the share by which every kernel takes longer.
    - `power_limits_w`: the power limit of each GPU, by UUID in CUDA's order. NVML has the order of the UUIDs.
    - `allocator`: the allocator of torch's memory. Only the `native` one counts the bytes that are requested.
    - `nvml`: whether NVML finds the GPU. If not, a trial is spared half a second of calls that are only for its energy.
    """

    record: str | None = None
    hardware: dict[str, Any] = field(default_factory=dict)
    clock: dict[str, Any] = field(default_factory=dict)
    flops_per_s: dict[str, float] = field(
        default_factory=lambda: {"float64": 1e8, "float32": 5e8, "bfloat16": 1e13, "float16": 1e13}
    )
    memory_bytes: int = 2**28
    name: str = "Simulated GPU"
    spread: float = 0.003
    slower: float = 0.0
    seed: int | None = None
    power_limits_w: dict[str, float] = field(default_factory=lambda: {UUID: 700.0})
    allocator: str = "native"
    nvml: bool = True

    def made(self) -> SimGpu:
        """The GPU of a process. Without a `seed`, it differs from that of other processes as trials do."""
        draw = random.Random(self.seed)
        recorded = read(Path(self.record)) if self.record else None
        hardware, rates = (launch_costs(recorded), clock_rates(recorded)) if recorded else ({}, {})
        values = {**CLOCK, **rates, **self.clock}
        share = draw.lognormvariate(0.0, self.spread)
        for name in ("boost_hz", "sustained_hz"):
            values[name] = values[name] and values[name] * share
        return SimGpu(**{**HARDWARE, **hardware, **self.hardware}, clock=SimClock(**values), seed=draw.randrange(2**32))


def settings() -> Settings:
    """The settings that the environment names."""
    text = os.environ.get(VARIABLE) or "{}"
    return Settings(**json.loads(text if text.lstrip().startswith("{") else Path(text).read_text()))


def visible() -> list[str]:
    """The UUIDs of the GPUs that CUDA_VISIBLE_DEVICES shows to this process, by number or UUID."""
    every = list(settings().power_limits_w)
    listed = [entry for entry in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if entry]
    named = [every[int(entry)] if entry.isdigit() else entry.removeprefix("GPU-") for entry in listed]
    return [uuid for uuid in named if uuid in every] if listed else every


@dataclass
class _Here:
    settings: Settings
    gpu: SimGpu
    began_s: float | None = None  # of the real clock


_present: list[_Here] = []
# A fork gets another GPU.
os.register_at_fork(after_in_child=_present.clear)


def here() -> _Here:
    """This process's GPU."""
    if not _present:
        given = settings()
        _present.append(_Here(given, given.made()))
    return _present[0]


def is_used() -> bool:
    """Whether this process uses CUDA."""
    return bool(_present) and _present[0].began_s is not None


def clock(real: Callable[[], float]) -> Callable[[], float]:
    """The clock of this process, in seconds."""

    def now() -> float:
        mine = _present[0] if _present else None
        return real() if mine is None or mine.began_s is None else mine.began_s + mine.gpu.now

    now.__module__, now.__name__ = "time", "perf_counter"  # pytest-benchmark looks the clock up by its name
    return now
