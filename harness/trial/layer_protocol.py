"""What a layer can do, found by inspection: masks, a source, decoding, a wide input. Only `forward(x)` is required.

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
"""

import inspect
from dataclasses import replace
from typing import Any

from harness.case import DTYPES, Case
from harness.errors import UsageError

# A float64 reference of this many tokens still takes about a second.
_MOST_VERIFIED = 1024


def unsupported_reason(layer_class: Any, case: Case) -> str | None:
    """Return why the layer cannot run this case, or None if nothing prevents it."""
    supports = getattr(layer_class, "supports", None)
    said = supports(case) if supports is not None else None
    if said:
        return str(said)
    if case.mode == "decode":
        width = input_width(layer_class)
        if width != 1:
            return f"its input is {width} times as wide as its output, which cannot be its next token"
        steps = callable(getattr(layer_class, "start", None)) and callable(getattr(layer_class, "step", None))
        if not steps:
            return "it has no start and step to decode with"
        if case.mask == "padding":
            return "one token after another has no padding"
        if kv_len(layer_class, case) and not accepts(layer_class, "source", method="start"):
            return "its start takes no source"
    has_source = kv_len(layer_class, case) > 0
    if has_source and not accepts(layer_class, "source"):
        return "its forward takes no source"
    if has_source and case.mask == "padding" and not accepts(layer_class, "attn_mask"):
        return "its forward takes no attn_mask, to hide the padding of a source with"
    if is_causal(layer_class):
        return None
    if has_source:
        if case.mask == "causal" and case.mode != "decode":
            return "a source has no later tokens to hide: a causal mask is of a layer's own input"
        return None
    if case.mask == "causal" and not accepts(layer_class, "is_causal", "attn_mask"):
        return "its forward takes neither is_causal nor attn_mask, and it has no causal = True"
    if case.mask == "padding" and not accepts(layer_class, "attn_mask"):
        return "its forward takes no attn_mask, and it has no causal = True"
    return None


def case_to_verify(layer_class: Any, small: Case) -> Case:
    """Return the small case to verify, with the nearest n that the layer accepts.

    If the layer refuses `small` for its n, smaller n are tried first, then larger ones. If it refuses all of them,
    `small` itself is returned.
    """
    if unsupported_reason(layer_class, small) is None:
        return small
    below = range(small.seq_len - 1, 0, -1)
    above = range(small.seq_len + 1, _MOST_VERIFIED + 1)
    others = (replace(small, seq_len=n) for n in (*below, *above))
    return next((other for other in others if unsupported_reason(layer_class, other) is None), small)


def unsupported_in_sweep(layer_class: Any, case: Case) -> str | None:
    """Return the `unsupported_reason` for what a sweep runs: the case, and the small case verified before it."""
    return unsupported_reason(layer_class, case_to_verify(layer_class, case.small())) or unsupported_reason(
        layer_class, case
    )


def kv_len(layer_class: Any, case: Case) -> int:
    """Return the number of source tokens that the layer is given, 0 for none."""
    return case.kv_len or (case.seq_len if getattr(layer_class, "needs_source", False) else 0)


def input_width(layer_class: Any) -> int:
    """Return the input's width as a multiple of d.

    Raises UsageError if `input_width` is not an integer of at least 1.
    """
    width = getattr(layer_class, "input_width", 1)
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise UsageError(f"input_width is {width!r}: it must be a whole number from 1 on")
    return width


def output_dtype(layer: Any, dtype: str) -> str:
    """Return the dtype that the layer, or its class, must return for an input of `dtype`.

    Raises UsageError if `output_dtype` is not one of the dtypes of a case.
    """
    declared = getattr(layer, "output_dtype", dtype)
    if declared not in DTYPES:
        raise UsageError(f"output_dtype is {declared!r}: it must be one of {', '.join(DTYPES)}")
    return str(declared)


def is_causal(layer_class: Any) -> bool:
    """Return whether no token sees a later one, whatever the mask.

    Tokens after a sequence then change nothing in it.
    """
    return bool(getattr(layer_class, "causal", False))


def accepts(layer_class: Any, *names: str, method: str = "forward") -> bool:
    """Return whether the method has a parameter of one of these names."""
    parameters = inspect.signature(getattr(layer_class, method)).parameters
    return any(name in parameters for name in names)
