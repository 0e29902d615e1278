"""What the GPUs cost on which times must be right: usual ones, one made of a record, and real ones with a record.

The gap between two kernels of a graph is shorter than that between two launches, as on real GPUs. So the time of a
call held in the queue and its time as a graph differ.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from core.trial.timing.cuda.recorder import record
from core.trial.timing.cuda.records import costs, read, recorded_files, write
from core.trial.timing.cuda.simulated_gpu import SimClock, SimGpu

# What a GPU of today is like: ticks, gaps, a host that is late now and then.
USUAL: dict[str, Any] = {
    "tick_s": 32e-9,
    "gap_s": 1e-6,
    "graph_gap_s": 0.6e-6,
    "event_s": 1.5e-6,
    "jitter": 0.3,
    "stall_s": 200e-6,
    "lazy_s": 1e-3,
    "event_make_s": 10e-6,
    "graph_node_s": 0.2e-6,
}
# Its events are coarse, and its host is slow.
OLDER: dict[str, Any] = {**USUAL, "tick_s": 1.024e-6, "event_s": 4e-6, "launch_s": 6e-6}


def write_record(gpu: SimGpu, path: Path) -> None:
    """Write the file that the recorder writes of a simulated GPU."""
    with pytest.MonkeyPatch.context() as patch:
        write(record(gpu.device(patch), gpu.time, lambda seconds: gpu.host(seconds)), path)


@cache
def _of_a_record() -> dict[str, Any]:
    """The recorded costs of a GPU with a large cache, fast memory and a clock rate that falls under load."""
    gpu = SimGpu(**USUAL, l2_bytes=50 * 2**20, bytes_per_s=3.3e12, clock=SimClock(1.98e9, 1.6e9, 50e-3))
    with TemporaryDirectory() as directory:
        path = Path(directory) / "record.json"
        write_record(gpu, path)
        return costs(read(path))


# Functions that return arguments of `SimGpu`.
GPUS: dict[str, Callable[[], dict[str, Any]]] = {
    "usual": lambda: USUAL,
    "older": lambda: OLDER,
    "recorded": _of_a_record,
    **{name: lambda path=path: costs(read(path)) for name, path in recorded_files().items()},
}
