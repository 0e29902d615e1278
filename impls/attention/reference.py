"""References of the softmax attention layers, written out position by position: each layer is checked against one.

The sums run over the keys that a query may see. Written for float64, not for speed. With `rows`, only the outputs of
these queries are computed, which costs O(n·d) for each. A mask then has a row for each of them.
"""

import torch
from torch import Tensor

from impls.attention.fused import kv_heads_of
from impls.attention.plain import GroupedQueryParameters


class AttentionReference(GroupedQueryParameters):
    """Reference of multi-head and grouped-query attention, written out group by group: (b, n, d) -> (b, n, d).

        y_i = W_o Concat_{g, r}( Σ_j a_ij v_gj )
        a_ij = exp(q_gri·k_gj / √head_dim) / Σ_j' exp(q_gri·k_gj' / √head_dim)

    The subscript gri means token i of query head r in group g. With as many groups as heads, this is multi-head
    attention: Vaswani et al. 2017, "Attention Is All You Need", equation 1 and section 3.2.2. Ainslie et al. 2023,
    section 2.2. In comments, g is the number of groups and r the number of queries in each.
    """

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None, rows: Tensor | None = None
    ) -> Tensor:
        source = x if source is None else source  # (b, m, d)
        x = x if rows is None else x[:, rows]  # (b, n, d)
        d, g, head_dim = x.shape[-1], self.num_kv_heads, self.head_dim
        kept = (d, g * head_dim, g * head_dim)
        w_q, w_k, w_v = self.in_proj_weight.split(kept)  # (d, d), (g · head_dim, d) twice
        b_q, b_k, b_v = self.in_proj_bias.split(kept)
        q = (torch.einsum("bnd,ed->bne", x, w_q) + b_q).unflatten(-1, (g, -1, head_dim))  # (b, n, g, r, head_dim)
        k = (torch.einsum("bmd,ed->bme", source, w_k) + b_k).unflatten(-1, (g, head_dim))  # (b, m, g, head_dim)
        v = (torch.einsum("bmd,ed->bme", source, w_v) + b_v).unflatten(-1, (g, head_dim))  # (b, m, g, head_dim)
        logits = torch.einsum("bigre,bjge->bgrij", q, k) / head_dim**0.5  # (b, g, r, n, m)
        if attn_mask is not None:
            by_head = attn_mask.expand(-1, self.num_heads, -1, -1).unflatten(1, (g, -1))  # (b, g, r, n or 1, m)
            logits = torch.where(by_head, logits, torch.finfo(logits.dtype).min)  # a row may see no key
        weights = (logits - logits.logsumexp(-1, keepdim=True)).exp()  # rows sum to 1
        heads = torch.einsum("bgrij,bjge->bigre", weights, v).flatten(2)  # (b, n, d)
        return torch.einsum("bid,ed->bie", heads, self.out_proj.weight) + self.out_proj.bias  # (b, n, d)


def attended(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """Return Σ_j a_ij v_j of each head (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
    logits = torch.einsum("bhie,bhje->bhij", q, k) / q.shape[-1] ** 0.5  # (b, h, n, m)
    if attn_mask is not None:
        logits = torch.where(attn_mask, logits, torch.finfo(logits.dtype).min)  # a row may see no key
    weights = (logits - logits.logsumexp(-1, keepdim=True)).exp()  # (b, h, n, m), rows sum to 1
    return torch.einsum("bhij,bhje->bhie", weights, v)  # (b, h, n, head_dim)


def softmax_attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """Softmax attention as its formula says, (b, h, n, head_dim) with k and v (b, g, m, head_dim).

    Every h/g heads of q share one of k and v. Under `is_causal`, the last query sees all keys. All scores are kept.
    Functions of q, k and v that state no reference are compared with it.
    """
    times = q.shape[1] // k.shape[1]
    k, v = (one.repeat_interleave(times, dim=1) for one in (k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5  # (b, h, n, m)
    if is_causal:
        n, m = scores.shape[-2:]
        attn_mask = torch.ones(n, m, dtype=torch.bool, device=q.device).tril(m - n)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)  # a row may see no key
    return scores.softmax(-1) @ v


class GroupedQueryReference(AttentionReference):
    """The same with a quarter of the heads of keys and values by default: (b, n, d) -> (b, n, d)."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int = 0) -> None:
        super().__init__(d_model, num_heads, num_kv_heads or kv_heads_of(num_heads))


class SingleHeadReference(AttentionReference):
    """The same with one head: (b, n, d) -> (b, n, d). `num_heads` is accepted but unused."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, num_heads=1)


class WindowReference(AttentionReference):
    """Reference of restricted attention: full attention that hides all pairs farther apart than r = `reach`.

    (b, n, d) -> (b, n, d). A token always sees itself. Vaswani et al. 2017, section 4. Raises ValueError for a source.
    """

    def __init__(self, d_model: int, num_heads: int, reach: int = 32) -> None:
        super().__init__(d_model, num_heads)
        self.reach = reach

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None, rows: Tensor | None = None
    ) -> Tensor:
        if source is not None:
            raise ValueError("a window is around a token of the layer's own input, and not of a source")
        place = torch.arange(x.shape[1], device=x.device)
        apart = (place - (place if rows is None else rows)[:, None]).abs()  # (n, n), or a row for each of `rows`
        band = apart <= self.reach
        if attn_mask is not None:
            band = band & (attn_mask | (apart == 0))
        return super().forward(x, band.expand(x.shape[0], 1, -1, -1), rows=rows)  # (b, n, d)
