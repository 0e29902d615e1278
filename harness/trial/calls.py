"""One call of each mode: what is on the clock, and nothing else."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from harness.trial.contract import output_dtype
from harness.trial.relative import WrongResult, check_dtype

Call = Callable[[], Any]
Forward = Callable[[], Tensor]


def forward_call(forward: Forward, layer: nn.Module) -> Call:
    """Forward without gradients."""
    # For the whole process: a context manager around each call would be on the clock.
    torch.set_grad_enabled(False)
    layer.eval()
    return forward


def train_call(forward: Forward, leaves: list[Tensor], gradient: Tensor) -> Call:
    """Forward and backward, with a gradient for every weight and for the input, as inside a network."""

    def call() -> Tensor:
        for leaf in leaves:
            leaf.grad = None
        y = forward()
        y.backward(gradient)
        return y

    return call


def backward_call(forward: Forward, leaves: list[Tensor], gradient: Tensor, seed: int) -> Call:
    """Backward alone, again and again over one graph, whose forward pass is done here, with draws from the seed."""
    torch.manual_seed(seed)  # a graph made anew then has the same dropout
    y = forward()
    # A layer may leave a weight unused, as one without a source leaves what is for one.
    return lambda: torch.autograd.grad(y, leaves, gradient, retain_graph=True, allow_unused=True)


def step_once(layer: Any, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
    """One step, its answer looked at. Raises WrongResult where it is no output (b, d) and a state."""
    answer = layer.step(x_t, state)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise WrongResult(f"its step returned a {type(answer).__name__}, not a pair of an output and a state")
    y = answer[0]
    if not isinstance(y, Tensor) or y.shape != x_t.shape:
        said = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise WrongResult(f"its step returned {said} for an input of shape {tuple(x_t.shape)}")
    return check_dtype(y, x_t, output_dtype(layer, str(x_t.dtype).removeprefix("torch."))), answer[1]


def decode_call(layer: nn.Module, before: Tensor, token: Tensor, state: Any) -> Call:
    """Decode `token` (b, d) again and again, after the tokens `before` it (b, n − 1, d), which are taken in here."""
    step: Callable[[Tensor, Any], tuple[Tensor, Any]] = layer.step  # type: ignore[assignment]
    before = before.clone()  # a layer may change its input
    if before.shape[1]:
        if hasattr(layer, "prefill"):
            state = layer.prefill(before, state)  # type: ignore[operator]
        else:
            for x_t in before.unbind(1):
                state = step_once(layer, x_t, state)[1]
    return lambda: step(token, state)[0]
