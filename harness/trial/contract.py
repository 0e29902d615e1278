"""What a layer can be asked for, found by looking at it: masks, a source, decoding, a wide input. Nothing is demanded.

forward(x)                    all that there must be: (b, n, d) -> (b, n, d)
forward(x, is_causal=…)       it can be told that no token may look at a later one
forward(x, attn_mask=…)       boolean, broadcastable to (b, h, n, m), True where a query may look at a key
forward(x, source=…)          keys and values of a source (b, m, d): cross-attention
causal = True                 by its nature no token sees a later one, as in a recurrent layer
needs_source = True           it has no pass without a source: one of n tokens is then made for it
input_width = 3               its input is so many times as wide as its output: (b, n, 3d) -> (b, n, d)
output_dtype = "float32"      the dtype that it returns, where that is not the dtype of its input
prepare(x, …) -> dict         what it is given of the above, turned into a layout of its own, outside the clock
start(batch_size, seq_len) -> state, step(x_t, state) -> (y_t, state)       decoding, (b, d) -> (b, d)
prefill(x, state) -> state    what t steps would make of the state, at once
"""

import inspect
from dataclasses import replace
from typing import Any

from harness.case import DTYPES, Case
from harness.errors import UsageError

# A float64 reference of so many tokens is still a matter of a second.
_MOST_VERIFIED = 1024


def refusal(layer_class: Any, case: Case) -> str | None:
    """Why the layer cannot be asked for this case; None if nothing speaks against it."""
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
        if source_len(layer_class, case) and not takes(layer_class, "source", method="start"):
            return "its start takes no source"
    has_source = source_len(layer_class, case) > 0
    if has_source and not takes(layer_class, "source"):
        return "its forward takes no source"
    if has_source and case.mask == "padding" and not takes(layer_class, "attn_mask"):
        return "its forward takes no attn_mask, to hide the padding of a source with"
    if is_causal(layer_class):
        return None
    if has_source:
        if case.mask == "causal" and case.mode != "decode":
            return "a source has no later tokens to hide: a causal mask is of a layer's own input"
        return None
    if case.mask == "causal" and not takes(layer_class, "is_causal", "attn_mask"):
        return "its forward takes neither is_causal nor attn_mask, and it has no causal = True"
    if case.mask == "padding" and not takes(layer_class, "attn_mask"):
        return "its forward takes no attn_mask, and it has no causal = True"
    return None


def to_verify(layer_class: Any, small: Case) -> Case:
    """The small case that is verified: where the layer refuses it for its n, that at the nearest n below that it takes,
    else above; where it refuses all of them, the case itself.
    """
    if refusal(layer_class, small) is None:
        return small
    below = range(small.seq_len - 1, 0, -1)
    above = range(small.seq_len + 1, _MOST_VERIFIED + 1)
    others = (replace(small, seq_len=n) for n in (*below, *above))
    return next((other for other in others if refusal(layer_class, other) is None), small)


def refusal_in_a_sweep(layer_class: Any, case: Case) -> str | None:
    """As `refusal`, of all that a sweep asks of the layer: it is verified at a small n before."""
    return refusal(layer_class, to_verify(layer_class, case.small())) or refusal(layer_class, case)


def source_len(layer_class: Any, case: Case) -> int:
    """Tokens of the source that the layer is given; 0 for none."""
    return case.source_len or (case.seq_len if getattr(layer_class, "needs_source", False) else 0)


def input_width(layer_class: Any) -> int:
    """How many times d its input is wide. Raises UsageError for an `input_width` that is no whole number from 1 on."""
    width = getattr(layer_class, "input_width", 1)
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise UsageError(f"input_width is {width!r}: it must be a whole number from 1 on")
    return width


def output_dtype(layer: Any, dtype: str) -> str:
    """The dtype that the layer, or its class, must return for an input of `dtype`.

    Raises UsageError for an `output_dtype` that is not one of the dtypes of a case.
    """
    declared = getattr(layer, "output_dtype", dtype)
    if declared not in DTYPES:
        raise UsageError(f"output_dtype is {declared!r}: it must be one of {', '.join(DTYPES)}")
    return str(declared)


def is_causal(layer_class: Any) -> bool:
    """Whether no token sees a later one, whatever the mask: what stands behind a sequence then changes nothing."""
    return bool(getattr(layer_class, "causal", False))


def takes(layer_class: Any, *names: str, method: str = "forward") -> bool:
    """Whether the method has a parameter of one of these names."""
    parameters = inspect.signature(getattr(layer_class, method)).parameters
    return any(name in parameters for name in names)
