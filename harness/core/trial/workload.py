"""Build what a case needs: the layer, its input, its mask and source, and one call of the case's mode.

The call does exactly the work that is timed. All else is made outside the measured time.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter  # bound before a layer may replace it
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from harness.core.layers import layer_lookup
from harness.core.model import own_axes
from harness.core.model.errors import did_you_mean
from harness.core.model.sequence_lengths import real_lengths
from harness.core.model.sweep_axes import Case

from . import layer_inputs, layer_protocol, packed_sequences, result_checks
from .device import WAITS, cast_layer, seed_draws, tensors_in
from .function_layer import FunctionLayer, first_tensor, signature_of
from .layer_inputs import Input
from .result_checks import WrongResult

Call = Callable[[], Any]
# Arguments of a layer by their name.
Keywords = dict[str, Any]
Remake = Callable[[], Call]
Forward = Callable[[], Tensor]


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
    seed_draws(seed)  # a second graph then has the same dropout
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
    return result_checks.check_dtype(y, x_t, dtype), answer[1]


def _decoded(step: Callable[..., Any], token: Tensor, state: Any) -> Tensor:
    """The output of a step."""
    return step(token, state)[0]


def returned(call: Call) -> tuple[Any, ...]:
    """Make the call. Return its output and, of a step of decoding, the new state."""
    if isinstance(call, partial) and call.func is _decoded:
        return call.args[0](*call.args[1:])
    return (call(),)


def decode_call(layer: Any, before: Tensor, token: Tensor, state: Any) -> Call:
    """A call that decodes `token` (b, d) and can be repeated. Its last argument is the state before the token.

    The preceding tokens `before` (b, n − 1, d) are processed here, outside the call.
    """
    before = before.clone()  # a layer may change its input
    if before.shape[1]:
        if hasattr(layer, "prefill"):
            state = layer.prefill(before, state)
        else:
            for x_t in before.unbind(1):
                state = step_once(layer, x_t, state)[1]
    return partial(_decoded, layer.step, token, state)


def real_tokens(case: Case, length: int) -> Tensor:
    """Return (b, length), True for real tokens. These come first, and padding follows them."""
    return torch.arange(length) < torch.tensor(real_lengths(case, length))[:, None]


def forward_keywords(layer: nn.Module, case: Case, source: Tensor | None) -> Keywords:
    """Return keyword arguments of `forward` for the case's mask and source, on its device, as the layer can take them.

    Padding applies to what is attended to: the source if one is given, else the input. A layer that is causal by nature
    gets no mask over its own input, because no real token follows the padding.
    """
    keywords: Keywords = {"source": source} if source is not None else {}
    source_len = layer_protocol.kv_len(layer, case) if source is None else source.shape[1]
    keys = source_len or case.seq_len
    if layer_protocol.is_function(layer):
        keywords |= _switches(layer, case)
    if layer_protocol.is_causal(layer) and (case.mask != "padding" or not source_len):
        return keywords
    decodes = case.mode == "decode" and layer_protocol.is_function(layer)
    if case.mask == "causal" and (decodes or (source_len and not layer_protocol.sees_a_chunk(layer, case))):
        return keywords  # in decoding, every token sees the whole source
    causal = layer_protocol.causal_keyword(layer)
    if case.mask == "causal" and causal is not None:
        keywords[causal] = True
    elif case.mask == "causal":
        mask = torch.ones(case.seq_len, keys, dtype=torch.bool).tril(keys - case.seq_len)
        keywords["attn_mask"] = mask[None, None].to(case.device)
    elif case.mask == "padding" and not packed_sequences.knows_lengths(layer):
        keywords["attn_mask"] = real_tokens(case, keys)[:, None, None].to(case.device)
    return keywords


def _switches(function: Any, case: Case) -> Keywords:
    """Keyword arguments that a function's own defaults make necessary: no causal mask, or groups of heads."""
    switches: Keywords = {}
    parameters = inspect.signature(type(function).forward).parameters
    causal = layer_protocol.causal_keyword(function)
    if causal is not None and parameters[causal].default is True:
        switches[causal] = False
    if function.grouped and layer_protocol.accepts(function, "enable_gqa"):
        switches["enable_gqa"] = True
    if packed_sequences.is_packed(function):
        longest = max(real_lengths(case))
        switches |= dict.fromkeys(filter(packed_sequences.is_longest, parameters), longest)
    return switches


