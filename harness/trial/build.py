"""Build what a case needs: the layer, its input and one call of the case's mode."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from harness import catalog
from harness.case import Case
from harness.trial.calls import Call, Forward, backward_call, decode_call, forward_call, train_call
from harness.trial.contract import input_width, output_dtype, refusal, source_len
from harness.trial.given import counted, given
from harness.trial.precision import exact_float32


class Unsupported(Exception):
    """Raised if the layer cannot run the case, or cannot be asked to."""


@dataclass
class Workload:
    """A layer ready to be measured.

    - `call`: one call of the case's mode.
    - `sync`: waits until the call is done.
    - `forward`: the forward pass with the case's mask and `source`.
    - `gradient`: the gradient of the output, or None if the mode has no backward pass.
    - `constants`: masks, caches and states. They exist before the call and are not weights of the layer.
    - `varying`: tensors whose values may change between two calls. They are the inputs, in `backward` the output's
      gradient, and in `decode` the token.
    - `remake`: makes the call again, in `backward` with a new graph.
    """

    layer: nn.Module
    x: Tensor
    source: Tensor | None
    gradient: Tensor | None
    constants: list[Tensor]
    varying: list[Tensor]
    forward: Forward
    remake: Callable[[], Call]
    call: Call
    sync: Callable[[], None]

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors that come from other layers: the input, and the source if there is one."""
        return [self.x] if self.source is None else [self.x, self.source]

    def forget(self) -> None:
        """Free the gradients that a call leaves behind. Otherwise they would count as existing before the next call."""
        for leaf in (*self.inputs, *self.layer.parameters()):
            leaf.grad = None


def takes_heads(layer_class: type) -> bool:
    """Whether the constructor of the class has a parameter for the number of heads."""
    parameters = inspect.signature(layer_class).parameters.values()
    return any(p.name == "num_heads" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def build_layer(layer_class: type, case: Case, **options: Any) -> nn.Module:
    """Build the layer at the case's width, in float32 on the CPU.

    Raises what its constructor raises, and TypeError if the result is not a `torch.nn.Module`.
    """
    if takes_heads(layer_class):
        options["num_heads"] = case.num_heads
    layer = layer_class(d_model=case.d_model, **options)
    if not isinstance(layer, nn.Module):
        raise TypeError(f"{layer_class.__name__} is not a torch.nn.Module")
    return layer


def build(
    case: Case, seed: int, weights: Mapping[str, Tensor] | None = None, inputs: Sequence[Tensor] | None = None
) -> Workload:
    """Build the layer, its input (b, n, d), drawn from N(0, 1), and its call. Nothing here is timed.

    A layer's `input_width` multiplies the width of its input, but not that of its output or of a source. `weights`
    replaces the drawn weights. `inputs` replaces the drawn input, and the drawn source if there is one.

    Raises Unsupported if the layer refuses the case, or has no way to run it.
    """
    torch.set_num_threads(case.threads)
    layer_class = catalog.load_class(case.impl)
    reason = refusal(layer_class, case)
    if reason:
        raise Unsupported(reason)
    torch.default_generator.manual_seed(seed)  # weights and input are drawn on the CPU for any device
    dtype = getattr(torch, case.dtype)
    exact_float32()
    layer = build_layer(layer_class, case, **catalog.build_options(case.impl)).to(case.device, dtype)
    if weights is not None:
        _copy_weights(weights, layer)
    if inputs is None:
        m, wide = source_len(layer_class, case), case.d_model * input_width(layer_class)
        sizes = [(case.seq_len, wide), (m, case.d_model)] if m else [(case.seq_len, wide)]
        inputs = [torch.randn(case.batch_size, *size).to(case.device, dtype) for size in sizes]
    x, source = inputs[0], inputs[1] if len(inputs) > 1 else None
    sync = torch.cuda.synchronize if case.device == "cuda" else _done_at_once
    if case.mode in ("train", "backward"):
        return _training(case, layer, x, source, sync, seed)
    build_mode = _decoding if case.mode == "decode" else _inference
    return build_mode(case, layer, x, source, sync)


def _copy_weights(weights: Mapping[str, Tensor], layer: nn.Module) -> None:
    """Copy `weights` into the layer. Skip buffers with another shape in the layer, like a table that grows with n."""
    own = layer.state_dict()
    with torch.no_grad():
        for name, value in weights.items():
            if name in own and own[name].shape == value.shape:
                own[name].copy_(value)


def _inference(case: Case, layer: nn.Module, x: Tensor, source: Tensor | None, sync: Callable[[], None]) -> Workload:
    forward, constants = _forward(case, layer, x, source)

    def remake() -> Call:
        return forward_call(forward, layer)

    inputs = [x] if source is None else [x, source]
    return Workload(layer, x, source, None, constants, inputs, forward, remake, remake(), sync)


def _training(
    case: Case, layer: nn.Module, x: Tensor, source: Tensor | None, sync: Callable[[], None], seed: int
) -> Workload:
    forward, constants = _forward(case, layer, x, source)
    layer.train()
    inputs = [x] if source is None else [x, source]
    leaves = [*(tensor.requires_grad_(True) for tensor in inputs), *layer.parameters()]
    gradient = torch.randn(case.batch_size, case.seq_len, case.d_model)
    gradient = gradient.to(case.device, getattr(torch, output_dtype(layer, case.dtype)))
    real = counted(layer, case)
    if real is not None:  # padding has no part in the loss
        gradient = gradient * real

    def remake() -> Call:
        if case.mode == "train":
            return train_call(forward, leaves, gradient)
        return backward_call(forward, leaves, gradient, seed)

    varying = [gradient] if case.mode == "backward" else inputs
    return Workload(layer, x, source, gradient, constants, varying, forward, remake, remake(), sync)


def _decoding(case: Case, layer: nn.Module, x: Tensor, source: Tensor | None, sync: Callable[[], None]) -> Workload:
    torch.set_grad_enabled(False)
    layer.eval()
    forward, masks = _forward(case, layer, x, source)
    state, token = start(layer, case, source), x[:, -1].clone()

    def remake() -> Call:
        return decode_call(layer, x[:, :-1], token, state)

    constants = [tensor for tensor in tensors_in(state) if all(tensor is not mask for mask in masks)]
    return Workload(layer, x, source, None, constants, [token], forward, remake, remake(), sync)


def _forward(case: Case, layer: nn.Module, x: Tensor, source: Tensor | None) -> tuple[Forward, list[Tensor]]:
    """The forward pass, and the masks that it takes, in the layer's own layout."""
    keywords = given(layer, case, source)
    prepare = getattr(layer, "prepare", None)
    if prepare is not None:
        keywords = prepare(x, **keywords)
    masks = [tensor for tensor in tensors_in(keywords) if tensor is not source]
    # Unpacking even an empty dictionary would cost time inside the measured call.
    return (lambda: layer(x, **keywords)) if keywords else (lambda: layer(x)), masks


def start(layer: Any, case: Case, source: Tensor | None) -> Any:
    """The decoding state before the first token, with room for all tokens of the case."""
    given_source = {"source": source} if source is not None else {}
    return layer.start(case.batch_size, case.seq_len, **given_source)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Iterate over the tensors in a state.

    A state is a tensor, a block mask of FlexAttention, or a list, tuple, dictionary or dataclass of states.
    """
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from tensors_in(getattr(value, one.name))
    elif callable(getattr(value, "as_tuple", None)):  # a block mask of FlexAttention
        yield from tensors_in(value.as_tuple())


def _done_at_once() -> None:
    """Do nothing: on the CPU a call returns only when it is done."""
