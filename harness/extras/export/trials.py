"""How a layer or function is built and called, as data, for a script that calls it without the harness."""

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from harness.core.layers import layer_files, layer_lookup
from harness.core.model.sequence_lengths import real_lengths
from harness.core.model.sweep_axes import Case
from harness.core.trial import layer_inputs, layer_protocol, result_checks, verify, workload
from harness.core.trial.counts.flops import watched_call
from harness.core.trial.described_layer import file_or_module
from harness.core.trial.function_layer import FunctionLayer, signature_of
from harness.core.trial.layer_inputs import Input
from harness.core.trial.packed_sequences import is_longest, knows_lengths
from harness.core.trial.sandbox import Answer
from harness.core.trial.workload import Unsupported
from impls.adapters.kernel_table import KERNELS
from impls.adapters.transformers_functions import is_of_model

# Arguments of `forward` that are tensors, each with the word that describes it.
_WORDS = {"attn_mask": "causal", "source": "source"}


def describe_call(case: Case) -> Answer:
    """Return how the layer and its reference are built and called in this case.

    No layer with weights is built, but an approximation in training: its products decide the limit of its gradients.

    - `layer`, `reference`: see `_described` and `_described_function`; the reference is None if the layer has none.
    - `input_width`, `source_len`: the width of the input in d, and the tokens of a source, 0 for none.
    - `prefills`: whether decoding has a `prefill`.
    - `small_len`: the length at which it is verified.
    - `inputs`, `output`: of a function, see `_described_input` and `_sizes`; None of a layer.
    - `lengths`: of a function, each n with the lengths of its sequences, if they are not all n.
    - `tolerance`, `gradient_tolerance`: the largest relative errors that are tolerated.
    - `modules`: the text of the user's own modules, by their names or files.

    Raises Unsupported for a function or a case that no script can hold.
    """
    layer_class = layer_lookup.load_class(case.impl)
    options = layer_lookup.build_options(case.impl)
    layer_protocol.check_signature(layer_class, options)
    reference = verify.reference_class_of(case, layer_class)
    small = layer_protocol.case_to_verify(layer_class, case.small())
    of_products = 0.0
    if layer_protocol.allowed_error(layer_class) and case.trains:
        reference = None  # the gradients of an approximation are its own
        dtypes, _ = watched_call(workload.build(small, 0).forward)
        of_products = result_checks.limit_of_products(layer_class, dtypes, case.d_model)
    limit, of_gradients = result_checks.limits(case, layer_class, reference is not None)
    limits = {"tolerance": limit, "gradient_tolerance": max(of_gradients, of_products), "small_len": small.seq_len}
    if case.is_padded and not knows_lengths(layer_class):
        raise Unsupported("a script has no padded batch: export a case of lengths=equal with another mask")
    if case.kv_len and layer_protocol.as_masked(case, layer_class).mask == "causal":
        raise Unsupported("a script has no causal mask over more keys than queries: export a case without kv_len")
    # Without a mask to pass, a reference is as causal as the layer.
    of_reference = case
    if reference and layer_protocol.is_as_causal(reference, layer_class):
        of_reference = replace(case, mask="none")
    if issubclass(layer_class, FunctionLayer):
        call = _function_call(case, small, layer_class)
        call["reference"] = reference and _described_function(reference, of_reference, "")
    else:
        call = {
            "layer": _described(layer_class, case, options),
            "reference": reference and _described(reference, of_reference, layer_lookup.reference_options(case.impl)),
            "input_width": layer_protocol.input_width(layer_class),
            "source_len": layer_protocol.kv_len(layer_class, case),
            "prefills": hasattr(layer_class, "prefill"),
            "inputs": None,
            "output": None,
        }
    return {**call, **limits, "modules": _modules(layer_class, reference)}


def _described(layer_class: Any, case: Case, options: dict[str, Any]) -> dict[str, Any]:
    """A class as `module:Class`, the arguments that build it, those of its `forward`, and whether it has `prepare`.

    A module that only its file identifies is that file.
    An argument of `forward` that is a tensor is described by a word: `causal` for a mask, or `source`.
    """
    if hasattr(layer_class, "_is_of_factory"):
        raise Unsupported("a factory builds it, and a script builds its layers: export its class")
    small = replace(case.small(), device="cpu")  # this machine may have no GPU
    source = torch.empty(1, 1, 1) if layer_protocol.kv_len(layer_class, case) else None
    keywords = workload.forward_keywords(layer_class, small, source) if case.mode != "decode" else {}
    return {
        "target": f"{file_or_module(layer_class.__module__)}:{layer_class.__qualname__}",
        "arguments": {"d_model": case.d_model, **layer_protocol.size_options(layer_class, case), **options},
        "inside": [],
        "keywords": {name: _WORDS.get(name, value) for name, value in keywords.items()},
        "prepares": hasattr(layer_class, "prepare") and case.mode != "decode",
    }


