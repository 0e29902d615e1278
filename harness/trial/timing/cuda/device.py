"""What the sampling asks of a GPU. Torch's is in `torch_device`; tests have one whose time they turn themselves."""

from typing import Any, Protocol


class Event(Protocol):
    """A mark in the GPU's queue, by the names of `torch.cuda.Event`."""

    def query(self) -> bool:
        """Whether the GPU has come to it."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this one to a later one, both of them reached."""


class Gauge(Protocol):
    """The GPU's clocks and what holds them down, read now and then and summed up at the end."""

    def read(self) -> None: ...

    def facts(self) -> dict[str, Any]: ...


class Device(Protocol):
    """One queue, worked off in order. Everything but `sync` returns before the GPU has come to it."""

    l2_bytes: int
    gauge: Gauge

    def mark(self) -> Event:
        """An event at the queue's present end."""

    def flush_l2(self) -> None:
        """Fill the L2 cache with something else."""

    def hold(self, seconds: float) -> None:
        """Keep the GPU from what is enqueued after this, for at least so long from when it gets here."""

    def sync(self) -> None:
        """Wait until the queue is empty."""
