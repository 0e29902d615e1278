"""What a layer says of itself: its traits and options, which a sweep needs, and its page, which `list` shows.

All of this follows from its attributes, parameters and docstrings, and from its method `supports`. No call is measured.
"""

import inspect
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from harness.core.layers import layer_files, layer_lookup
from harness.core.layers.layer_lookup import Layer
from harness.core.model import formatting, own_axes
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import MASKS, MODES, Case

from . import layer_protocol, verify
from .device import has_started_cuda
from .function_layer import FunctionLayer, signature_of
from .sandbox import Answer


def describe_layer(case: Case) -> Answer:
    """Return the description of the case's layer, without measuring a call.

    Beside the fields of `Layer`:

    - `import_s`: seconds that importing the layer's module takes, and the package that it needs.
    - `forkable`: whether trials may be forked after the import. If not, each trial imports the module itself.
    - `file`: the file of the module, or None if it has none.
    - `imports`: the files of all modules that this process imported, except those of packages.
    """
    began = perf_counter()
    layer_class = layer_protocol.load(case.impl)
    import_s, forkable = perf_counter() - began, not _left_running()
    layer = Layer(**_traits(layer_class), files=layer_files.files_of_class(layer_class))
    try:  # before anything is measured, because an invalid claim would cost a trial all its facts
        _check(layer_class, case)
        is_open = own_axes.takes_any(inspect.signature(layer_class))
        options = None if is_open else own_axes.option_defaults(layer_class)
        layer = replace(layer, options=options, own_axes=own_axes.axes_text(layer_class))
    except UsageError as error:
        layer = replace(layer, refused=str(error))
    return {
        **vars(layer),
        "import_s": import_s,
        "forkable": forkable,
        "file": getattr(sys.modules.get(layer_class.__module__), "__file__", None),
        "imports": layer_files.imported_files() or None,
    }


def _check(layer_class: Any, case: Case) -> None:
    """Raise UsageError for a mistake in the attributes of a layer: its claims, axes, reference or `allowed_error`."""
    layer_protocol.check_attributes(layer_class)
    layer_lookup.claims_of_class(layer_class, case)
    layer_lookup.load_reference(case.impl)
    layer_protocol.allowed_error(layer_class)
    own_axes.check_axes(layer_class.__name__, own_axes.declared_axes(layer_class), inspect.signature(layer_class))


def _left_running() -> bool:
    """Whether imports left threads, processes or a CUDA context: then this process cannot be forked safely."""
    try:
        threads = os.listdir("/proc/self/task")
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:  # without Linux's /proc nothing can be observed: assume the worst
        return True
    return len(threads) > 1 or bool(children) or has_started_cuda()


def _traits(layer_class: Any) -> Answer:
    return {
        "family": str(getattr(layer_class, "family", "own")),
        "has_heads": bool(getattr(layer_class, "has_heads", layer_protocol.takes(layer_class, "num_heads"))),
        "compiled": bool(getattr(layer_class, "compiled", False)),
    }


def describe_page(case: Case) -> Answer:
    """Return what the layer says of itself. Nothing is built or called, except its `supports`.

    - `call`: how it is called or built, as text. `summary`, `equation`: from its docstring.
    - `family`, `has_heads`, `causal`, `compiled`: its attributes, or what follows from its parameters.
    - `claims`: its claims as written.
    - `axes`, `options`: [name, letter, default] of each own axis, and [name, default] of each further option.
    - `inputs`: [name, shape, fill] of each input of a function, and its output; empty for a layer.
    - `modes`, `masks`, `takes`: the modes and masks that it supports, and further sizes that it takes.
    - `reference`: what defines the correct result, and how far from it the layer may be. `place`: its file and line.

    Raises UsageError for a wrong claim, axis or reference, and TypeError for a class that is no layer.
    """
    layer_class: Any = layer_lookup.load_class(case.impl)
    layer_protocol.check_signature(layer_class)
    _check(layer_class, case)
    is_function = issubclass(layer_class, FunctionLayer)
    shown = layer_class.function if is_function else layer_class
    signature = signature_of(shown) if is_function else inspect.signature(shown)
    place, axes = _line_of(shown), own_axes.declared_axes(layer_class)
    options = [option for option in own_axes.option_defaults(layer_class) if option not in axes]
    defaults = inspect.signature(layer_class).parameters
    unannotated = (parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values())
    parameters = (str(parameter).replace(" ", "") for parameter in unannotated)
    # The docstring of a function written in C begins with its signature.
    docstring = inspect.cleandoc(getattr(shown, "__doc__", None) or "") if place else ""
    reason = layer_protocol.unsupported_reason
    return {
        "call": f"{layer_class.__name__}({', '.join(parameters)})",
        "summary": docstring.partition("\n")[0],
        "equation": equation_of(docstring),
        **_traits(layer_class),
        "causal": layer_protocol.is_causal(layer_class),
        "claims": {claim: str(text) for claim, text in getattr(layer_class, "claims", {}).items()},
        "axes": [[axis, letter, _plain(value)] for axis, (letter, value) in axes.items()],
        "options": [[option, _plain(defaults[option].default)] for option in options],
        "inputs": _inputs(layer_class) if is_function else [],
        "modes": [mode for mode in MODES if reason(layer_class, replace(case, mode=mode)) is None],
        "masks": [mask for mask in MASKS if reason(layer_class, replace(case, mask=mask)) is None],
        "takes": ["kv_len"] * layer_protocol.takes_source(layer_class)
        + ["num_kv_heads"] * layer_protocol.takes(layer_class, "num_kv_heads"),
        "reference": _reference(case, layer_class),
        "place": place,
    }


def equation_of(docstring: str) -> str:
    """The first indented paragraph of a docstring."""
    blocks = [block for block in re.split(r"\n\s*\n", docstring) if block.startswith("    ")]
    return inspect.cleandoc(blocks[0]) if blocks else ""


def _plain(default: Any) -> Any:
    return default if isinstance(default, int | float | str | None) else repr(default)


def _inputs(layer_class: type[FunctionLayer]) -> list[list[str]]:
    rows = []
    for tensor in layer_class.inputs:
        fill = getattr(tensor.fill, "__name__", repr(tensor.fill)) if callable(tensor.fill) else tensor.fill
        rows.append([tensor.name, f"({', '.join(tensor.shape)})", fill])
    return [*rows, ["output", f"({', '.join(layer_class.output)})", ""]]


def _reference(case: Case, layer_class: Any) -> str:
    reference = verify.reference_class_of(case, layer_class)
    if reference is None:
        return layer_lookup.ITSELF
    shown = inspect.unwrap(reference.function) if issubclass(reference, FunctionLayer) else reference
    module = file_or_module(getattr(shown, "__module__", None) or reference.__module__)
    allowed = layer_protocol.allowed_error(layer_class)
    within = f", within {formatting.share(allowed)}" if allowed else ""
    return f"{module}:{getattr(shown, '__qualname__', reference.__name__)}{within}"


def _line_of(shown: Any) -> str:
    """The file and line where it is defined; empty if it is not written in Python."""
    try:
        shown = inspect.unwrap(shown)
        return f"{inspect.getsourcefile(shown)}:{inspect.getsourcelines(shown)[1]}"
    except (TypeError, OSError):
        return ""


def file_or_module(name: str) -> str:
    """The module, or its file if only the file identifies it."""
    return str(sys.modules[name].__file__) if name.startswith("_own_") else name
