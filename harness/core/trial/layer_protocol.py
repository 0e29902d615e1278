"""How a layer is called, found by inspection. Only `forward(x)` is required.

forward(x)                    required: (b, n, d) -> (b, n, d)
forward(x, is_causal=…)       accepts that no token may see a later one
forward(x, attn_mask=…)       boolean, broadcastable to (b, h, n, m), True where a query may see a key
forward(x, source=…)          keys and values come from a source (b, m, d): cross-attention
causal = True                 by nature, no token sees a later one, as in a recurrent layer
needs_source = True           cannot run without a source: the harness makes one of n tokens for it
input_width = 3               the input is this many times as wide as the output: (b, n, 3d) -> (b, n, d)
output_dtype = "float32"      the dtype that it returns, if that is not the dtype of its input
prepare(x, …) -> dict         converts the arguments above to its own layout, outside the measured time
start(batch_size, seq_len) -> state, step(x_t, state) -> (y_t, state)       decoding, (b, d) -> (b, d)
prefill(x, state) -> state    the state after t steps, computed at once
supports(case, window, …) -> str | None  why the layer cannot run a case

A class also has attributes that describe it, such as `has_heads`, `compiled`, `claims` and `reference`:
docs/how-to/own-layer.md. A function is found by inspection too: `harness.core.trial.function_layer`.
"""

import inspect
import os
from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn

from harness.core.layers import layer_lookup
from harness.core.layers.layer_files import OF_CLASSES, OF_FUNCTIONS, STDLIB, is_installed, is_of_user, misspelt
from harness.core.model import own_axes
from harness.core.model.errors import MEANT, UsageError, did_you_mean
from harness.core.model.layer_options import joined, options_of
from harness.core.model.sequence_lengths import real_lengths
from harness.core.model.sweep_axes import AXES, DEFAULTS, DTYPES, EQUAL, Case

from .function_layer import required, wrapped_functions
from .layer_inputs import Input
from .packed_sequences import is_function as is_function
from .packed_sequences import is_packed, knows_lengths

# A float64 reference of this many tokens still takes about a second.
_MOST_VERIFIED = 1024
_OF_LAYER = tuple(name for name, axis in AXES.items() if axis.of_layer)


def load(impl: str) -> Any:
    """Return the class of a layer, and import the package that it needs, which some leave until it is called."""
    layer_class = layer_lookup.load_class(impl)
    if is_function(layer_class) and hasattr(layer_class, "load_package"):
        layer_class.load_package()
    return layer_class


def check_signature(layer_class: Any, options: Collection[str] = ()) -> None:
    """Raise TypeError if the class cannot be built or called as a layer is. The message says how to wrap it.

    `options` are the arguments that the registry passes to its constructor.
    """
    if is_function(layer_class):  # checked when its class was made
        return
    name = layer_class.__name__
    is_module = issubclass(layer_class, nn.Module)
    if not is_module and layer_class.__new__ is object.__new__:
        raise TypeError(f"{name} is not a torch.nn.Module: write class {name}(torch.nn.Module) with forward(self, x)")
    given = ("d_model", *_OF_LAYER, *options)
    needed = [name for name in required(inspect.signature(layer_class)) if name not in given]
    cannot_change = needed and not is_of_user(layer_class.__module__)
    if cannot_change or not takes(layer_class, "d_model") or layer_class.__init__ in _RECURRENT:
        raise TypeError(_wrapped_text(layer_class))
    if needed:
        raise TypeError(f"{name} is built as {name}(d_model=…, num_heads=…): give {', '.join(needed)} a default")
    if not is_module or hasattr(layer_class, "prepare"):
        return
    if layer_class.forward is nn.Module.forward:
        if layer_class.__call__ is nn.Module.__call__:
            raise TypeError(f"{name} has no forward: write forward(self, x), (b, n, d) -> (b, n, d)")
        return
    signature = inspect.signature(layer_class.forward)
    takes_any = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in signature.parameters.values())
    inputs = [name for name in required(signature)[1:] if name != "source"]
    if len(inputs) == 3:
        raise TypeError(
            f"forward({', '.join(inputs)}) takes three inputs, and a layer gets one. Wrap it: input_width = 3; "
            "def forward(self, x): q, k, v = x.chunk(3, dim=-1), each (b, n, d)"
        )
    if len(inputs) != 1 and not takes_any:
        raise TypeError(f"forward({', '.join(inputs)}) is called as forward(x): give all other parameters a default")