def counted_tokens(layer: nn.Module, case: Case) -> Tensor | None:
    """Return True where an output belongs to a real token and not to padding, or None if all are real.

    The result has the number of dimensions of the output: (b, n, 1) for a layer.
    """
    dims = layer_protocol.output_dims(layer, case)
    if not case.is_padded or layer_protocol.kv_len(layer, case) or not {"b", "n"} <= set(dims):
        return None
    return along_tokens(real_tokens(case, case.seq_len), dims).to(case.device)


def along_tokens(flags: Tensor, dims: Sequence[str]) -> Tensor:
    """The `flags` of tokens (b, n) with one dimension for each of `dims`, to multiply a tensor of this shape by."""
    flags = flags if dims.index("b") < next(i for i, one in enumerate(dims) if one in ("n", "m")) else flags.t()
    return flags.reshape([flags.shape[one != "b"] if one in ("b", "n", "m") else 1 for one in dims])


def exact_float32() -> None:
    """Make this process multiply float32 with all 24 bits of its factors, on the GPU and on the CPU.

    No setting may let a kernel round the factors to fewer bits. cuDNN uses TF32 by default, which has 11 bits. cuBLAS
    uses TF32 only if the environment or the layer's own module requests it. NVIDIA's containers set
    `TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1`. Many training scripts call `torch.set_float32_matmul_precision("high")`.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    # Without its own setting, which it has since torch 2.9, each part would follow the setting for all of torch.
    for backend in (torch.backends.cudnn, torch.backends.mkldnn):
        for name in ("conv", "rnn", "matmul"):
            part: Any = getattr(backend, name, None)
            if hasattr(part, "fp32_precision"):
                part.fp32_precision = "ieee"


class Unsupported(Exception):
    """Raised if the layer cannot run the case or lacks support for its settings."""


# Switches of the whole process that a layer's code may change, each with the functions that read and set it.
_SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch.set_num_threads": (torch.get_num_threads, torch.set_num_threads),
    "torch.set_default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch.set_float32_matmul_precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "torch.set_flush_denormal": (lambda: not torch.tensor(1e-40) * 1, torch.set_flush_denormal),
    "torch.backends.mkldnn.enabled": (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    "torch.use_deterministic_algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
}
_settings = {name: read() for name, (read, _) in _SWITCHES.items()}


def set_switches(threads: int) -> None:
    """Set all switches as the harness found them, the number of threads, and exact products."""
    _settings.update({"torch.set_num_threads": threads, "torch.set_float32_matmul_precision": "highest"})
    torch.set_num_threads(threads)
    exact_float32()  # first: torch reads no precision of products that only its newer settings have changed
    for name, (read, write) in _SWITCHES.items():
        if read() != _settings[name]:  # to set one anew may import torch's compiler, which takes a second
            write(_settings[name])


def check_switches() -> None:
    """Raise Unsupported if a switch has changed since the last layer was built, so by a call."""
    for name, (read, _) in _SWITCHES.items():
        if read() != _settings[name]:
            raise Unsupported(f"its calls change {name} for the whole process: leave that to the harness")


@dataclass
class Workload:
    """A layer ready to be measured.

    - `call`: one call of the case's mode.
    - `sync`: waits until the call is done.
    - `inputs`: the tensors that come from other layers, in the order of `described`, which says what they are.
    - `forward`: the forward pass with the case's mask.
    - `gradient`: the gradient of the output, or None if the mode has no backward pass.
    - `constants`: masks, caches and states. They exist before the call and are not weights of the layer.
    - `varying`: tensors whose values may change between two calls. They are the inputs that `is_renewed` names, in
      `backward` the output's gradient, and in a layer's `decode` the token.
    - `remake`: makes the call again, in `backward` with a new graph.
    - `prepare_s`: the seconds that the layer's `prepare` took, or None if it has none.
    """

    layer: nn.Module
    inputs: list[Tensor]
    described: tuple[Input, ...]
    gradient: Tensor | None
    constants: list[Tensor]
    varying: list[Tensor]
    forward: Forward
    remake: Remake
    call: Call
    sync: Call
    prepare_s: float | None = None

    @property
    def x(self) -> Tensor:
        """The first input."""
        return self.inputs[0]

    @property
    def source(self) -> Tensor | None:
        """The source of a layer, None without one."""
        return next((x for x, one in zip(self.inputs, self.described, strict=True) if one.name == "source"), None)

    def forget(self) -> None:
        """Free the gradients that a call leaves behind. Otherwise they would count as existing before the next call."""
        for leaf in (*self.inputs, *self.layer.parameters()):
            leaf.grad = None


def build_layer(layer_class: type, case: Case, **options: Any) -> nn.Module:
    """Build the layer at the case's width, in float32 on the CPU. Reset the switches that its code has changed.

    Raises what its constructor raises, and TypeError if the result is not a `torch.nn.Module`.
    """
    layer = layer_class(**{"d_model": case.d_model, **options, **layer_protocol.size_options(layer_class, case)})
    set_switches(case.threads)
    if not isinstance(layer, nn.Module):
        raise TypeError(f"{layer_class.__name__} is not a torch.nn.Module")
    return layer


def build(
    case: Case, seed: int, weights: Mapping[str, Any] | None = None, inputs: Sequence[Tensor] | None = None
) -> Workload:
    """Build the layer, its inputs and its call. Nothing here is timed.

    `layer_protocol.inputs_of` describes the inputs: x (b, n, d), drawn from N(0, 1), for most layers. `weights`
    replaces the drawn weights, and `inputs` the drawn inputs.

    Raises Unsupported if the layer refuses the case, or has no way to run it. Raises TypeError for a class that is no
    layer.
    """
    layer_class = layer_lookup.load_class(case.impl)
    described = layer_protocol.inputs_of(layer_class, case)
    options = layer_lookup.build_options(case.impl)
    layer_protocol.check_signature(layer_class, options)
    reason = layer_protocol.unsupported_reason(layer_class, case)
    if reason:
        raise Unsupported(reason)
    torch.default_generator.manual_seed(seed)  # weights and input are drawn on the CPU for any device
    set_switches(case.threads)
    layer = build_layer(layer_class, case, **options)
    _check_weights(layer, case.dtype)
    layer = cast_layer(layer.to(case.device), getattr(torch, case.dtype))
    if weights is not None:
        copy_weights(weights, layer)
    if inputs is None and hasattr(layer_class, "draw_inputs"):
        inputs = layer_class.draw_inputs(case)
    elif inputs is None:
        inputs = [layer_inputs.draw(one, case, *layer_protocol.letters_at(layer_class, case)) for one in described]
    if not case.trains:
        # Gradients are off for the whole process: a context manager around each call would be timed.
        torch.set_grad_enabled(False)
        layer.eval()
    forward, constants, prepare_s = forward_pass(case, layer, inputs)
    gradient, varying = None, [tensor for tensor, one in zip(inputs, described, strict=True) if one.is_renewed]
    is_stepped = layer_protocol.decodes_in_steps(layer, case)
    if case.trains:
        layer.train()
        with_gradient = [tensor for tensor, one in zip(inputs, described, strict=True) if one.grad]
        trained = [parameter for parameter in layer.parameters() if parameter.requires_grad]
        leaves = [*(tensor.requires_grad_(True) for tensor in with_gradient), *trained]
        gradient = _output_gradient(case, layer)
        if case.mode == "train":
            remake: Callable[[], Call] = partial(train_call, forward, leaves, gradient)
        else:
            remake, varying = partial(backward_call, forward, leaves, gradient, seed), [gradient]
    elif is_stepped:
        x, source = inputs[0], inputs[1] if len(inputs) > 1 else None
        state, token = start_decoding(layer, case, source), x[:, -1].clone()
        step, varying = decode_call(layer, x[:, :-1], token, state), [token]
        remake = lambda: step  # noqa: E731  # the tokens before it may be in memory of the state
    else:
        remake = lambda: forward  # noqa: E731
    call: Any = remake()
    sync = WAITS[case.device]
    if is_stepped:
        state = call.args[-1]  # a cache may have grown since the start, in new memory
        others = {id(tensor) for tensor in (*constants, *layer.parameters(), *layer.buffers())}
        constants = [tensor for tensor in tensors_in(state) if id(tensor) not in others]
    return Workload(
        layer, list(inputs), described, gradient, constants, varying, forward, remake, call, sync, prepare_s
    )


def _check_weights(layer: nn.Module, dtype: str) -> None:
    """Raise Unsupported for weights that are sparse, have no shape yet, or no counterpart in half precision."""
    for name, tensor in (*layer.named_parameters(), *layer.named_buffers()):
        if is_lazy(tensor):
            raise Unsupported(
                f"'{name}' has no shape before the first call: use a module that takes its sizes, as nn.Linear"
            )
        if tensor.layout != torch.strided:
            raise Unsupported(f"'{name}' is {tensor.layout}, and only dense weights can be copied: use .to_dense()")
        if tensor.is_complex() and dtype in ("float16", "bfloat16"):
            raise Unsupported(f"'{name}' is complex, and torch has no complex {dtype}: give dtype=float32")


def copied_state(layer: nn.Module) -> dict[str, Any]:
    """The layer's state, with copies of its tensors, for `copy_weights`."""
    state = layer.state_dict()
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()}


