"""Weights of grouped-query attention: h heads of queries, but only one head of keys and values for each group.

Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints",
section 2.2.
"""

from torch import Tensor, nn

from impls.attention.parameters import AttentionParameters


class GroupedQueryParameters(AttentionParameters):
    """W_q (d, d), W_k and W_v (d/group, d), stacked as `in_proj_weight`, and W_o as `out_proj`, with biases.

    Query head i uses head i // group of keys and values. With groups of one, this is multi-head attention, and weights
    of multi-head attention load. Raises ValueError if `group` does not divide `num_heads`.
    """

    def __init__(self, d_model: int, num_heads: int, group: int = 4) -> None:
        super().__init__(d_model, num_heads)
        if num_heads % group:
            raise ValueError(f"num_heads={num_heads} is not divisible by group={group}")
        self.num_kv_heads = num_heads // group
        rows = (num_heads + 2 * self.num_kv_heads) * self.head_dim
        self.in_proj_weight = nn.Parameter(self.in_proj_weight.detach()[:rows].clone())
        self.in_proj_bias = nn.Parameter(self.in_proj_bias.detach()[:rows].clone())

    def project(self, x: Tensor, source: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return Q (b, h, n, head_dim), and K and V (b, h/group, n, head_dim) each.

        With a `source` (b, m, d), K and V are computed from the source: (b, h/group, m, head_dim) each.
        """
        if source is not None:
            return self.queries(x), *self.keys_and_values(source)
        heads = self._split(x, self.in_proj_weight, self.in_proj_bias)  # (b, h + 2h/group, n, head_dim)
        q, k, v = heads.split((self.num_heads, self.num_kv_heads, self.num_kv_heads), dim=1)
        return q, k, v

    def queries(self, x: Tensor) -> Tensor:
        """Return Q only: (b, n, d) -> (b, h, n, head_dim)."""
        rows = slice(0, x.shape[-1])
        return self._split(x, self.in_proj_weight[rows], self.in_proj_bias[rows])

    def keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return K and V only: (b, m, d) -> (b, h/group, m, head_dim) each."""
        rows = slice(source.shape[-1], None)
        k, v = self._split(source, self.in_proj_weight[rows], self.in_proj_bias[rows]).chunk(2, dim=1)
        return k, v

    def _split(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Compute all heads in one product: (b, n, d) -> (b, heads, n, head_dim)."""
        stacked = nn.functional.linear(x, weight, bias)  # (b, n, heads · head_dim)
        return stacked.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (b, heads, n, head_dim)
