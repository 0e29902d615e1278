"""The attention rung inside a block: found by name, and told of masks and sources in the way that it takes them."""

import importlib
import inspect
from typing import Any

import torch
from torch import Tensor, nn

DEFAULT = "impls.attention.naive:NaiveAttention"
# What looks over a source where the rung itself cannot.
STAND_IN = "impls.attention.fused:FusedAttention"


def find(target: str) -> type[Any]:
    """The class of `module:Class`."""
    module, _, name = target.partition(":")
    found: type[Any] = getattr(importlib.import_module(module), name)
    return found


def over_source(attention: type[Any]) -> type[Any]:
    """The rung itself where its `forward` takes a source, else STAND_IN."""
    return attention if "source" in _parameters(attention) else find(STAND_IN)


def told(
    attention: nn.Module,
    x: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    source: Tensor | None = None,
) -> dict[str, Any]:
    """Keyword arguments of the rung's `forward`, in its own layout of masks if it has one.

    A rung that cannot be told `is_causal` is given a mask; one that is causal by nature is not told.
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
    """The rung's state after t tokens (b, t, d) more: at once if it has `prefill`, else step by step."""
    if hasattr(attention, "prefill"):
        return attention.prefill(x, state)
    for x_t in x.unbind(1):  # t times (b, d)
        _, state = attention.step(x_t, state)
    return state


def inside(case: Any) -> type[Any]:
    """The class of the rung inside the case's block, as the registry has it; DEFAULT for a block it does not know."""
    from impls.registry import IMPLS  # here: it lists the blocks too

    options = IMPLS[case.impl].options if case.impl in IMPLS else {}
    return find(options.get("attention", DEFAULT))


def refusal(attention: Any, case: Any) -> str | None:
    """Why the rung cannot be asked for the case; None if nothing speaks against it."""
    supports = getattr(attention, "supports", None)
    said = supports(case) if supports is not None else None
    if said:
        return str(said)
    takes = _parameters(attention)
    if case.mode == "decode" and not hasattr(attention, "step"):
        return "the attention inside has no start and step to decode with"
    if case.source_len and "source" not in takes:
        return "the attention inside takes no source"
    # A rung that is causal by nature is told of no mask over its own input; of a source's padding it must be told too.
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
