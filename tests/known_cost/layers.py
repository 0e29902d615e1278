"""Layers that cost what their name says. Measured as `impl=known_cost.layers:Name`; shape (b, n, d) -> (b, n, d)."""

import mmap
import os
import time

import torch
from torch import Tensor, nn

# Long against what an operation takes whose code is not cached: on a shared machine a hundred microseconds.
SPIN_S, STEP_S = 30e-3, 100e-6
HELD_S = 1e-3
HELD_BYTES = 2**29
PAGES = 1000
CHAIN = 37
BRANCHES = 11


class KnownCost(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Spins(KnownCost):
    """30 ms."""

    def forward(self, x: Tensor) -> Tensor:
        spin(SPIN_S)
        return x * 1.0


class SpinsInSteps(KnownCost):
    """100 µs a token: a cost linear in n."""

    def forward(self, x: Tensor) -> Tensor:
        spin(STEP_S * x.shape[1])
        return x * 1.0


class Holds(KnownCost):
    """512 MiB, every page touched, for 1 ms."""

    def forward(self, x: Tensor) -> Tensor:
        held = torch.ones(HELD_BYTES // 4)
        spin(HELD_S)
        y = x + held[0]
        del held
        return y


class Reserves(KnownCost):
    """512 MiB that remain untouched: allocated, but never mapped by the kernel."""

    def forward(self, x: Tensor) -> Tensor:
        held = torch.empty(HELD_BYTES // 4)
        spin(HELD_S)
        del held
        return x * 1.0


class Multiplies(KnownCost):
    """d³ multiply-adds, twice over, and n·d² once: 4d³ + 2bnd²."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.square = nn.Parameter(torch.eye(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.square @ self.square @ self.square)


class Chain(KnownCost):
    """37 operations, each on the result of the one before."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(CHAIN):
            x = x + 1.0
        return x - CHAIN


class Branches(KnownCost):
    """11 operations that need nothing of each other, and one that needs them all."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x * i for i in range(BRANCHES)]).sum(0)


class Slices(KnownCost):
    """One operation a step, each written to a slice of its own: n operations, none after another."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        for t in range(x.shape[1]):
            y[:, t] = x[:, t] * 2.0
        return y


class Faults(KnownCost):
    """1,000 pages, new at every call."""

    def forward(self, x: Tensor) -> Tensor:
        with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(PAGES):
                memory[page * mmap.PAGESIZE] = 1
        return x * 1.0


class FaultsInSomeProcesses(Faults):
    """A bimodal time: each process pays for the pages with a probability of one half."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.unlucky = os.urandom(1)[0] % 2 == 1

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.unlucky else x * 1.0


class MultipliesForEachToken(KnownCost):
    """The same four products of matrices, n / 64 times: a cost of real work, proportional to n."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("factor", torch.full((256, 256), 0.01))
        self.register_buffer("product", torch.zeros(256, 256))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(4 * (x.shape[1] // 64)):
            torch.mm(self.factor, self.factor, out=self.product)
        return x * 1.0
