"""The interface between the sampling and a GPU. `torch_device` implements it; a test's device simulates time."""

from typing import Any, Protocol


class Event(Protocol):
    """A mark in the GPU's queue, with the method names of `torch.cuda.Event`."""

    def query(self) -> bool:
        """Whether the GPU has reached the event."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this event to a later one. The GPU must have reached both."""


class Gauge(Protocol):
    """Readings of the GPU's clock rates and throttle reasons, taken now and then and summarised at the end."""

    def read(self) -> None: ...

    def facts(self) -> dict[str, Any]: ...


class Device(Protocol):
    """One queue, executed in order. All methods except `sync` return before the GPU reaches what they enqueue."""

    l2_bytes: int
    gauge: Gauge

    def mark(self) -> Event:
        """Enqueue an event and return it."""

    def flush_l2(self) -> None:
        """Enqueue a write that fills the L2 cache with other data."""

    def hold(self, seconds: float) -> None:
        """Hold the queue for at least `seconds` once the GPU reaches this point: later entries wait."""

    def sync(self) -> None:
        """Wait until the queue is empty."""