def copy_weights(weights: Mapping[str, Any], layer: nn.Module) -> None:
    """Copy `weights` into the layer. Skip buffers with another shape in the layer, like a table that grows with n.

    Entries of a state that are no tensors are passed on as they are.
    """
    state = layer.state_dict()  # with the versions of its modules
    for name, value in weights.items():
        if name in state and getattr(value, "shape", None) == getattr(state[name], "shape", None):
            state[name] = value
    layer.load_state_dict(state)


def _output_gradient(case: Case, layer: nn.Module) -> Tensor:
    """Draw the gradient of the output. Padding has no part in the loss."""
    gradient = torch.randn(output_shape(layer, case))
    gradient = gradient.to(case.device, getattr(torch, layer_protocol.output_dtype(layer, case.dtype)))
    real = counted_tokens(layer, case)
    return gradient if real is None else gradient * real


def output_shape(layer: Any, case: Case) -> tuple[int, ...]:
    """The shape that the output must have."""
    dims = layer_protocol.output_dims(layer, case)
    return layer_inputs.size_at("output", dims, case, *layer_protocol.letters_at(layer, case))


def forward_pass(case: Case, layer: Any, inputs: Sequence[Tensor]) -> tuple[Forward, list[Tensor], float | None]:
    """The forward pass, the masks that it takes, in the layer's own layout, and the seconds that `prepare` took."""
    is_function = isinstance(layer, FunctionLayer)
    source = None if is_function or len(inputs) == 1 else inputs[1]
    keywords = forward_keywords(layer, case, source)
    count = layer.positional if is_function else 1
    given = inputs[:count]
    if is_function:
        named = zip(layer.inputs[count:], inputs[count:], strict=True)
        keywords |= layer.options | {one.name: x for one, x in named}
    prepare_s = None
    if getattr(layer, "prepare", None) is not None:
        keywords, prepare_s = _prepared(layer, case, given, keywords)
    masks = [tensor for tensor in tensors_in(keywords) if all(tensor is not one for one in inputs)]
    if is_function:  # without the module around it, which would be timed
        call = partial(layer.call, *given, **keywords)
        return lambda: first_tensor(call()), masks, prepare_s
    x = inputs[0]
    # Unpacking even an empty dictionary would cost time inside the measured call.
    return (lambda: layer(x, **keywords)) if keywords else (lambda: layer(x)), masks, prepare_s


