"""A function as a layer: `impl=my_kernels:my_attention` measures `my_attention(q, k, v, **options)`.

The function's attributes describe it, as those of a class do. Without `inputs`, its parameters tell what it takes:

f(q, k, v, …)   attention over heads, (b, h, n, D), or (b, n, h, D) with `layout = "bnhd"`
f(x, …)         (b, n, d) -> (b, n, d), as a layer

With `cu_seqlens` beside q, k and v, they are packed sequences: see `trial.packed_sequences`. A function that
models of transformers call, f(module, query, key, value, attention_mask), is made one of q, k and v.

Anything that can be called will do: a compiled function, a `functools.partial`, a Triton launcher, a module. If its
first parameter is `d_model`, it is a factory: it builds a layer.
"""

import contextlib
import copy
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from inspect import Parameter, Signature
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor, nn

from harness.core.layers import layer_lookup
from harness.core.layers.layer_files import OF_FUNCTIONS
from harness.core.model import own_axes
from harness.core.model.errors import UsageError, did_you_mean
from harness.core.model.sweep_axes import AXES
from impls.adapters.transformers_functions import is_of_model, of_model
from impls.attention.reference import softmax_attention

from . import packed_sequences
from .layer_inputs import CUMULATIVE, Input, letters_of, read_inputs, read_shape
from .packed_sequences import is_cumulative, is_longest

# First parameters of an attention function, such as (q, k, v) or (query, key, value).
_ATTENTION = ("q", "k", "v")
# The shapes of q, k and v in each layout.
_LAYOUTS = {
    "bhnd": ("b h n D", "b g m D", "b g m D"),
    "bnhd": ("b n h D", "b m g D", "b m g D"),
    packed_sequences.LAYOUT: ("t h D", "t g D", "t g D"),
}
_UNCOMPILED = "_torchdynamo_orig_callable"
_MISSING = object()
_SELF, _BY_NAME = Parameter("self", Parameter.POSITIONAL_ONLY), Parameter.KEYWORD_ONLY


class FunctionLayer(nn.Module):
    """A layer without weights whose forward pass is a function. `class_of` makes a subclass for each function.

    A module that is already built keeps its weights.
    """

    function: ClassVar[Callable[..., Any]]
    inputs: ClassVar[tuple[Input, ...]]
    output: ClassVar[tuple[str, ...]]
    # Inputs after these are passed by name.
    positional: ClassVar[int]
    layout: ClassVar[str]
    # What to write if q, k and v have another layout; empty if the function states its own.
    layout_hint: ClassVar[str]
    # Whether a call is one token of each sequence.
    decodes: ClassVar[bool] = False

    def __init__(self, d_model: int, num_heads: int = 1, num_kv_heads: int = 0, **options: Any) -> None:
        super().__init__()
        parameters = inspect.signature(type(self).forward).parameters
        # An axis that only shapes mention is no parameter.
        self.options = {name: value for name, value in options.items() if name in parameters}
        function = type(self).function
        self.grouped = num_kv_heads not in (0, num_heads)
        self.call = copy.deepcopy(function) if isinstance(function, nn.Module) else function


_MADE: dict[tuple[int, str], type] = {}


def class_of(function: Callable[..., Any], module: str, like: type[FunctionLayer] | None = None) -> type:
    """The layer class of a function that was found in `module`. A reference is called with the inputs of `like`.

    A function or partial whose first parameter is `d_model` is a factory, and the class is of what it builds. Raises
    TypeError if the function's inputs are not known, or do not fit its parameters.
    """
    function = of_model(function) if is_of_model(signature_of(function)) else function
    key = id(function), like.__name__ if like else ""
    if getattr(_MADE.get(key), "function", None) is not function:
        try:
            is_factory = like is None and required(signature_of(function))[:1] == ["d_model"]
            _MADE[key] = _class_of_factory(function, module) if is_factory else _make_class(function, module, like)
        except UsageError as error:
            raise TypeError(str(error)) from error
    return _MADE[key]


