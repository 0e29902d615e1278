"""From a case to something that can be called: the layer, its input, and one call of its mode."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from harness import catalog
from harness.case import Case


class Unsupported(Exception):
    """The layer itself says that this case cannot be."""


@dataclass
class Workload:
    """A layer ready to be measured. `call` is one call of the case's mode; `sync` waits until it is done.

    `forget` frees what a call leaves behind (gradients), which would else count as there before the next one.
    """

    layer: nn.Module
    x: Tensor
    call: Callable[[], Any]
    sync: Callable[[], None]

    def forget(self) -> None:
        for leaf in (self.x, *self.layer.parameters()):
            leaf.grad = None


def takes_heads(layer_class: type) -> bool:
    """Whether the class can be told the number of heads, by its constructor's parameters."""
    parameters = inspect.signature(layer_class).parameters.values()
    return any(p.name == "num_heads" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def build_layer(layer_class: type, case: Case, **options: Any) -> nn.Module:
    """The layer at the case's width, in float32 on the CPU. Raises what its constructor raises."""
    if takes_heads(layer_class):
        options["num_heads"] = case.num_heads
    layer = layer_class(d_model=case.d_model, **options)
    if not isinstance(layer, nn.Module):
        raise TypeError(f"{layer_class.__name__} is not a torch.nn.Module")
    return layer


def build(case: Case, seed: int) -> Workload:
    """Layer, input (b, n, d) drawn from N(0, 1), and call. Everything here is outside the clock.

    Raises Unsupported with the layer's own reason where it has a `supports(case)` that gives one.
    """
    torch.set_num_threads(case.threads)
    layer_class = catalog.load_class(case.impl)
    supports = getattr(layer_class, "supports", None)
    reason = supports(case) if supports is not None else None
    if reason:
        raise Unsupported(str(reason))
    torch.default_generator.manual_seed(seed)  # weights and input are drawn on the CPU, whatever the device
    dtype = getattr(torch, case.dtype)
    # float32 is float32: cuDNN would round its factors to 10 bits unasked, which no other kernel does.
    torch.backends.cudnn.allow_tf32 = False
    layer = build_layer(layer_class, case, **catalog.build_options(case.impl)).to(case.device, dtype)
    x = torch.randn(case.batch_size, case.seq_len, case.d_model).to(case.device, dtype)
    call = _train_call(layer, x) if case.mode == "train" else _forward_call(layer, x)
    sync = torch.cuda.synchronize if case.device == "cuda" else _done_at_once
    return Workload(layer, x, call, sync)


def _forward_call(layer: nn.Module, x: Tensor) -> Callable[[], Tensor]:
    # For the whole process: a context manager around each call would be on the clock.
    torch.set_grad_enabled(False)
    layer.eval()
    return lambda: layer(x)


def _train_call(layer: nn.Module, x: Tensor) -> Callable[[], Tensor]:
    """Forward and backward, with a gradient for every weight and for the input, as inside a network."""
    layer.train()
    x.requires_grad_(True)
    leaves = [x, *layer.parameters()]
    output_gradient = torch.randn(x.shape).to(x)

    def call() -> Tensor:
        for leaf in leaves:
            leaf.grad = None
        y = layer(x)
        y.backward(output_gradient)
        return y

    return call


def _done_at_once() -> None:
    """On the CPU a call returns when it is done."""