def check_attributes(layer_class: Any) -> None:
    """Raise UsageError for a misspelt attribute of the user's own class or function: it would be ignored.

    A method of a class has any name. An object that can be called has the attributes of its class too.
    """
    known, owners = OF_CLASSES, list(layer_class.__mro__)
    if is_function(layer_class):
        known, owners = OF_FUNCTIONS, list(wrapped_functions(layer_class.function))
        objects = [owner for owner in owners if not hasattr(owner, "__qualname__")]
        owners += chain(*(type(owner).__mro__ for owner in objects))
    for owner in owners:
        if isinstance(owner, partial) or is_of_user(getattr(owner, "__module__", None) or ""):
            attributes = dict(getattr(owner, "__dict__", {}))  # a function in C has none
            if isinstance(owner, type):
                attributes = {name: value for name, value in attributes.items() if not inspect.isfunction(value)}
            for name, meant in misspelt(attributes, known).items():
                raise UsageError(f"{layer_class.__name__}.{name} is not read; did you mean '{meant}'?")


def decodes_in_steps(layer: Any, case: Case) -> bool:
    """Whether the case decodes with `start` and `step`. A function decodes in one call."""
    return case.mode == "decode" and not is_function(layer)


def inputs_of(layer: Any, case: Case) -> tuple[Input, ...]:
    """The inputs of a layer, or of its class, at a case: those that a function describes, or x and a source.

    Decoding with a function of q, k and v is one query against all keys.
    """
    if is_function(layer):
        inputs = layer.inputs
        if case.mode != "decode":
            return inputs
        return (replace(inputs[0], shape=_one_token(inputs[0].shape)), *inputs[1:])
    width = input_width(layer)
    x = Input("input", ("b", "n", "d" if width == 1 else f"{width}d"))
    return (x, Input("source", ("b", "m", "d"))) if kv_len(layer, case) else (x,)


def output_dims(layer: Any, case: Case) -> tuple[str, ...]:
    """The shape of the output, as formulas."""
    if not is_function(layer):
        return ("b", "n", "d")
    return _one_token(layer.output) if case.mode == "decode" else layer.output


