"""How a case's layer is built and called, as data from which a script can do the same without the harness."""

import sys
from typing import Any

import torch

from harness import layer_lookup
from harness.sweep_axes import Case
from harness.trial import layer_protocol, verify, workload
from harness.trial.function_layer import FunctionLayer
from harness.trial.workload import Unsupported


def describe_call(case: Case) -> dict[str, Any]:
    """Return how the layer and its reference are built and called in this case. Nothing is built here.

    - `layer`, `reference`: see `_described`; the reference is None if the layer has none.
    - `input_width`, `source_len`: the width of the input in d, and the tokens of a source, 0 for none.
    - `prefills`: whether decoding has a `prefill`.
    - `tolerance`, `gradient_tolerance`: the largest relative errors that rounding explains.

    Raises Unsupported for a function.
    """
    layer_class = layer_lookup.load_class(case.impl)
    if issubclass(layer_class, FunctionLayer):
        raise Unsupported("it is a function, and a script holds layers that are classes")
    options = layer_lookup.build_options(case.impl)
    layer_protocol.check_signature(layer_class, options)
    reference = layer_lookup.load_reference(case.impl)
    limit, of_gradients = verify.limits(case, layer_class, has_reference=reference is not None)
    return {
        "layer": _described(layer_class, case, options),
        "reference": reference and _described(reference, case, layer_lookup.reference_options(case.impl)),
        "input_width": layer_protocol.input_width(layer_class),
        "source_len": layer_protocol.kv_len(layer_class, case),
        "prefills": hasattr(layer_class, "prefill"),
        "tolerance": limit,
        "gradient_tolerance": of_gradients,
    }


def _described(layer_class: Any, case: Case, options: dict[str, Any]) -> dict[str, Any]:
    """A class as `module:Class`, the arguments that build it, those of its `forward`, and whether it has `prepare`.

    An argument of `forward` that is a tensor is described by a word: `causal` for a mask, or `source`.
    """
    small = case.small()
    source = torch.empty(1, 1, 1) if layer_protocol.kv_len(layer_class, case) else None
    keywords = workload.forward_keywords(layer_class, small, source) if case.mode != "decode" else {}
    words = {"attn_mask": "causal", "source": "source"}
    return {
        "target": _target(layer_class),
        "arguments": {"d_model": case.d_model, **layer_protocol.size_options(layer_class, case), **options},
        "keywords": {name: words.get(name, value) for name, value in keywords.items()},
        "prepares": hasattr(layer_class, "prepare") and case.mode != "decode",
    }


def _target(layer_class: type) -> str:
    """The class as `module:Class`. A module that only its file identifies is that file."""
    module = sys.modules[layer_class.__module__]
    own_file = layer_class.__module__.startswith("_own_")
    return f"{module.__file__ if own_file else layer_class.__module__}:{layer_class.__qualname__}"
