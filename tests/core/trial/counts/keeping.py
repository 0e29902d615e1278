"""Layers that keep memory between calls, each named after what it keeps."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class OwnLayer(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)
        self.kept: Any = None

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class EveryOutput(OwnLayer):
    def forward(self, x: Tensor) -> Tensor:
        y = self.mix(x)
        self.kept = [*(self.kept or []), y]
        return y


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


class TheOutputOfAFunction(OwnLayer):
    """The function's backward pass has freed what it saved."""

    def forward(self, x: Tensor) -> Tensor:
        self.kept = Doubles.apply(self.mix(x))
        return self.kept.clone()


class TheGraphOfEveryOutput(OwnLayer):
    """What their backward pass does not need: it is never freed."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.mix(x)
        self.kept = [*(self.kept or []), y.exp()[:1, :1, :1]]
        return y


class TheNodeOfEveryOutput(OwnLayer):
    """A node of autograd's graph, which holds what its own backward pass needs, and no tensor."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.mix(x)
        self.kept = [*(self.kept or []), y.exp().grad_fn]
        return y


class EveryGradient(OwnLayer):
    """That of its result of exp, which a hook copies."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.mix(x).exp()
        self.kept = self.kept or []
        y.register_hook(lambda gradient: self.kept.append(gradient.clone()))
        return y


class Holder:
    """No module: its weights are no parameters of the layer, and nobody frees their gradients."""

    def __init__(self, d_model: int) -> None:
        self.mix = nn.Linear(d_model, d_model, bias=False)
        self.mix.weight.requires_grad_()


class GradientsInAnObject(OwnLayer):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.holder = Holder(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x) + self.holder.mix(x)


class OwnTensor(Tensor):
    pass


class OwnArray(np.ndarray):
    pass


class EveryOutputOfItsClass(OwnLayer):
    def forward(self, x: Tensor) -> Tensor:
        y = self.mix(x)
        self.kept = [*(self.kept or []), torch.clone(y.detach()).as_subclass(OwnTensor)]
        return y


class EveryArrayOfItsClass(OwnLayer):
    def forward(self, x: Tensor) -> Tensor:
        y = self.mix(x)
        array = np.empty(y.shape, np.float32).view(OwnArray)
        self.kept = [*(self.kept or []), array]
        return y


class TheLastOutput(OwnLayer):
    def forward(self, x: Tensor) -> Tensor:
        self.kept = self.mix(x)
        return self.kept.clone()


class ATable(OwnLayer):
    """(n, n), made by the first call."""

    def forward(self, x: Tensor) -> Tensor:
        if self.kept is None:
            self.kept = torch.ones(x.shape[1], x.shape[1])
        return self.mix(self.kept @ x)


class ATableAndEveryOutput(ATable):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.outputs: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.outputs.append(super().forward(x))
        return self.outputs[-1]


class GrowingCache(OwnLayer):
    """A cache of all tokens, in new memory at each step."""

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        return torch.zeros(batch_size, 0, self.mix.in_features)

    def step(self, x_t: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.cat([state, x_t[:, None]], 1)
        return self.mix(state.sum(1)), state