def _make_class(function: Callable[..., Any], module: str, like: type[FunctionLayer] | None) -> type:
    name, signature = _name(function), signature_of(function)
    described = {member: attribute(function, member) for member in OF_FUNCTIONS}
    # A reference has the values of the layer's axes, unless it declares its own.
    axes = _axes(function) or (own_axes.declared_axes(like) if like else {})
    own_letters = [letter for letter, _ in axes.values()]
    if like is None:
        inputs = _inputs(function, signature, name, own_letters)
        own_axes.check_axes(name, axes, signature, letters_of(inputs))
        layout = layout_of(inputs)
    else:
        inputs, layout = like.inputs, like.layout
        if layout and (in_own := _layout(function, signature, name)) != layout:
            function = _in_other_layout(function, in_own, layout)
    positional = _positional(name, signature, inputs) if like is None or not layout else len(inputs)
    is_usual = layout == "bhnd" and not any(map(_annotated, signature.parameters.values()))
    is_usual = is_usual and described["layout"] is described["inputs"] is _MISSING
    stated = described["output"]
    output = read_shape("output", stated, own_letters) if isinstance(stated, str) else inputs[0].shape
    letters = letters_of(inputs)
    named = _named(signature, axes, letters)

    def forward(self: FunctionLayer, *inputs: Any, **keywords: Any) -> Any:
        return self.call(*inputs, **keywords)

    parameters = [parameter.replace(kind=_BY_NAME) for parameter in named]
    forward.__signature__ = Signature([_SELF, *parameters])  # type: ignore[attr-defined]
    members = {
        "has_heads": not {"h", "g", "D"}.isdisjoint(letters.union(*output)),
        "compiled": attribute(function, _UNCOMPILED) is not _MISSING,
        **{x: staticmethod(y) if callable(y) else y for x, y in described.items() if y is not _MISSING},
        "axes": axes,
        "reference": described["reference"],
        "function": staticmethod(function) if not isinstance(function, nn.Module) else function,
        "inputs": inputs,
        "output": output,
        "positional": positional,
        "layout": layout,
        "layout_hint": f'If q, k, v are (b, n, h, head_dim), write {name}.layout = "bnhd"' if is_usual else "",
        "forward": forward,
        "__doc__": getattr(function, "__doc__", None),
        "__module__": function.__module__ if inspect.isfunction(function) else module,
    }
    made = type(name, (FunctionLayer,), members)
    has_size = {"d_model": True, "num_heads": members["has_heads"], "num_kv_heads": "g" in letters}
    defaults: dict[str, Any] = {size: 0 for size, is_there in has_size.items() if is_there}
    passed = {*(tensor.name for tensor in inputs), "is_causal", "causal", "attn_mask", "enable_gqa"}
    for parameter in named:
        is_passed = parameter.name in passed or is_longest(parameter.name)
        if parameter.default is not parameter.empty and not is_passed:
            defaults[parameter.name] = parameter.default
    defaults |= {axis: default for axis, (_, default) in axes.items()}
    options = [Parameter(option, _BY_NAME, default=default) for option, default in defaults.items()]
    made.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return made


def _class_of_factory(factory: Callable[..., Any], module: str) -> type:
    """The class of what `factory(d_model=…, num_heads=…)` builds: a partial of a class, or a function.

    The layer is called as one of the partial's class, or of the class that a function's return annotation names.
    Without that, it is called as forward(x). The factory's own attributes describe it.
    """
    signature, fixed = inspect.signature(factory), getattr(factory, "keywords", {})
    for axis in AXES.keys() & fixed:
        raise UsageError(
            f"its partial fixes {axis}, which the sweep gives: leave it out, and give {axis}={fixed[axis]}"
        )
    base: Any = getattr(factory, "func", None)
    base = base if isinstance(base, type) else signature.return_annotation
    base = getattr(sys.modules[module], base, None) if isinstance(base, str) else base
    if getattr(base, "forward", nn.Module.forward) is nn.Module.forward:
        base = nn.Identity
    stated = {name: value for name, value in vars(factory).items() if not name.startswith("_")}
    axes = own_axes.read_axes(stated.get("axes", getattr(base, "axes", {})))
    for axis, (letter, default) in axes.items():
        default = getattr(signature.parameters.get(axis), "default", default)
        axes[axis] = letter, fixed.get(axis, default)
    reference = stated.get("reference", getattr(base, "reference", None))
    if isinstance(reference, str) and ":" in reference:
        reference = layer_lookup.load_class(reference)
    if isinstance(reference, type):  # it has the layer's values
        values = {axis: default for axis, (_, default) in axes.items()} | fixed
        shared = {name: values[name] for name in inspect.signature(reference).parameters if name in values}
        reference = _class_of_factory(partial(reference, **shared), reference.__module__) if shared else reference
    stated |= {"axes": axes, "reference": reference, "_is_of_factory": True}

    def build(cls: type, **sizes: Any) -> Any:
        layer = factory(**sizes)
        getattr(layer, "__dict__", {}).update(stated)
        return layer

    members = {"__new__": build, "__signature__": signature, "__module__": module, "function": staticmethod(factory)}
    return type(_name(factory), (base,), stated | members)


