"""Decoding with a paged cache (Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving").

    y_s = softmax(q_s K_sᵀ / √head_dim) V_s   for the new token of each sequence s

Keys and values of all sequences lie in one pool of pages, `page_size` tokens each. A block table says which pages hold
a sequence, in order. A sequence of any length then wastes less than a page.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from impls.attention.reference import softmax_attention


def paged(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    lengths: Tensor,
    block_table: Tensor | None = None,
    page_size: int = 16,
) -> Tensor:
    """A call of torch's kernel for each sequence, over its pages: (b, h, 1, head_dim) -> (b, h, 1, head_dim).

    `k_cache` and `v_cache` are pools of slots (slots, g, head_dim), `lengths` (b,) the tokens of each sequence, and
    `block_table` (b, pages) its pages.
    """
    assert block_table is not None  # `prepare` makes it
    k_pages, v_pages = (_pages(one, page_size) for one in (k_cache, v_cache))
    is_grouped = q.shape[1] != k_cache.shape[1]
    found = []
    for number, length in enumerate(lengths.tolist()):
        pages = block_table[number, : _pages_of(length, page_size)]
        k, v = (
            one.index_select(0, pages).flatten(0, 1)[:length].transpose(0, 1)[None] for one in (k_pages, v_pages)
        )  # (1, g, nᵢ, head_dim)
        found.append(scaled_dot_product_attention(q[number : number + 1], k, v, enable_gqa=is_grouped))
    return torch.cat(found)


def paged_reference(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    lengths: Tensor,
    block_table: Tensor | None = None,
    page_size: int = 16,
) -> Tensor:
    """The formula over the table: all its pages at once, with the slots beyond each length masked."""
    assert block_table is not None
    k, v = (
        _pages(one, page_size)[block_table].flatten(1, 2).transpose(1, 2) for one in (k_cache, v_cache)
    )  # (b, g, slots, head_dim)
    is_token = torch.arange(k.shape[2], device=q.device) < lengths[:, None]  # (b, slots)
    return softmax_attention(q, k, v, attn_mask=is_token[:, None, None])


def _pages(pool: Tensor, page_size: int) -> Tensor:
    """A pool of slots as pages, (pages, page_size, g, head_dim)."""
    return pool[: len(pool) // page_size * page_size].unflatten(0, (-1, page_size))


def _pages_of(length: int, page_size: int) -> int:
    return -(-length // page_size)


def _prepare(q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, page_size: int = 16) -> dict[str, Any]:
    """A block table with pages in random order, as after many requests. Unused entries are page 0."""
    counts = [_pages_of(length, page_size) for length in lengths.tolist()]
    free = torch.randperm(len(k_cache) // page_size, generator=torch.Generator().manual_seed(0))
    table = torch.zeros(len(counts), max(counts), dtype=torch.int32)
    for row, pages in zip(table, free[: sum(counts)].split(counts), strict=True):
        row[: len(pages)] = pages
    return {"block_table": table.to(q.device), "page_size": page_size}


# Attributes that describe a function to the harness. A pool has room for the last, partly filled page of each sequence.
paged.decodes = True  # type: ignore[attr-defined]
paged.lengths_as = "paged"  # type: ignore[attr-defined]
paged.prepare = _prepare  # type: ignore[attr-defined]
paged.axes = {"page_size": ("p", 16)}  # type: ignore[attr-defined]
paged.inputs = {  # type: ignore[attr-defined]
    "q": "b h 1 D",
    "k_cache": {"shape": "t+pb g D", "grad": False},
    "v_cache": {"shape": "t+pb g D", "grad": False},
    "lengths": {"shape": "b", "fill": "lengths"},
}
vars(paged_reference).update(vars(paged))
