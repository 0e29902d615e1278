"""A GPU whose time the test turns: one queue of limited depth, worked off in order, and a host that fills it."""

from collections import deque
from collections.abc import Callable
from typing import Any


class FakeEvent:
    def __init__(self, gpu: "FakeGpu", reached_at: float) -> None:
        self.gpu, self.reached_at = gpu, reached_at

    def query(self) -> bool:
        return self.reached_at <= self.gpu.now

    def elapsed_time(self, end_event: "FakeEvent") -> float:
        assert self.query()
        assert end_event.query(), "an event was read before the GPU had come to it"
        return 1e3 * (end_event.reached_at - self.reached_at)


class FakeGauge:
    """Notes whether the GPU was at work when it was read."""

    def __init__(self, gpu: "FakeGpu") -> None:
        self.gpu, self.busy = gpu, []

    def read(self) -> None:
        self.busy.append(self.gpu.idle_at > self.gpu.now)

    def facts(self) -> dict[str, Any]:
        return {"sm_clock_mhz": 1000}


class FakeGpu:
    """Seconds: `now` on the host, `idle_at` when the queue will be empty. A full queue stops the host for a while."""

    l2_bytes = 2**20

    def __init__(self, depth: int = 1000, flush_s: float = 20e-6, event_s: float = 1e-6, wait_s: float = 10e-6) -> None:
        self.depth, self.flush_s, self.event_s, self.wait_s = depth, flush_s, event_s, wait_s
        self.now = self.idle_at = 0.0
        self.cold = False
        self.holds: list[float] = []
        self.waits = 0
        self.gauge = FakeGauge(self)
        self._ends: deque[float] = deque()

    def clock(self) -> float:
        return self.now

    def enqueue(self, seconds: float, launch_s: float = 2e-6) -> float:
        """When the GPU will have done this."""
        self.now += launch_s
        while self._ends and self._ends[0] <= self.now:
            self._ends.popleft()
        if len(self._ends) == self.depth:
            self.now = self._ends.popleft()
        self.idle_at = max(self.now, self.idle_at) + seconds
        self._ends.append(self.idle_at)
        return self.idle_at

    def mark(self) -> FakeEvent:
        return FakeEvent(self, self.enqueue(self.event_s))

    def flush_l2(self) -> None:
        self.enqueue(self.flush_s)
        self.cold = True

    def hold(self, seconds: float) -> None:
        self.holds.append(seconds)
        self.enqueue(seconds)

    def sync(self) -> None:
        self.waits += 1
        self.now = max(self.now, self.idle_at) + self.wait_s

    def layer(self, kernels: int, kernel_s: float, launch_s: float = 4e-6, cold_s: float = 0.0) -> Callable[[], None]:
        """A call of `kernels` kernels; the first after a flush takes `cold_s` longer."""

        def call() -> None:
            for _ in range(kernels):
                extra, self.cold = (cold_s if self.cold else 0.0), False
                self.enqueue(kernel_s + extra, launch_s)

        return call
