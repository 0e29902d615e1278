"""Attention over packed sequences of unequal lengths: all tokens of a batch in one dimension, without padding.

    y_s = softmax(Q_s K_sᵀ / √head_dim) V_s   for each sequence s

Queries, keys and values are (t, h, head_dim) with t = Σ nᵢ, as in `flash_attn_varlen_func` of Dao 2023,
"FlashAttention-2". `cu_seqlens` (b+1,) holds the first token of each sequence, and t at the end. A padded batch costs
b·n² pairs of tokens, packed sequences cost Σ nᵢ².
"""

import warnings
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def varlen(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, is_causal: bool = False) -> Tensor:
    """One call of torch's kernel for each sequence: (t, h, head_dim) -> (t, h, head_dim).

    The plain form of a kernel for packed sequences: no token of another sequence is touched.
    """
    found = []
    for first, end in pairwise(cu_seqlens.tolist()):
        own_q, own_k, own_v = (_as_batch(one[first:end]) for one in (q, k, v))  # (1, h, nᵢ, head_dim)
        y = scaled_dot_product_attention(own_q, own_k, own_v, is_causal=is_causal, enable_gqa=_is_grouped(q, k))
        found.append(y[0].transpose(0, 1))
    return torch.cat(found)


def _as_batch(packed: Tensor) -> Tensor:
    """(t, h, head_dim) -> (1, h, t, head_dim), a view."""
    return packed.transpose(0, 1)[None]


def _is_grouped(q: Tensor, k: Tensor) -> bool:
    """Whether several heads of queries share one of keys."""
    return q.shape[1] != k.shape[1]


def nested(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, longest: int = 0) -> Tensor:
    """The same with jagged nested tensors of torch, which know where each sequence begins, and no causal mask.

    The nested tensors are views. On a CPU, torch computes each product sequence by sequence.
    """
    assert longest  # `prepare` makes it
    q, k, v = (
        torch.nested.nested_tensor_from_jagged(one, cu_seqlens, min_seqlen=1, max_seqlen=longest).transpose(1, 2)
        for one in (q, k, v)
    )  # (b, h, nᵢ, head_dim)
    return scaled_dot_product_attention(q, k, v).transpose(1, 2).values()


def _prepare_nested(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor) -> dict[str, Any]:
    """The longest length as a number. The first nested tensor of a process warns that their API may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.nested.as_nested_tensor([q])
    return {"longest": int(cu_seqlens.diff().max())}


def document_mask(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens: Tensor,
    is_causal: bool = False,
    allowed: Tensor | None = None,
) -> Tensor:
    """All tokens as one sequence, with a mask (t, t) that hides other sequences: (t, h, head_dim) each.

        softmax(mask(Q Kᵀ / √head_dim)) V   over (h, t, t)

    The plain form of a document mask. All t² pairs are computed, and those of two sequences are masked.
    """
    assert allowed is not None  # without it, sequences attend to one another; `prepare` makes it
    all_q, all_k, all_v = (_as_batch(one) for one in (q, k, v))  # (1, h, t, head_dim)
    y = scaled_dot_product_attention(all_q, all_k, all_v, attn_mask=allowed, enable_gqa=_is_grouped(q, k))
    return y[0].transpose(0, 1)


def _prepare_document_mask(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, is_causal: bool = False
) -> dict[str, Tensor]:
    document = _document_of(cu_seqlens)
    allowed = document == document[:, None]
    return {"allowed": allowed.tril() if is_causal else allowed}


def _document_of(cu_seqlens: Tensor) -> Tensor:
    """The number of each token's sequence, (t,)."""
    return torch.repeat_interleave(cu_seqlens.diff())


# See `FlexAttention` in `impls/attention/compiled.py`.
_LEAST_KEYS = 128


class _Compiled:
    """FlexAttention, compiled at its first call."""

    program: Any = None

    @classmethod
    def get(cls) -> Any:
        if cls.program is None:
            from torch.nn.attention.flex_attention import flex_attention

            cls.program = torch.compile(flex_attention, fullgraph=True, dynamic=False)
        return cls.program


def flex_document_mask(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens: Tensor,
    is_causal: bool = False,
    block_mask: Any = None,
) -> Tensor:
    """The same by FlexAttention, which skips blocks of two sequences: (t, h, head_dim) each.

        softmax(mask(Q Kᵀ / √head_dim)) V   block by block

    Dong et al. 2024, "Flex Attention: A Programming Model for Generating Optimized Attention Kernels", section on
    document masks. The first call compiles.
    """
    assert block_mask is not None  # as in `document_mask`
    y: Tensor = _Compiled.get()(*map(_as_batch, (q, k, v)), block_mask=block_mask, enable_gqa=_is_grouped(q, k))
    return y[0].transpose(0, 1)


def _prepare_block_mask(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, is_causal: bool = False) -> dict[str, Any]:
    from torch.nn.attention.flex_attention import create_block_mask

    document = _document_of(cu_seqlens)

    def rule(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        same = document[query] == document[key]
        return same & (query >= key) if is_causal else same

    return {"block_mask": create_block_mask(rule, None, None, len(q), len(q), device=str(q.device))}


def _supports_nested(case: Any) -> str | None:
    """Return why a case is impossible. No causal mask; keys have as many heads as queries."""
    if case.num_kv_heads not in (0, case.num_heads):
        return "nested tensors have as many heads of keys as of queries"
    if case.mask == "causal":
        return "nested tensors take no causal mask here"
    return None


def _supports_flex(case: Any) -> str | None:
    """Return why a case is impossible. No float64; on a CPU no backward pass, and sequences of 128 tokens or more."""
    if case.dtype == "float64":
        return "flex_attention's kernels sum up in float32, and take no float64"
    if case.device == "cpu" and case.mode != "forward":
        return "flex_attention has no backward pass on the CPU"
    if case.device == "cpu" and case.seq_len < _LEAST_KEYS:
        return f"flex_attention's kernel for the CPU may read uninitialised memory below {_LEAST_KEYS} keys"
    return None


# Attributes that describe a function to the harness.
nested.prepare = _prepare_nested  # type: ignore[attr-defined]
nested.supports = _supports_nested  # type: ignore[attr-defined]
nested.lengths_as = "nested"  # type: ignore[attr-defined]
document_mask.prepare = _prepare_document_mask  # type: ignore[attr-defined]
flex_document_mask.prepare = _prepare_block_mask  # type: ignore[attr-defined]
flex_document_mask.supports = _supports_flex  # type: ignore[attr-defined]
flex_document_mask.compiled = True  # type: ignore[attr-defined]
