"""The attention layer inside a block: find it by name, and pass masks and sources in the form that it takes."""

import importlib
import inspect
from typing import Any

import torch
from torch import Tensor, nn

DEFAULT = "impls.attention.naive:NaiveAttention"
# The cross-attention if the layer itself takes no source.
STAND_IN = "impls.attention.fused:FusedAttention"


def find(target: str) -> type[Any]:
    """Return the class named `module:Class`."""
    module, _, name = target.partition(":")
    found: type[Any] = getattr(importlib.import_module(module), name)
    return found


def over_source(attention: type[Any]) -> type[Any]:
    """Return the layer itself if its `forward` takes a source, else `STAND_IN`."""
    return attention if "source" in _parameters(attention) else find(STAND_IN)


def told(
    attention: nn.Module,
    x: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    source: Tensor | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments for the layer's `forward`, with masks in the layer's own layout if it has one.

    Causality is passed as `is_causal` if the layer takes it and no `attn_mask` is given. If not, it becomes part of
    `attn_mask`. A layer that is causal by nature gets neither.
    """
    keywords: dict[str, Any] = {} if source is None else {"source": source}
    if is_causal and not getattr(attention, "causal", False):
        if attn_mask is None and "is_causal" in _parameters(type(attention)):
            keywords["is_causal"] = True
        else:
            n = x.shape[1]
            earlier = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()[None, None]  # (1, 1, n, n)
            attn_mask = earlier if attn_mask is None else earlier & attn_mask
    if attn_mask is not None:
        keywords["attn_mask"] = attn_mask
    prepare = getattr(attention, "prepare", None)
    return keywords if prepare is None else prepare(x, **keywords)


def taken_in(attention: Any, x: Tensor, state: Any) -> Any:
    """Return the layer's state after t more tokens (b, t, d): at once if it has `prefill`, else step by step."""
    if hasattr(attention, "prefill"):
        return attention.prefill(x, state)
    for x_t in x.unbind(1):  # t times (b, d)
        _, state = attention.step(x_t, state)
    return state


def inside(case: Any) -> type[Any]:
    """Return the class of the attention layer inside the case's block, or `DEFAULT` for an unregistered block."""
    from impls.registry import IMPLS  # imported here because the registry imports the blocks' entries

    options = IMPLS[case.impl].options if case.impl in IMPLS else {}
    return find(options.get("attention", DEFAULT))


def refusal(attention: Any, case: Any) -> str | None:
    """Return why the attention layer cannot run the case, or None if nothing prevents it."""
    supports = getattr(attention, "supports", None)
    said = supports(case) if supports is not None else None
    if said:
        return str(said)
    takes = _parameters(attention)
    if case.mode == "decode" and not hasattr(attention, "step"):
        return "the attention inside has no start and step to decode with"
    if case.source_len and "source" not in takes:
        return "the attention inside takes no source"
    # A layer that is causal by nature needs no mask over its own input, but still needs the padding mask of a source.
    causal = getattr(attention, "causal", False)
    if case.mask == "padding" and case.source_len and "attn_mask" not in takes:
        return "the attention inside takes a source, and no attn_mask to hide its padding with"
    if case.mask == "padding" and not causal and "attn_mask" not in takes:
        return "the attention inside takes no attn_mask"
    if case.mask == "causal" and not causal and not {"is_causal", "attn_mask"} & takes:
        return "the attention inside takes neither is_causal nor attn_mask"
    return None


def _parameters(attention: Any) -> set[str]:
    return set(inspect.signature(attention.forward).parameters)
