"""A task in the shape of robust-kbench whose solutions are backward passes."""

import torch
from torch import Tensor, nn


class AutogradFunction(torch.autograd.Function):
    backward_fn = None

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, ...]:
        return AutogradFunction.backward_fn(gradient, *ctx.saved_tensors)


def forward_fn(x: Tensor, weight: Tensor) -> Tensor:
    return x @ weight.T


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))

    def forward(self, x: Tensor, fn=forward_fn) -> Tensor:
        return fn(x, self.weight)


def get_inputs(seq_len: int, width: int) -> list[Tensor]:
    return [torch.randn(seq_len, width, requires_grad=True)]
