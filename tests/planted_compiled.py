"""Layers that compile, each with a habit that its name says. Measured as `impl=planted_compiled:Name`."""

import subprocess

import torch
from torch import Tensor, nn


def mixed(x: Tensor, weight: Tensor) -> Tensor:
    return torch.tanh(x @ weight)


class Mixes(nn.Module):
    """As it is written; what the others compute too."""

    family = "mixers"

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(d_model) * 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return mixed(x, self.weight)


class SaysSo(Mixes):
    compiled = True
    reference = Mixes

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.call = torch.compile(mixed, fullgraph=True, dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x, self.weight)


class CompilesInSilence(Mixes):
    """Compiles, and does not say so; by a compiler that is quick, since it leaves the graph as it is."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.call = torch.compile(mixed, backend="eager")

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x, self.weight)


class SaysSoAndDoesNot(Mixes):
    compiled = True


class BreaksInALoop(Mixes):
    """Of a loop that leaves the graph the compiler makes none, and says nothing."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.call = torch.compile(self.again)

    def again(self, x: Tensor, weight: Tensor) -> Tensor:
        for _ in range(2):
            torch._dynamo.graph_break()
            x = torch.tanh(x @ weight)  # not `mixed`, which would be compiled by itself
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x, self.weight)


class LeavesTheGraph(Mixes):
    """Asked for one graph, and cannot be one."""

    compiled = True

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.call = torch.compile(self.in_two, fullgraph=True)

    def in_two(self, x: Tensor) -> Tensor:
        y = mixed(x, self.weight)
        torch._dynamo.graph_break()
        return y

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x)


class NeverSettles(Mixes):
    """Every so many calls are another graph: a number goes into it that changes with them."""

    compiled = True
    steps = 1

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.calls = 0
        self.call = torch.compile(lambda x, number: mixed(x, self.weight) + 0 * number, backend="eager", dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.call(x, self.calls // self.steps)


class SettlesForAWhile(NeverSettles):
    steps = 20


class CompilesForEver(Mixes):
    """Its compiler starts a process of its own that does not end, as a C++ compiler that hangs."""

    def forward(self, x: Tensor) -> Tensor:
        import torch._inductor.compile_fx  # noqa: F401

        subprocess.run(["sleep", "4714"], check=True)
        return x
