"""Layers that compile, each named after its habit. Measured as `impl=planted_compiled:Name`."""

import subprocess

import torch
from torch import Tensor, nn


def mixed(x: Tensor, weight: Tensor) -> Tensor:
    return torch.tanh(x @ weight)


class Mixes(nn.Module):
    """Not compiled. Most of the others compute the same."""

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
    """Compiles without declaring it. The backend is quick, because it leaves the graph unchanged."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.call = torch.compile(mixed, backend="eager")

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x, self.weight)


class SaysSoAndDoesNot(Mixes):
    compiled = True


class BreaksInALoop(Mixes):
    """Has a graph break in a loop: the compiler then makes no graph, without any message."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.call = torch.compile(self.again)

    def again(self, x: Tensor, weight: Tensor) -> Tensor:
        for _ in range(2):
            torch._dynamo.graph_break()
            x = torch.tanh(x @ weight)  # not `mixed`: the compiler would compile that function separately
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x, self.weight)


class LeavesTheGraph(Mixes):
    """Asks for one graph, which its graph break makes impossible."""

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
    """Needs a new graph every `steps` calls, because a number in the graph changes."""

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
    """Its compiler starts a process that does not end, like a C++ compiler that hangs."""

    def forward(self, x: Tensor) -> Tensor:
        import torch._inductor.compile_fx  # noqa: F401

        subprocess.run(["sleep", "4714"], check=True)
        return x
