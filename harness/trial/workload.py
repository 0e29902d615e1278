"""Build what a case needs: the layer, its input, its mask and source, and one call of the case's mode.

The call does exactly the work that is timed. All else is made outside the measured time.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from time import perf_counter  # bound before a layer may replace it
from typing import Any

import torch
from torch import Tensor, nn

from harness import layer_lookup
from harness.sweep_axes import Case
from harness.trial import layer_protocol, sandbox
from harness.trial.layer_protocol import WrongResult

Call = Callable[[], Any]
Forward = Callable[[], Tensor]


def forward_call(forward: Forward) -> Call:
    """A forward pass alone."""
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
        text = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise WrongResult(f"its step returned {text} for an input of shape {tuple(x_t.shape)}")
    dtype = layer_protocol.output_dtype(layer, str(x_t.dtype).removeprefix("torch."))
    return layer_protocol.check_dtype(y, x_t, dtype), answer[1]


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


def real_lengths(case: Case, length: int) -> list[int]:
    """Return how many of `length` tokens are real, for each sequence of a padded batch.

    The lengths are spread evenly and leave `padding_fraction` of the batch as padding. Equal lengths would need none. A
    single sequence has that share.
    """
    b, share = case.batch_size, round(1.0 - case.padding_fraction, 12)
    half = min(share, 1 - share) if b > 1 else 0.0
    shares = [share + half * (2 * i / max(b - 1, 1) - 1) for i in range(b)]
    return [min(length, max(1, math.floor(length * each + 0.5))) for each in shares]


def real_tokens(case: Case, length: int) -> Tensor:
    """Return (b, length), True for real tokens. These come first, and padding follows them."""
    return torch.arange(length) < torch.tensor(real_lengths(case, length))[:, None]


def forward_keywords(layer: nn.Module, case: Case, source: Tensor | None) -> dict[str, Any]:
    """Return keyword arguments of `forward` for the case's mask and source, on its device, as the layer can take them.

    Padding applies to what is attended to: the source if one is given, else the input. A layer that is causal by nature
    gets no mask over its own input, because no real token follows the padding.
    """
    keywords: dict[str, Any] = {"source": source} if source is not None else {}
    keys = case.seq_len if source is None else source.shape[1]
    if layer_protocol.is_causal(layer) and (case.mask != "padding" or source is None):
        return keywords
    if case.mask == "causal" and source is not None:  # decoding: every token sees the whole source
        return keywords
    if case.mask == "causal" and layer_protocol.accepts(layer, "is_causal"):
        keywords["is_causal"] = True
    elif case.mask == "causal":
        keywords["attn_mask"] = torch.ones(keys, keys, dtype=torch.bool).tril()[None, None].to(case.device)
    elif case.mask == "padding":
        keywords["attn_mask"] = real_tokens(case, keys)[:, None, None].to(case.device)
    return keywords


def counted_tokens(layer: nn.Module, case: Case) -> Tensor | None:
    """Return (b, n, 1), True where an output belongs to a real token and not to padding, or None if all are real."""
    if case.mask != "padding" or layer_protocol.kv_len(layer, case):
        return None
    return real_tokens(case, case.seq_len)[..., None].to(case.device)


# The parts of cuDNN with their own setting, since torch 2.9.
_PARTS_OF_CUDNN = ("conv", "rnn")


def exact_float32() -> None:
    """Make this process multiply float32 with all 24 bits of its factors, on the GPU and on the CPU.

    No setting may let a kernel round the factors to fewer bits. cuDNN uses TF32 by default, which has 11 bits. cuBLAS
    uses TF32 only if the environment or the layer's own module requests it. NVIDIA's containers set
    `TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1`. Many training scripts call `torch.set_float32_matmul_precision("high")`.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    # Without its own setting, each part would follow the setting for all of torch.
    for name in _PARTS_OF_CUDNN:
        part: Any = getattr(torch.backends.cudnn, name, None)
        if hasattr(part, "fp32_precision"):
            part.fp32_precision = "ieee"


