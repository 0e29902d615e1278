"""Functions of packed sequences, under the names that kernels use."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from impls.attention.plain import PackedAttention


def varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool = False,
) -> Tensor:
    """As flash_attn_varlen_func is called."""
    assert max_seqlen_q == max_seqlen_k == int(cu_seqlens_q.diff().max())
    found = []
    for first, end in pairwise(cu_seqlens_k.tolist()):
        parts = (one[first:end].transpose(0, 1)[None] for one in (q, k, v))
        found.append(sdpa(*parts, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])[0].transpose(0, 1))
    return torch.cat(found)


def stops_at_empty(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor) -> Tensor:
    """An empty sequence ends its loop."""
    y = torch.zeros_like(q)
    for first, end in pairwise(cu_seqlens.tolist()):
        if first == end:
            break
        parts = (one[first:end].transpose(0, 1)[None] for one in (q, k, v))
        y[first:end] = sdpa(*parts)[0].transpose(0, 1)
    return y


varlen.claims = {"work": "4n²d", "work_train": "14n²d"}  # type: ignore[attr-defined]


def by_other_names(query: Tensor, key: Tensor, value: Tensor, max_q: int, cu_seq_q: Tensor) -> Tensor:
    return varlen(query, key, value, cu_seq_q, cu_seq_q, max_q, max_q)


def _plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ v


by_other_names.reference = _plain  # type: ignore[attr-defined]


def _near(
    q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, window: int = 8, rows: Tensor | None = None
) -> Tensor:
    place = torch.arange(k.shape[2])
    apart = (place if rows is None else rows)[:, None] - place
    near = (apart.abs() < window) & (apart >= 0 if is_causal else True)
    scores = (q if rows is None else q[:, :, rows]) @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return scores.masked_fill(~near, -torch.inf).softmax(-1) @ v


def near(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, is_causal: bool = False, window: int = 8) -> Tensor:
    found = []
    for first, end in pairwise(cu_seqlens.tolist()):
        parts = (one[first:end].transpose(0, 1)[None] for one in (q, k, v))
        found.append(_near(*parts, is_causal, window)[0].transpose(0, 1))
    return torch.cat(found)


def forgets_its_window(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, window: int = 8) -> Tensor:
    """It looks far in long batches alone."""
    return near(q, k, v, cu_seqlens, window=window if len(q) < 100 else 99)


def _masked(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
    scores = (q if rows is None else q[:, :, rows]) @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return (scores if attn_mask is None else scores.masked_fill(~attn_mask, -torch.inf)).softmax(-1) @ v


def has_a_masked_reference(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, is_causal: bool = False) -> Tensor:
    longest = int(cu_seqlens.diff().max())
    return varlen(q, k, v, cu_seqlens, cu_seqlens, longest, longest, is_causal)


has_a_masked_reference.reference = _masked  # type: ignore[attr-defined]
near.axes = forgets_its_window.axes = {"window": ("w", 8)}  # type: ignore[attr-defined]
near.reference = forgets_its_window.reference = _near  # type: ignore[attr-defined]


def forgets_the_end(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, max_seqlen: int) -> Tensor:
    """As a kernel that is tested up to 256 tokens."""
    y = by_other_names(q, k, v, max_seqlen, cu_seqlens)
    return torch.cat([y[:512], torch.zeros_like(y[512:])])


def sees_all(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, max_seqlen: int) -> Tensor:
    """Tokens see those of other sequences."""
    return sdpa(*(one.transpose(0, 1)[None] for one in (q, k, v)))[0].transpose(0, 1)


def described(x: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
    """Each token minus the mean of its sequence."""
    parts = x.split(lengths.tolist())
    assert starts.tolist() == [0, *lengths.cumsum(0).tolist()]
    return torch.cat([part - part.mean(0) for part in parts])


described.inputs = {  # type: ignore[attr-defined]
    "x": "t d",
    "starts": {"shape": "b+1", "fill": "cumulative lengths"},
    "lengths": {"shape": "b", "fill": "lengths"},
}


def optional(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Any = None, max_seqlen: Any = None) -> Tensor:
    return varlen(q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)


optional.layout = "thd"  # type: ignore[attr-defined]


def under_own_names(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:
    longest = int(starts.diff().max())
    return varlen(q, k, v, starts, starts, longest, longest)


under_own_names.inputs = {  # type: ignore[attr-defined]
    "q": "t h D",
    "k": "t g D",
    "v": "t g D",
    "starts": {"shape": "b+1", "fill": "cumulative lengths"},
}


def without_starts(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q


without_starts.layout = "thd"  # type: ignore[attr-defined]


def no_batch(x: Any) -> Any:
    return x * 2


no_batch.inputs = {"x": "nb d"}  # type: ignore[attr-defined]


class WithInfinity(PackedAttention):
    """Attention whose softmax over no key is 0/0."""

    reference = "attention.packed"

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        scores = q @ k.mT / self.head_dim**0.5
        return scores.masked_fill(~attn_mask, float("-inf")).softmax(-1) @ v