def attribute(function: Any, name: str) -> Any:
    """An attribute of the function, or of the one that it wraps; `_MISSING` without one."""
    for seen in wrapped_functions(function):
        value = vars(seen).get(name, _MISSING) if isinstance(seen, partial) else getattr(seen, name, _MISSING)
        if value is not _MISSING:
            return value
    return _MISSING


def wrapped_functions(function: Any) -> Iterator[Any]:
    """The function, and those that it wraps, from the outside in."""
    for _ in range(8):
        yield function
        wrapped = getattr(function, _UNCOMPILED, getattr(function, "__wrapped__", getattr(function, "fn", None)))
        wrapped = function.func if isinstance(function, partial) else wrapped
        if wrapped is None or wrapped is function:
            return
        function = wrapped


def _name(function: Any) -> str:
    name = attribute(function, "__name__")
    return name if isinstance(name, str) else type(function).__name__


def uncompiled(layer_class: type) -> type:
    """The class of the function as it was before `torch.compile`; any other class as it is."""
    function = getattr(layer_class, "function", None)
    plain = getattr(function, _UNCOMPILED, None) if issubclass(layer_class, FunctionLayer) else None
    return layer_class if plain is None else class_of(plain, layer_class.__module__)


def signature_of(function: Any) -> Signature:
    """The signature, from the first line of the docstring for a function written in C."""
    target = function.forward if isinstance(function, nn.Module) else function
    if isinstance(target, partial):  # `inspect` needs a signature of the inner function, which one in C lacks
        inner = list(signature_of(target.func).parameters.values())[len(target.args) :]
        return Signature([parameter for parameter in inner if parameter.name not in target.keywords])
    try:
        return inspect.signature(target)
    except (ValueError, TypeError):
        head = re.search(r"^\s*\w+(\(.*?\))", getattr(function, "__doc__", None) or "", re.DOTALL)
        defined: dict[str, Any] = {"torch": torch, "f": lambda *inputs, **named: None}
        with contextlib.suppress(Exception):  # a text that is not Python, or a default of another module
            exec(f"from __future__ import annotations\ndef f{head[1] if head else ''}: ...", defined)
        return inspect.signature(defined["f"])