class Unsupported(Exception):
    """Raised if the layer cannot run the case or lacks support for its settings."""


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
    - `prepare_s`: the seconds that the layer's `prepare` took, or None if it has none.
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
    prepare_s: float | None = None

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors that come from other layers: the input, and the source if there is one."""
        return [self.x] if self.source is None else [self.x, self.source]

    def forget(self) -> None:
        """Free the gradients that a call leaves behind. Otherwise they would count as existing before the next call."""
        for leaf in (*self.inputs, *self.layer.parameters()):
            leaf.grad = None


def build_layer(layer_class: type, case: Case, **options: Any) -> nn.Module:
    """Build the layer at the case's width, in float32 on the CPU.

    Raises what its constructor raises, and TypeError if the result is not a `torch.nn.Module`.
    """
    layer = layer_class(d_model=case.d_model, **layer_protocol.size_options(layer_class, case), **options)
    sandbox.note_used()
    if not isinstance(layer, nn.Module):
        raise TypeError(f"{layer_class.__name__} is not a torch.nn.Module")
    return layer


def build(
    case: Case, seed: int, weights: Mapping[str, Tensor] | None = None, inputs: Sequence[Tensor] | None = None
) -> Workload:
    """Build the layer, its input (b, n, d), drawn from N(0, 1), and its call. Nothing here is timed.

    A layer's `input_width` multiplies the width of its input, but not that of its output or of a source. `weights`
    replaces the drawn weights. `inputs` replaces the drawn input, and the drawn source if there is one.

    Raises Unsupported if the layer refuses the case, or has no way to run it. Raises TypeError for a class that is no
    layer.
    """
    torch.set_num_threads(case.threads)
    layer_class = layer_lookup.load_class(case.impl)
    options = layer_lookup.build_options(case.impl)
    layer_protocol.check_signature(layer_class, options)
    reason = layer_protocol.unsupported_reason(layer_class, case)
    if reason:
        raise Unsupported(reason)
    torch.default_generator.manual_seed(seed)  # weights and input are drawn on the CPU for any device
    dtype = getattr(torch, case.dtype)
    exact_float32()
    layer = build_layer(layer_class, case, **options).to(case.device, dtype)
    if weights is not None:
        _copy_weights(weights, layer)
    if inputs is None:
        source_len, width = layer_protocol.kv_len(layer_class, case), layer_protocol.input_width(layer_class)
        sizes = [(case.seq_len, width * case.d_model), *([(source_len, case.d_model)] if source_len else [])]
        inputs = [_drawn(case, *size).to(case.device, dtype) for size in sizes]
    x, source = inputs[0], inputs[1] if len(inputs) > 1 else None
    if case.mode in ("forward", "decode"):
        # Gradients are off for the whole process: a context manager around each call would be timed.
        torch.set_grad_enabled(False)
        layer.eval()
    forward, constants, prepare_s = _forward(case, layer, x, source)
    gradient, varying = None, [x] if source is None else [x, source]
    if case.mode in ("train", "backward"):
        layer.train()
        leaves = [*(tensor.requires_grad_(True) for tensor in varying), *layer.parameters()]
        gradient = _output_gradient(case, layer)
        if case.mode == "train":
            remake = partial(train_call, forward, leaves, gradient)
        else:
            remake, varying = partial(backward_call, forward, leaves, gradient, seed), [gradient]
    elif case.mode == "decode":
        state, token = start_decoding(layer, case, source), x[:, -1].clone()
        remake, varying = partial(decode_call, layer, x[:, :-1], token, state), [token]
        constants = [tensor for tensor in tensors_in(state) if all(tensor is not mask for mask in constants)]
    else:
        remake = partial(forward_call, forward)
    # On the CPU, a call returns only when it is done.
    sync = torch.cuda.synchronize if case.device == "cuda" else lambda: None
    return Workload(layer, x, source, gradient, constants, varying, forward, remake, remake(), sync, prepare_s)


# Dettmers et al. 2022, "LLM.int8()", section 4: in large language models, a few channels are up to 20 times as large.
_OUTLIER_EVERY, _OUTLIER_FACTOR = 64, 20.0


def _drawn(case: Case, *size: int) -> Tensor:
    """Draw an input (b, *size) from N(0, 1). With `inputs=outliers`, some of its channels are larger."""
    x = torch.randn(case.batch_size, *size)
    if case.inputs == "outliers":
        x[..., ::_OUTLIER_EVERY] *= _OUTLIER_FACTOR
    return x


def _copy_weights(weights: Mapping[str, Tensor], layer: nn.Module) -> None:
    """Copy `weights` into the layer. Skip buffers with another shape in the layer, like a table that grows with n."""
    own = layer.state_dict()
    with torch.no_grad():
        for name, value in weights.items():
            if name in own and own[name].shape == value.shape:
                own[name].copy_(value)


def _output_gradient(case: Case, layer: nn.Module) -> Tensor:
    """Draw the gradient of the output. Padding has no part in the loss."""
    gradient = torch.randn(case.batch_size, case.seq_len, case.d_model)
    gradient = gradient.to(case.device, getattr(torch, layer_protocol.output_dtype(layer, case.dtype)))
    real = counted_tokens(layer, case)
    return gradient if real is None else gradient * real


def _forward(
    case: Case, layer: nn.Module, x: Tensor, source: Tensor | None
) -> tuple[Forward, list[Tensor], float | None]:
    """The forward pass, the masks that it takes, in the layer's own layout, and the seconds that these took."""
    keywords = forward_keywords(layer, case, source)
    prepare, prepare_s = getattr(layer, "prepare", None), None
    if prepare is not None:
        began = perf_counter()
        keywords = prepare(x, **keywords)
        if case.device == "cuda":
            torch.cuda.synchronize()
        prepare_s = perf_counter() - began
    masks = [tensor for tensor in tensors_in(keywords) if tensor is not source]
    # Unpacking even an empty dictionary would cost time inside the measured call.
    return (lambda: layer(x, **keywords)) if keywords else (lambda: layer(x)), masks, prepare_s


def start_decoding(layer: Any, case: Case, source: Tensor | None) -> Any:
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