def _one_token(shape: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("1" if word == "n" else word for word in shape)


# The constructors of torch that tell no parameter. Their layers return the last state too.
_RECURRENT = (nn.RNN.__init__, nn.GRU.__init__, nn.LSTM.__init__)


def _wrapped_text(layer_class: Any) -> str:
    """How to make a class whose constructor has other names take `d_model` and `num_heads`."""
    name, signature = layer_class.__name__, inspect.signature(layer_class)
    needed, forward = required(signature), ""
    if is_recurrent := layer_class.__init__ in _RECURRENT:
        needed, forward = ["input_size", "hidden_size"], "; def forward(self, x): return super().forward(x)[0]"
    passed = {}
    for parameter in needed:
        size = MEANT.get(parameter, parameter)
        passed[parameter] = size if size in ("d_model", "num_heads") else "…"
    sizes = "d_model, num_heads" if "num_heads" in passed.values() else "d_model"
    if is_recurrent or "batch_first" in signature.parameters:
        passed["batch_first"] = "True"
    arguments = ", ".join(f"{parameter}={size}" for parameter, size in passed.items())
    return (
        f"{name}({', '.join(needed)}) is built otherwise. Wrap it: class My{name}({name}): "
        f"def __init__(self, {sizes}): super().__init__({arguments}){forward}"
    )


def what_supports_says(layer_class: Any, case: Case) -> Any:
    """What `supports` returns. Its parameters beside the case get the values of the layer's options of these names."""
    names = list(inspect.signature(layer_class.supports).parameters)[1:]
    defaults = own_axes.option_defaults(layer_class) if names else {}
    values = options_of(joined(f"{name}={text}" for name, text in defaults.items() if text is not None))
    values = {**values, **options_of(case.options)}
    return layer_class.supports(case, **{name: values[name] for name in names if name in values})


def unsupported_reason(layer_class: Any, case: Case) -> str | None:
    """Return why the layer cannot run this case, or None if nothing prevents it."""
    place = f"{layer_class.__name__}.supports(case)"
    try:
        text = what_supports_says(layer_class, case) if getattr(layer_class, "supports", None) else None
    except Exception as error:
        error.add_note(f"{place}, which returns a reason or None, fails:")
        raise
    if not (text is None or isinstance(text, str)):
        raise TypeError(f"{place} returned {text!r}: return None if the case can run, or a text that says why not")
    if text:
        return text
    for name in _OF_LAYER:
        if name in DEFAULTS and _is_given(name, case) and not takes(layer_class, name):
            return f"its constructor takes no {name}"
    options = own_axes.option_defaults(layer_class)
    for name in options_of(case.options):
        if name not in options and (not takes(layer_class, name) or name in AXES):
            return f"it takes no option '{name}'{did_you_mean(name, options)}"
    has_source = kv_len(layer_class, case) > 0
    decodes, pads, takes_mask = case.mode == "decode", case.mask == "padding", accepts(layer_class, "attn_mask")
    if case.lengths != EQUAL or is_packed(layer_class):
        reason = _unsupported_lengths(layer_class, case, has_source)
        if reason:
            return reason
    has_room_for_source = takes_source(layer_class)
    if is_function(layer_class):
        if layer_class.decodes and not decodes:
            return "it decodes one token of each sequence: give mode=decode"
        if decodes:
            if not (layer_class.layout or layer_class.decodes):
                return "it is a function of whole sequences, which decodes no token"
            if pads and not (takes_mask or knows_lengths(layer_class)):
                return "it takes no attn_mask, to hide the padding with"
            return "its inputs hold no source" if has_source and not has_room_for_source else None
    if decodes:
        width = input_width(layer_class)
        if width != 1:
            return f"its input is {width} times as wide as its output, which cannot be its next token"
        if not all(callable(getattr(layer_class, name, None)) for name in ("start", "step")):
            return "it has no start and step to decode with"
        if pads:
            return "one token after another has no padding"
        if has_source and not accepts(layer_class, "source", method="start"):
            return "its start takes no source"
    if has_source and not has_room_for_source:
        return "its forward takes no source"
    is_chunk = sees_a_chunk(layer_class, case)
    if is_chunk and (case.mask == "causal" or is_causal(layer_class)) and case.kv_len < case.seq_len:
        return "the last query of a causal mask is the last key: give kv_len of seq_len or more"
    if has_source and pads and not takes_mask:
        return "its forward takes no attn_mask, to hide the padding of a source with"
    if is_causal(layer_class):
        return None
    if has_source and case.mask == "causal" and not decodes and not is_chunk:
        return "a source has no later tokens to hide: a causal mask is of a layer's own input"
    if takes_mask or case.mask == "none" or (pads and knows_lengths(layer_class)):
        return None
    if pads:
        if is_function(layer_class):
            return "it takes neither attn_mask nor cu_seqlens, and it has no causal = True"
        return "its forward takes no attn_mask, and it has no causal = True"
    if causal_keyword(layer_class):
        return None
    taker = "it" if is_function(layer_class) else "its forward"
    return f"{taker} takes neither is_causal nor attn_mask, and it has no causal = True"


def _unsupported_lengths(layer_class: Any, case: Case, has_source: bool) -> str | None:
    """Why the layer cannot take sequences of these lengths, or packed ones."""
    if case.mode == "decode" and 0 in real_lengths(case):
        return "an empty sequence has no token to decode: leave 0 out of the lengths"
    if is_packed(layer_class):
        if case.mode == "decode":
            return "it takes packed sequences as a whole, and decodes no token"
        return "packed sequences attend to themselves, and not to a source: leave kv_len out" if has_source else None
    if has_source:
        return "its source has sequences of one length: give lengths=equal"
    if decodes_in_steps(layer_class, case):
        return "its step decodes sequences of one length: give lengths=equal"
    whole = case.mode != "decode" and is_function(layer_class) and not layer_class.decodes
    if whole and not {"b", "n"} <= set(layer_class.output):
        return "its inputs have no batch of sequences: describe them with b and n, or with t for all tokens"
    return None


def case_to_verify(layer_class: Any, small: Case) -> Case:
    """Return the small case to verify, with the nearest n that the layer accepts.

    If the layer refuses `small` for its n, smaller n are tried first, then larger ones. If it refuses all of them,
    `small` itself is returned.
    """
    small = replace(small, **getattr(layer_class, "verified_at", {}))
    below = range(small.seq_len, 0, -1)
    above = range(small.seq_len + 1, _MOST_VERIFIED + 1)
    for n in (*below, *above):
        case = replace(small, seq_len=n)
        if unsupported_reason(layer_class, case) is None:
            return case
    return small


def kv_len(layer_class: Any, case: Case) -> int:
    """Return the number of source tokens that the layer is given, 0 for none."""
    return case.kv_len or (case.seq_len if getattr(layer_class, "needs_source", False) else 0)


def letters_at(layer: Any, case: Case) -> tuple[int, dict[str, int | Fraction]]:
    """Return the value of m in shapes, 0 without a source, and those of the layer's own letters."""
    return kv_len(layer, case), own_axes.own_letters(layer, case)


def sees_a_chunk(layer_class: Any, case: Case) -> bool:
    """Return whether the queries of a function of q, k and v are the last of `kv_len` tokens, as in a chunked prefill.

    Under a causal mask, query i then sees the keys up to kv_len − seq_len + i.
    """
    is_attention = is_function(layer_class) and layer_class.layout in ("bhnd", "bnhd")
    return is_attention and case.kv_len > 0 and case.mode != "decode"


def takes_source(layer_class: Any) -> bool:
    """Return whether the layer can attend to a source."""
    if is_function(layer_class):
        return any("m" in tensor.shape for tensor in layer_class.inputs)
    return accepts(layer_class, "source")


def input_width(layer_class: Any) -> int:
    """Return the input's width as a multiple of d.

    Raises UsageError if `input_width` is not an integer of at least 1.
    """
    width = getattr(layer_class, "input_width", 1)
    if type(width) is not int or width < 1:
        raise UsageError(f"input_width is {width!r}: it must be a whole number from 1 on")
    return width


def output_dtype(layer: Any, dtype: str) -> str:
    """Return the dtype that the layer, or its class, must return for an input of `dtype`.

    Raises UsageError if `output_dtype` is not one of the dtypes of a case.
    """
    declared = getattr(layer, "output_dtype", dtype)
    if declared not in DTYPES:
        raise UsageError(f"output_dtype is {declared!r}: it must be one of {', '.join(DTYPES)}")
    return declared


def allowed_error(layer: Any) -> float:
    """Return the largest relative error that the layer, or its class, declares as intended; 0 without one.

    Raises UsageError unless the declared error is a number from 0 to below 1, which is the error of an output of zeros.
    """
    declared = getattr(layer, "allowed_error", 0.0)
    if type(declared) not in (int, float) or not 0 <= declared < 1:
        raise UsageError(f"allowed_error is {declared!r}: it must be a share of the output's norm below 1, such as 0.1")
    return float(declared)


def is_causal(layer_class: Any) -> bool:
    """Return whether no token sees a later one, whatever the mask.

    Tokens after a sequence then change nothing in it.
    """
    return bool(getattr(layer_class, "causal", False))


def as_masked(case: Case, layer: Any) -> Case:
    """The case with the mask that a causal layer implies: without a mask, its outputs are those under a causal one."""
    is_own = not case.kv_len or sees_a_chunk(layer, case)
    is_implied = is_causal(layer) and case.mask == "none" and case.mode != "decode" and is_own
    return replace(case, mask="causal") if is_implied else case


def is_as_causal(reference: Any, layer: Any) -> bool:
    """Whether the reference of a causal layer accepts no mask: then it is causal by nature as well."""
    return is_causal(layer) and not accepts(reference, "attn_mask", "is_causal", "causal")


def takes(layer_class: Any, name: str) -> bool:
    """Return whether the constructor of the class has a parameter of this name, such as `num_heads`."""
    signature = inspect.signature(layer_class)
    return name in signature.parameters or own_axes.takes_any(signature)


def size_options(layer_class: Any, case: Case) -> dict[str, Any]:
    """Return the case's sizes and options that the constructor takes besides `d_model`.

    Those left to the layer are left out, unless it declares a default for them.
    """
    names = (*_OF_LAYER, *getattr(layer_class, "sized_by", ()))
    sizes = {name: getattr(case, name) for name in names if takes(layer_class, name) and _is_given(name, case)}
    declared = {name: default for name, (_, default) in own_axes.declared_axes(layer_class).items()}
    options = {**declared, **options_of(case.options)}
    return sizes | {name: value for name, value in options.items() if takes(layer_class, name)}


def _is_given(name: str, case: Case) -> bool:
    return getattr(case, name) != DEFAULTS.get(name)


def causal_keyword(layer_class: Any) -> str | None:
    """The parameter that hides later tokens: `is_causal`, or `causal` of a function; None without one."""
    if accepts(layer_class, "is_causal"):
        return "is_causal"
    return "causal" if is_function(layer_class) and accepts(layer_class, "causal") else None


def accepts(layer_class: Any, *names: str, method: str = "forward") -> bool:
    """Return whether the method has a parameter of one of these names."""
    parameters = inspect.signature(getattr(layer_class, method)).parameters
    return any(name in parameters for name in names)


# Directories whose code is never a layer: Python's own, torch's and the harness's. Packages may be installed below
# Python's directory, so `is_of_a_layer` treats these apart.
_NOT_A_LAYER = ("<", os.path.dirname(torch.__file__) + os.sep, str(Path(__file__).parents[2]) + os.sep)


def is_of_a_layer(file: str) -> bool:
    """Whether the code in this file may be a layer's, or of a package that the layer uses."""
    return not file.startswith(_NOT_A_LAYER) and (not file.startswith(STDLIB) or is_installed(file))