def _prepared(layer: Any, case: Case, given: Sequence[Tensor], keywords: Keywords) -> tuple[Any, float]:
    """The keywords that `prepare` returns, and the seconds it took. Raises TypeError for others than the layer's."""
    name, target = type(layer).__name__, layer.call if isinstance(layer, FunctionLayer) else layer
    with torch.random.fork_rng([], device_type="cpu"):
        torch.default_generator.manual_seed(0)  # random features, say, are the same in the layer and in its reference
        try:
            began = perf_counter()
            made = layer.prepare(*given, **keywords)
            WAITS[case.device]()
            prepare_s = perf_counter() - began
        except Exception as error:
            error.add_note(f"{name}.prepare fails:")
            raise
    must = f"{name}.prepare must return a dict of {name}'s keywords"
    if not isinstance(made, dict):
        raise TypeError(f"{must}, and returned {made!r}"[:200])
    signature = signature_of(target)
    # A signature that is stated may leave out what only `prepare` passes.
    if not hasattr(target, "__signature__") and not own_axes.takes_any(signature):
        for key in made.keys() - signature.parameters.keys():
            raise TypeError(f"{must}: it takes no '{key}'{did_you_mean(str(key), signature.parameters)}")
    return made, prepare_s


def start_decoding(layer: Any, case: Case, source: Tensor | None) -> Any:
    """The decoding state before the first token, with room for all tokens of the case."""
    return layer.start(case.batch_size, case.seq_len, **({} if source is None else {"source": source}))