def _nameable(signature: Signature) -> list[Parameter]:
    return [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def required(signature: Signature) -> list[str]:
    """The parameters without a default."""
    return [parameter.name for parameter in _nameable(signature) if parameter.default is parameter.empty]


def _named(signature: Signature, axes: dict[str, Any], letters: set[str]) -> list[Parameter]:
    """The parameters with a name, and the axes that `**options` take: all but sizes of inputs."""
    named = _nameable(signature)
    if own_axes.takes_any(signature):
        for name, (letter, default) in axes.items():
            if name not in signature.parameters and letter not in letters:
                named.append(Parameter(name, _BY_NAME, default=default))
    return named


def layout_of(inputs: Sequence[Input]) -> str:
    """The layout of the inputs of attention: q, k, v, and where each packed sequence begins; empty for others."""
    shapes = tuple(" ".join(tensor.shape) for tensor in inputs[:3])
    layout = next((layout for layout, usual in _LAYOUTS.items() if shapes == usual), "")
    further = {CUMULATIVE} if layout == packed_sequences.LAYOUT else set()
    return layout if {tensor.fill for tensor in inputs[3:]} == further else ""


def _inputs(function: Any, signature: Signature, name: str, own_letters: Sequence[str]) -> tuple[Input, ...]:
    described = attribute(function, "inputs")
    if described is not _MISSING:
        return read_inputs(described, own_letters)
    needed = required(signature)
    written = {parameter: _annotated(signature.parameters[parameter]) for parameter in needed}
    tensors = [parameter for parameter in needed if not (is_cumulative(parameter) or is_longest(parameter))]
    if [tensor[:1].lower() for tensor in tensors] == [*_ATTENTION]:
        layout = _layout(function, signature, name)
        shapes = zip(tensors, _LAYOUTS[layout], strict=True)
        attention = tuple(Input(tensor, tuple(shape.split())) for tensor, shape in shapes)
        if layout != packed_sequences.LAYOUT:
            return attention
        starts = packed_sequences.cumulative_inputs(signature.parameters)
        if not starts:
            raise UsageError(f"{name}.layout is 'thd': packed sequences need a parameter cu_seqlens")
        return (*attention, *starts)
    if needed and all(written.values()):
        return read_inputs(written)
    if len(needed) == 1:
        return (Input(needed[0], ("b", "n", "d")),)
    parameters = ", ".join(needed) or "no required parameter"
    is_over_heads = [parameter[:1].lower() for parameter in needed[:3]] == [*_ATTENTION]
    shape, further = ("b h n D", needed[3:]) if is_over_heads else ("b n d", needed[1:])
    example = ", ".join(f"'{parameter}': '{shape}'" for parameter in needed or ["x"])
    or_default = f"; or give {' and '.join(further)} a default" if further else ""
    raise UsageError(
        f"{name}({parameters}) is neither f(q, k, v) nor f(x): describe what it takes, as "
        f"{name}.inputs = {{{example}}}, with b, n, h, d, and D = d/h{or_default}"
    )


def _axes(function: Any) -> own_axes.OwnAxes:
    stated = attribute(function, "axes")
    return own_axes.read_axes({} if stated is _MISSING else stated)


def _annotated(parameter: Parameter) -> str:
    """The shape in an annotation: `Annotated[Tensor, "b n h D"]`, or a type with `dim_str`; empty without one."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        quoted = re.search(r"Annotated\[.*?[\"']([^\"']+)[\"']", annotation)
        return quoted[1] if quoted else ""
    texts = [text for text in get_args(annotation) if isinstance(text, str)]
    return texts[0] if texts else str(getattr(annotation, "dim_str", ""))


def _layout(function: Any, signature: Signature, name: str) -> str:
    stated = attribute(function, "layout")
    if stated is _MISSING:
        if any(map(is_cumulative, required(signature))):
            return packed_sequences.LAYOUT
        first = next(iter(signature.parameters.values()), None)
        words = _annotated(first).split() if first is not None else []
        return "bnhd" if "n" in words and "h" in words and words.index("n") < words.index("h") else "bhnd"
    if stated not in _LAYOUTS:
        raise UsageError(f"{name}.layout is {stated!r}: it must be 'bhnd', for (b, h, n, head_dim), 'bnhd' or 'thd'")
    return str(stated)


def _positional(name: str, signature: Signature, inputs: tuple[Input, ...]) -> int:
    """The number of inputs that are passed by position; the others are passed by name. Check that all are passed."""
    names, parameters = [tensor.name for tensor in inputs], _nameable(signature)
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in signature.parameters.values()):
        return len(names)
    nameable = [parameter.name for parameter in parameters]
    for tensor in names:
        if tensor not in nameable and not own_axes.takes_any(signature):
            meant = did_you_mean(tensor, nameable)
            raise UsageError(f"{name} has no parameter '{tensor}', which its inputs name{meant}")
    missing = [needed for needed in required(signature) if needed not in names and not is_longest(needed)]
    if missing:
        raise UsageError(f"{name} needs {', '.join(missing)}: describe it in {name}.inputs, or give it a default")
    by_position = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    for place, (tensor, parameter_name) in enumerate(zip(names, by_position, strict=False)):
        if tensor != parameter_name:
            return place
    return min(len(names), len(by_position))


def _in_other_layout(function: Callable[..., Any], layout: str, of_inputs: str) -> Callable[..., Any]:
    """The function, which has this layout, for inputs in the layout `of_inputs`."""
    if layout == packed_sequences.LAYOUT:
        raise UsageError(f"{_name(function)} takes packed sequences, and the layer does not")
    if of_inputs == packed_sequences.LAYOUT:
        return packed_sequences.per_sequence(function, heads_first=layout == "bhnd")

    @wraps(function)
    def call(*inputs: Tensor, **keywords: Any) -> Any:
        return first_tensor(function(*(tensor.transpose(1, 2) for tensor in inputs), **keywords)).transpose(1, 2)

    call.__signature__ = signature_of(function)  # type: ignore[attr-defined]
    call.in_own_layout = function  # type: ignore[attr-defined]
    return call


def first_tensor(output: Any) -> Any:
    """The output itself, or the first of several: kernels return their state, or the scores' sums, as a second one."""
    return output[0] if isinstance(output, tuple | list) and output else output


def reference_of(layer_class: type[FunctionLayer], reference: Any) -> type | None:
    """The class of the function's reference; None for itself in float64.

    Without a reference, attention is compared with `softmax_attention`.
    """
    if reference is _MISSING:
        reference = softmax_attention if layer_class.layout else None
    if reference is not None and not callable(reference):
        raise TypeError(f"{reference!r} is no function: write {layer_class.__name__}.reference = a function, or None")
    return None if reference is None else class_of(reference, layer_class.__module__, layer_class)


def is_usual_reference(layer_class: Any, reference: type) -> bool:
    """Whether the function states no reference, and is therefore compared with softmax attention."""
    return getattr(layer_class, "reference", None) is _MISSING and is_softmax(reference)


def is_softmax(layer_class: type) -> bool:
    """Whether the layer is softmax attention itself, in any layout."""
    return issubclass(layer_class, FunctionLayer) and inspect.unwrap(layer_class.function) is softmax_attention
