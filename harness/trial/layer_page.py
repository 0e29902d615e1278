"""What a user's own layer or function says of itself, as data for the page that `list` prints."""

import inspect
from dataclasses import replace
from typing import Any

from harness import layer_lookup, own_axes
from harness.layer_source import equation_of
from harness.sweep_axes import MASKS, MODES, Case
from harness.trial import layer_protocol, verify
from harness.trial.described_call import file_or_module
from harness.trial.function_layer import FunctionLayer, signature_of


def describe_page(case: Case) -> dict[str, Any]:
    """Return what the layer says of itself. Nothing is built or called, except its `supports`.

    - `call`: how it is called or built, as text. `summary`, `equation`: from its docstring.
    - `family`, `has_heads`, `causal`, `compiled`: its attributes, or what follows from its parameters.
    - `claims`: its claims as written. `axes`: [name, letter, default] of each axis of its own; a keyword has no letter.
    - `inputs`: [name, shape, fill] of each input of a function, and its output; empty for a layer.
    - `modes`, `masks`, `takes`: the modes and masks that it supports, and further sizes that it takes.
    - `reference`: what defines the correct result. `place`: its file and line.

    Raises UsageError for a wrong claim, axis or reference, and TypeError for a class that is no layer.
    """
    layer_class: Any = layer_lookup.load_class(case.impl)
    layer_protocol.check_signature(layer_class)
    layer_lookup.claims_of_class(layer_class, case)  # raises UsageError for a wrong one
    is_function = issubclass(layer_class, FunctionLayer)
    shown: Any = layer_class.function if is_function else layer_class
    signature = signature_of(shown) if is_function else inspect.signature(shown)
    place = _place(shown)
    # The docstring of a function written in C begins with its signature.
    docstring = inspect.cleandoc(getattr(shown, "__doc__", None) or "") if place else ""
    return {
        "call": f"{layer_class.__name__}({', '.join(map(_parameter, signature.parameters.values()))})",
        "summary": docstring.partition("\n")[0],
        "equation": equation_of(docstring),
        "family": str(getattr(layer_class, "family", "own")),
        "has_heads": bool(getattr(layer_class, "has_heads", layer_protocol.takes(layer_class, "num_heads"))),
        "causal": layer_protocol.is_causal(layer_class),
        "compiled": bool(getattr(layer_class, "compiled", False)),
        "claims": {claim: str(text) for claim, text in getattr(layer_class, "claims", {}).items()},
        "axes": _axes(layer_class),
        "inputs": _inputs(layer_class) if is_function else [],
        "modes": [mode for mode in MODES if _supports(layer_class, replace(case, mode=mode))],
        "masks": [mask for mask in MASKS if _supports(layer_class, replace(case, mask=mask))],
        "takes": _further_sizes(layer_class, is_function),
        "reference": _reference(case, layer_class),
        "place": place,
    }


def _supports(layer_class: Any, case: Case) -> bool:
    return layer_protocol.unsupported_reason(layer_class, case) is None


def _parameter(one: inspect.Parameter) -> str:
    """The parameter without its annotation."""
    return str(one.replace(annotation=one.empty)).replace(" ", "")


def _axes(layer_class: Any) -> list[list[Any]]:
    declared = own_axes.declared_axes(layer_class)
    # The class of a function has its own constructor.
    shown = layer_class.forward if issubclass(layer_class, FunctionLayer) else layer_class
    parameters = inspect.signature(shown).parameters
    found: list[list[Any]] = []
    for name in own_axes.usual_values(layer_class):
        letter, default = declared.get(name) or ("", parameters[name].default)
        found.append([name, letter, default if isinstance(default, int | float | str | None) else repr(default)])
    return found


def _inputs(layer_class: type[FunctionLayer]) -> list[list[str]]:
    found = []
    for one in layer_class.inputs:
        fill = getattr(one.fill, "__name__", repr(one.fill)) if callable(one.fill) else one.fill
        found.append([one.name, f"({', '.join(one.shape)})", fill])
    return [*found, ["output", f"({', '.join(layer_class.output)})", ""]]


def _further_sizes(layer_class: Any, is_function: bool) -> list[str]:
    shapes = [one.shape for one in layer_class.inputs] if is_function else []
    source = any("m" in shape for shape in shapes) if is_function else layer_protocol.accepts(layer_class, "source")
    groups = layer_protocol.takes(layer_class, "num_kv_heads")
    return ["kv_len"] * source + ["num_kv_heads"] * groups


def _reference(case: Case, layer_class: Any) -> str:
    found: Any = verify.reference_class_of(case, layer_class)
    if found is None:
        return verify.ITSELF
    shown = inspect.unwrap(found.function) if issubclass(found, FunctionLayer) else found
    module = file_or_module(getattr(shown, "__module__", None) or found.__module__)
    return f"{module}:{getattr(shown, '__qualname__', found.__name__)}"


def _place(shown: Any) -> str:
    """The file and line where it is defined; empty if it is not written in Python."""
    try:
        shown = inspect.unwrap(shown)
        return f"{inspect.getsourcefile(shown)}:{inspect.getsourcelines(shown)[1]}"
    except (TypeError, OSError):
        return ""
