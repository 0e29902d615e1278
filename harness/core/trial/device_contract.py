"""What the sampler needs of a GPU: one queue, its events, its caches, its clock rate and its gauge.

Each part may be missing: `lacks` then says why. The sampler leaves the columns that need the part empty. Whoever adds a
device writes a class with these methods in `harness.core.trial.device_kinds`, and its line of `GPU_KINDS`.

Peak memory is not a part of this contract, because trials that count it are not timed. The class's `counted_peak`
counts it, and `uncounted` says why a device has no count.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

# The parts that a device may lack, and the columns that need each of them.
NEEDED_FOR = {
    "hold": ("time_s", "hot_gpu_s", "clean_gpu_s", "graph_s"),
    "flush": ("time_s, hot_gpu_s and graph_s unless cache=hot", "clean_gpu_s"),
    "spin": ("sm_clock_mhz", "throttled_share"),
    "capture": ("graph_s",),
    "gauge": ("energy_j",),
}


class Gauge(Protocol):
    """Readings of a GPU besides times. An unavailable value is None."""

    sm_clock_max_mhz: int | None

    @property
    def is_open(self) -> bool:
        """Whether there is anything to read."""

    def read(self) -> None:
        """Take a reading. This enqueues nothing, but takes host time."""

    def energy_j(self) -> float | None:
        """The energy that the GPU has used since an unknown moment, in joules."""

    def facts(self) -> dict[str, Any]:
        """The summary of all readings, as `harness.core.trial.nvml.NvmlGauge.facts`."""


class Device(Protocol):
    """What the sampler needs of a GPU. All methods but `sync` and `capture` return before the GPU does the work.

    `lacks` holds the parts of `NEEDED_FOR` that are missing, and why. Their methods are not called.
    """

    gauge: Gauge
    flush_bytes: int

    def name_of(self) -> str:
        """The name of the GPU."""

    @property
    def lacks(self) -> Mapping[str, str]: ...

    def mark(self) -> Any:
        """Enqueue an event, a point in the queue, and return it. It has the methods of torch's events:

        - `query()`: whether the GPU has reached this point.
        - `synchronize()`: wait until it has.
        - `elapsed_time(end_event)`: the milliseconds between two events that the GPU has reached.
        """

    def flush_l2(self, clean: bool = False) -> None:
        """Enqueue what evicts the L2 cache. Its lines are then dirty, or `clean`."""

    def hold(self, seconds: float) -> None:
        """Hold the queue for at least `seconds`."""

    def spin(self, cycles: int) -> None:
        """Enqueue a kernel that takes this number of cycles of the clock that the GPU computes with."""

    def tick(self) -> None:
        """Enqueue the shortest possible kernel."""

    def sync(self) -> None:
        """Wait until the queue is empty."""

    def capture(
        self, call: Callable[[], Any], remake: Callable[[], Callable[[], Any]] | None = None
    ) -> Callable[[], Any]:
        """Return a replay of `call` as one graph. Raises what the call raises during the capture.

        With `remake`, the call is one that it makes on the capture's stream. A backward pass needs this, because
        autograd runs it on the stream of its forward pass.
        """

    def probe_readings(self) -> list[float]:
        """Times in seconds of the GPU's reference workload."""


class NoGauge:
    """The gauge of a device of which nothing is read, and why."""

    is_open = False
    sm_clock_max_mhz: int | None = None

    def __init__(self, why: str) -> None:
        self._why = why

    def read(self) -> None:
        """Read nothing."""

    def energy_j(self) -> float | None:
        """None: unknown."""
        return None

    def facts(self) -> dict[str, Any]:
        """Nothing but the reason."""
        return {"gauge_note": self._why}


def missing(lacks: Mapping[str, str]) -> list[str]:
    """A line for each missing part: the columns that are empty, and why."""
    return [f"{', '.join(NEEDED_FOR[part])}: {why}" for part, why in lacks.items()]
