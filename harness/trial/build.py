"""From a case to something that can be called: the layer, its input, and one call of its mode."""

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
    """The layer itself says that this case cannot be."""


@dataclass
class Workload:
    """A layer ready to be measured. `call` is one call of the case's mode; `sync` waits until it is done.

    `forward` is the forward pass with the case's mask and `source`. `gradient` is that of the output, None where there
    is none. `constants` are masks, caches and states: there before the call, and no weights of the layer. `varying` may
    get other values between two calls: the inputs; in `backward`, the output's gradient; in `decode`, the token.
    `remake` makes the call anew: of `backward`, its graph.
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
        """What comes in from other layers."""
        return [self.x] if self.source is None else [self.x, self.source]

    def forget(self) -> None:
        """Free what a call leaves behind (gradients), which would else count as there before the next one."""
        for leaf in (*self.inputs, *self.layer.parameters()):
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


def build(
    case: Case, seed: int, weights: Mapping[str, Tensor] | None = None, inputs: Sequence[Tensor] | None = None
) -> Workload:
    """Layer, input (b, n, d) drawn from N(0, 1), and call. Everything here is outside the clock.

    The input of a layer with an `input_width` is so many times as wide; its output and a source are not. `weights`
    and `inputs`, the input and a source if there is one, replace the drawn ones.

    Raises Unsupported where the layer has a reason against the case, or no way to be asked for it.
    """
    torch.set_num_threads(case.threads)
    layer_class = catalog.load_class(case.impl)
    reason = refusal(layer_class, case)
    if reason:
        raise Unsupported(reason)
    torch.default_generator.manual_seed(seed)  # weights and input are drawn on the CPU, whatever the device
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
    """Copy them into the layer, but for buffers that have another shape there, as a table that grows with n."""
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
    if real is not None:  # no loss is taken of padding
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
    """The forward pass, and what it is given that is neither input nor source: masks, as the layer wants them."""
    keywords = given(layer, case, source)
    prepare = getattr(layer, "prepare", None)
    if prepare is not None:
        keywords = prepare(x, **keywords)
    masks = [tensor for tensor in tensors_in(keywords) if tensor is not source]
    # Not even an empty dictionary is unpacked on the clock.
    return (lambda: layer(x, **keywords)) if keywords else (lambda: layer(x)), masks


def start(layer: Any, case: Case, source: Tensor | None) -> Any:
    """The state before the first token, with room for all."""
    given_source = {"source": source} if source is not None else {}
    return layer.start(case.batch_size, case.seq_len, **given_source)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in a state: itself, or those in its list, tuple, dictionary or dataclass."""
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
    """On the CPU a call returns when it is done."""
