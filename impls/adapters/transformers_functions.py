"""Attention functions of the transformers package, as functions of queries, keys and values.

    f(module, q, k, v, mask, scaling) -> (b, n, h, head_dim),   softmax(Q Kᵀ · scaling) V

A model of transformers looks its function up by a key (`AttentionInterface`). `of_model` makes any such function one of
q (b, h, n, head_dim) and k, v (b, g, m, head_dim). The mask is what models make for it, outside the measured call.
"""

import inspect
from collections.abc import Callable
from functools import cache, update_wrapper
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from impls.attention.compiled import flex_block_mask, flex_refusal
from impls.attention.reference import softmax_attention

_PARAMETERS = ["module", "query", "key", "value", "attention_mask"]
# Keywords that every model passes.
_PASSED = ("scaling", "dropout")


def is_of_model(signature: inspect.Signature) -> bool:
    """Whether a function is called as models of transformers call their attention."""
    return [*signature.parameters][: len(_PARAMETERS)] == _PARAMETERS


@cache
def of_model(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return the function as one of q, k and v, with attributes that describe it.

    The function looks up in the module that calls it how many query heads share a key, and whether it is causal. Its
    own keywords are options. `sliding_window` is passed to a function that has this parameter. For any other, the mask
    holds the window, as in transformers: w tokens under a causal mask, and w on both sides without one.
    """
    given, name = inspect.signature(function).parameters, getattr(function, "__name__", type(function).__name__)
    is_flex, takes_window = name.startswith("flex"), "sliding_window" in given
    takes_causal = is_flex or name.startswith("sdpa") or "is_causal" in given

    def attention(q: Tensor, k: Tensor, v: Tensor, module: Any = None, mask: Any = None, **keywords: Any) -> Tensor:
        heads: Tensor = function(module, q, k, v, mask, **keywords)[0]  # (b, n, h, head_dim)
        return heads.transpose(1, 2)

    def prepare(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        sliding_window: int = 0,
        **keywords: Any,
    ) -> dict[str, Any]:
        mask: Any = attn_mask
        in_mask = 0 if takes_window else sliding_window
        is_chunk = q.shape[2] != k.shape[2]  # their own causal masks are of as many queries as keys
        if in_mask or (is_causal and (is_chunk or not takes_causal)):
            mask, is_causal = visible(q, k, attn_mask, is_causal, in_mask), False
        if is_flex:
            mask = flex_block_mask(q.shape[2], k.shape[2], q.device, is_causal, mask)
        elif mask is not None and name.startswith("eager"):  # it adds the mask to the scores
            mask = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(~mask, torch.finfo(q.dtype).min)
        module = SimpleNamespace(
            num_key_value_groups=q.shape[1] // k.shape[1], is_causal=is_causal, training=False, layer_idx=0
        )
        keywords |= {"sliding_window": sliding_window or None} if takes_window else {}
        keywords |= {"is_causal": is_causal} if "is_causal" in given else {}
        return {"module": module, "mask": mask, "scaling": q.shape[-1] ** -0.5, "dropout": 0.0, **keywords}

    def supports(case: Any) -> str | None:
        if name.startswith("flash") and function.__module__.startswith("transformers."):
            return "it reads in a model's config which kernel to load: measure sdpa.hub.* or attention.flash_attn"
        if "sliding_window=" in case.options and case.kv_len:
            return "a window is over the layer's own tokens: leave kv_len out"
        if "sliding_window=" in case.options and case.mode == "decode" and case.mask == "padding":
            return "a window counts back from the last token, which may be padding here: leave sliding_window out"
        return flex_refusal(case) if is_flex else None

    update_wrapper(attention, function)
    options = {"attn_mask": None, "is_causal": False, "sliding_window": 0}
    options |= {
        one.name: one.default
        for one in given.values()
        if one.default is not one.empty and one.name not in (*options, *_PASSED)
    }
    parameters = {**dict.fromkeys("qkv", inspect.Parameter.empty), **options}
    attention.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(one, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=to) for one, to in parameters.items()]
    )
    described = {"compiled": is_flex, "reference": model_attention, "supports": supports, **vars(function)}
    vars(attention).update(described, prepare=prepare)
    return attention


def visible(
    q: Tensor, k: Tensor, attn_mask: Tensor | None, is_causal: bool, window: int, rows: Tensor | None = None
) -> Tensor | None:
    """Return the mask (b or 1, 1, n, m), True where a query may see a key; None if it may see all.

    A query always sees itself. A single query is the last token. With `rows`, the mask is of these queries alone.
    """
    if not (is_causal or window):
        return attn_mask
    n, m = q.shape[2], k.shape[2]
    queries = torch.arange(m - n, m, device=q.device)
    apart = (queries if rows is None else queries[rows])[:, None] - torch.arange(m, device=q.device)  # (n, m)
    allowed = apart >= 0 if is_causal or n == 1 else apart >= -window
    if window:
        allowed = allowed & (apart < window if is_causal or n == 1 else apart <= window)
    return allowed[None, None] if attn_mask is None else allowed & (attn_mask | (apart == 0))


def model_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    sliding_window: int = 0,
    rows: Tensor | None = None,
) -> Tensor:
    """Reference: softmax attention, over the window if there is one. With `rows`, the outputs of these queries alone.

    Shapes are those of `softmax_attention`.
    """
    mask = visible(q, k, attn_mask, is_causal, sliding_window, rows)
    return softmax_attention(q if rows is None else q[:, :, rows], k, v, mask)


@cache
def _interface(key: str) -> Callable[..., Any]:
    """Return the function of a key. The plain one is no entry: every model passes its own, and this is Llama's."""
    from transformers import AttentionInterface
    from transformers.models.llama.modeling_llama import eager_attention_forward

    found: Callable[..., Any] = AttentionInterface().get_interface(key, eager_attention_forward)
    return found


def _absent(case: Any = None) -> str | None:
    return None if find_spec("transformers") else "transformers is not installed: pip install transformers"


def _registered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `of_model(function)`, which is refused without transformers.

    `load_package` imports it, which takes seconds, before trials are forked.
    """
    made: Any = of_model(function)
    supports = made.supports
    made.supports = lambda case: supports(case) or _absent(case)
    made.load_package = lambda: _absent() or _interface("sdpa")
    return made


@_registered
def eager(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **keywords: Any
) -> Any:
    """Attention in plain operations, softmax(Q Kᵀ / √head_dim + mask) V."""
    return _interface("eager")(module, query, key, value, attention_mask, **keywords)


@_registered
def sdpa(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **keywords: Any) -> Any:
    """Attention by torch's kernel, softmax(Q Kᵀ / √head_dim) V."""
    return _interface("sdpa")(module, query, key, value, attention_mask, **keywords)


@_registered
def flex(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **keywords: Any) -> Any:
    """FlexAttention, softmax(mask(Q Kᵀ / √head_dim)) V block by block. transformers compiles it at its first call."""
    return _interface("flex_attention")(module, query, key, value, attention_mask, **keywords)
