"""Linear attention of all tokens at once: the order of a product of three matrices makes it linear.

    (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V)

Katharopoulos et al. 2020, section 3.2, equation 6. The left side needs n² scores. The right side needs head_dim² sums,
and its work is linear in n. Padding drops out of the sums by setting φ(k) = 0.

A mask that differs between queries leaves no sum that all queries share. The layer then computes the left side,
(φ(Q) φ(K)ᵀ ⊙ M) V, which is quadratic.
"""

from torch import Tensor

from impls.attention.linear.layer import LinearAttention, averaged_features, feature_map


class ParallelLinearAttention(LinearAttention):
    """(b, n, d) -> (b, n, d).

    `attn_mask` is broadcastable to (b, h, n, m) and True where a query may see a key. With a `source` (b, m, d), keys
    and values are computed from the source, and queries from x.
    """

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        source: Tensor | None = None,
    ) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        q, k = feature_map(q), averaged_features(k)
        if attn_mask is not None and attn_mask.shape[-2] == 1:  # the same keys for all queries
            k, attn_mask = k * attn_mask.transpose(-2, -1), None
        if is_causal or attn_mask is not None:
            return self.merge(_masked(q, k, v, attn_mask, is_causal))  # (b, n, d)
        return self.merge(_linear(q, k, v))  # (b, n, d)


def _linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return the heads (b, h, n, head_dim) if all queries see all keys."""
    s = k.transpose(-2, -1) @ v  # (b, h, head_dim, head_dim)
    z = k.sum(-2, keepdim=True)  # (b, h, 1, head_dim)
    return q @ s / (q * z).sum(-1, keepdim=True)  # (b, h, n, head_dim)


def _masked(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return the heads (b, h, n, head_dim) if each query sees its own set of keys."""
    scores = q @ k.transpose(-2, -1)  # (b, h, n, m)
    if is_causal:
        scores = scores.tril()
    if attn_mask is not None:
        scores = scores * attn_mask
    return scores @ v / scores.sum(-1, keepdim=True)  # (b, h, n, head_dim)
