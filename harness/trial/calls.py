"""One call of each mode: exactly the work that is timed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from harness.trial.contract import output_dtype
from harness.trial.relative import WrongResult, check_dtype

Call = Callable[[], Any]
Forward = Callable[[], Tensor]


def forward_call(forward: Forward, layer: nn.Module) -> Call:
    """A forward pass without gradients."""
    # Gradients are off for the whole process: a context manager around each call would be timed.
    torch.set_grad_enabled(False)
    layer.eval()
    return forward


def train_call(forward: Forward, leaves: list[Tensor], gradient: Tensor) -> Call:
    """A forward and a backward pass, with a gradient for every leaf, as inside a network.

    `leaves` are the weights, the input, and the source if there is one.
    """

    def call() -> Tensor:
        for leaf in leaves:
            leaf.grad = None
        y = forward()
        y.backward(gradient)
        return y

    return call


def backward_call(forward: Forward, leaves: list[Tensor], gradient: Tensor, seed: int) -> Call:
    """A backward pass alone, which can be repeated over one graph.

    The graph's forward pass is done here, with random numbers from `seed`.
    """
    torch.manual_seed(seed)  # a second graph then has the same dropout
    y = forward()
    # A layer may leave a weight unused: without a source, for example, the weights for the source.
    return lambda: torch.autograd.grad(y, leaves, gradient, retain_graph=True, allow_unused=True)


def step_once(layer: Any, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Decode one token, and check the answer. Return the output and the new state.

    Raises WrongResult unless the layer returns a pair of an output (b, d) of its dtype and a state.
    """
    answer = layer.step(x_t, state)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise WrongResult(f"its step returned a {type(answer).__name__}, not a pair of an output and a state")
    y = answer[0]
    if not isinstance(y, Tensor) or y.shape != x_t.shape:
        said = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise WrongResult(f"its step returned {said} for an input of shape {tuple(x_t.shape)}")
    return check_dtype(y, x_t, output_dtype(layer, str(x_t.dtype).removeprefix("torch."))), answer[1]


def decode_call(layer: nn.Module, before: Tensor, token: Tensor, state: Any) -> Call:
    """A call that decodes `token` (b, d) and can be repeated.

    The preceding tokens `before` (b, n − 1, d) are processed here, outside the call.
    """
    step: Callable[[Tensor, Any], tuple[Tensor, Any]] = layer.step  # type: ignore[assignment]
    before = before.clone()  # a layer may change its input
    if before.shape[1]:
        if hasattr(layer, "prefill"):
            state = layer.prefill(before, state)  # type: ignore[operator]
        else:
            for x_t in before.unbind(1):
                state = step_once(layer, x_t, state)[1]
    return lambda: step(token, state)[0]
