"""Layers that replace what others time a GPU with. The trials of each must read the times of the honest one."""

import time

import torch
from torch import Tensor, nn


class Honest(nn.Module):
    """A product of matrices."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.project = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, n, d) to (b, n, d)."""
        return self.project(x)


class HalvesTheClock(Honest):
    """From its construction on, the clock of Python runs at half its rate."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        torch.ones(1, device="cuda")  # the simulated time has begun
        real = time.perf_counter
        time.perf_counter = lambda: real() / 2


class HalvesEvents(Honest):
    """From its construction on, events are half as far apart, and nobody waits for the GPU."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        real = torch.cuda.Event

        class Halved(real):  # type: ignore[misc,valid-type]
            def elapsed_time(self, end: torch.cuda.Event) -> float:
                return super().elapsed_time(end) / 2

        torch.cuda.Event = Halved  # type: ignore[misc]
        torch.cuda.synchronize = lambda device=None: None


class HalvesTheMethod(Honest):
    """From its construction on, events themselves are half as far apart."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        real = torch.cuda.Event.elapsed_time
        torch.cuda.Event.elapsed_time = lambda self, end: real(self, end) / 2  # type: ignore[method-assign]