def _function_call(case: Case, small: Case, layer_class: type[FunctionLayer]) -> Answer:
    cases = case, replace(case, seq_len=small.seq_len, kv_len=small.kv_len)
    inputs = layer_protocol.inputs_of(layer_class, case)
    output = _sizes(layer_class, "output", layer_protocol.output_dims(layer_class, case), cases)
    lengths = [[at_size.seq_len, real_lengths(at_size)] for at_size in cases if at_size.is_padded]
    return {
        "lengths": lengths or None,
        "layer": _described_function(layer_class, case, layer_lookup.target(case.impl)),
        "inputs": [_described_input(layer_class, described, cases) for described in inputs],
        "output": output,
        "input_width": 1,
        "source_len": 0,
        "prefills": False,
    }


def _described_function(layer_class: type[FunctionLayer], case: Case, target: str) -> dict[str, Any]:
    """A function as `module:function`, its layout, its keyword arguments, and whether it has `prepare`.

    `positional` inputs are passed by position, and all others by name. The word of an argument that is the longest
    length is `longest`. With `of_each`, packed sequences are passed to the function one by one. For a kernel of the
    table, see `Kernel.user_call`.
    """
    function = layer_class.function
    named = [described.name for described in layer_class.inputs[layer_class.positional :]]
    layout, arguments = layer_class.layout, {"named": named}
    if isinstance(function, nn.Module):
        raise Unsupported("it is a module that is built already, and a script builds its layers: export its class")
    if target and is_of_model(signature_of(inspect.unwrap(function))) and not _place(function, ""):
        raise Unsupported("it is called as by a model, and a script has none: export a function of q, k and v")
    each = getattr(function, "of_each_sequence", None)
    if hasattr(function, "of_each_sequence") and each is None:
        raise Unsupported(
            "a script calls a reference for each packed sequence in (b, h, n, head_dim) only: give that layout"
        )
    if native := getattr(function, "in_own_layout", each):
        function, layout = native, layout if each else "bnhd" if layout == "bhnd" else "bhnd"
    layer = workload.build_layer(layer_class, case, **layer_lookup.build_options(case.impl))
    assert isinstance(layer, FunctionLayer)
    keywords = workload.forward_keywords(layer, replace(case.small(), device="cpu"), None) | layer.options
    keywords |= {name: "longest" for name in keywords if is_longest(name)}
    if kernel := KERNELS.get(case.impl) if target else None:  # called as by a user of its package
        target, keywords, arguments = kernel.user_call(keywords.get("is_causal", False))
    prepare = _place(layer_class.prepare, "") if hasattr(layer_class, "prepare") else ""
    return {
        "target": target or _place(function, "its reference"),
        "arguments": {**arguments, "layout": layout, "positional": layer_class.positional, "of_each": bool(each)},
        "inside": [prepare] if prepare else [],
        "keywords": {name: _WORDS.get(name, value) for name, value in keywords.items()},
        "prepares": hasattr(layer_class, "prepare"),
    }


def _described_input(layer_class: type[FunctionLayer], described: Input, cases: tuple[Case, ...]) -> dict[str, Any]:
    """An input's name, its sizes at the case and at a small one, its dtype, whether it has a gradient, and its fill.

    A fill that is a function is described as `module:function`.
    """
    name, fill = described.name, described.fill
    return {
        "name": name,
        "sizes": _sizes(layer_class, name, described.shape, cases),
        "dtype": described.dtype,
        "grad": described.grad,
        "fill": _place(fill, f"the fill of {name}") if callable(fill) else fill,
    }


def _sizes(layer_class: Any, name: str, shape: tuple[str, ...], cases: tuple[Case, ...]) -> list[list[int]]:
    """The shape at each of the cases."""
    letters = [layer_protocol.letters_at(layer_class, case) for case in cases]
    return [list(layer_inputs.size_at(name, shape, case, *at)) for case, at in zip(cases, letters, strict=True)]


def _place(function: Callable[..., Any], what: str) -> str:
    """Where a function can be imported from, as `module:function`. Without `what`, the place may be empty."""
    name = getattr(function, "__name__", "")
    for module in (getattr(function, "__module__", None) or "torch", "torch"):
        if getattr(sys.modules.get(module), name or "<", None) is function:
            return f"{file_or_module(module)}:{name}"
    if what:
        raise Unsupported(f"{what} has no name at the top of a module, so no script can hold it")
    return ""


def _modules(*classes: Any) -> dict[str, str]:
    """The text of the user's modules that make up these layers, by their names or files."""
    files = {file for layer_class in classes if layer_class for file in layer_files.files_of_class(layer_class)}
    return {
        file_or_module(name): Path(str(module.__file__)).read_text(encoding="utf-8")
        for name, module in sorted(sys.modules.items())
        if layer_files.is_of_user(name)
        and not name.startswith("impls")
        and os.path.abspath(str(module.__file__)) in files
    }
