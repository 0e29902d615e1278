"""The weights shared by all attention layers, so that each can load another's `state_dict`.

Names and shapes are those of `torch.nn.MultiheadAttention`, whose weights load as well.
"""

import torch
from torch import Tensor, nn

from impls.attention.heads import concatenated, head_dim_of, split


class AttentionParameters(nn.Module):
    """W_q, W_k, W_v stacked as `in_proj_weight` (3d, d), and W_o as `out_proj` (d, d), with biases.

    Head i owns rows [i·head_dim, (i+1)·head_dim) of each of W_q, W_k and W_v, and the same columns of W_o.
    Raises ValueError if `num_heads` does not divide `d_model`.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = head_dim_of(d_model, num_heads)
        self.in_proj_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * d_model))
        self.out_proj = nn.Linear(d_model, d_model)
        nn.init.xavier_uniform_(self.in_proj_weight)
        # Not zero: a layer that drops a bias must fail verification.
        nn.init.normal_(self.in_proj_bias, std=0.02)
        nn.init.normal_(self.out_proj.bias, std=0.02)

    def project(self, x: Tensor, source: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return Q, K and V of all heads: (b, n, d) -> (b, h, n, head_dim) each, in one matrix product.

        With a `source` (b, m, d), K and V are computed from the source: (b, h, m, head_dim) each, in a second product.
        """
        if source is None:
            q, k, v = self._heads(x, self.in_proj_weight, self.in_proj_bias)
            return q, k, v
        return self.queries(x), *self.keys_and_values(source)

    def queries(self, x: Tensor) -> Tensor:
        """Return Q only: (b, n, d) -> (b, h, n, head_dim)."""
        rows = slice(0, x.shape[-1])
        (q,) = self._heads(x, self.in_proj_weight[rows], self.in_proj_bias[rows])
        return q

    def keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return K and V only: (b, m, d) -> (b, h, m, head_dim) each."""
        rows = slice(source.shape[-1], None)
        k, v = self._heads(source, self.in_proj_weight[rows], self.in_proj_bias[rows])
        return k, v

    def _heads(self, x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        """Apply the matrices stacked in `weight` in one product: (b, n, d) -> (b, h, n, head_dim) for each matrix."""
        stacked = nn.functional.linear(x, weight, bias)  # (b, n, matrices · d)
        return split(stacked, weight.shape[0] // x.shape[-1], self.num_heads)  # (b, h, n, head_dim) each

    def merge(self, heads: Tensor) -> Tensor:
        """Concatenate the heads and apply W_o: (b, h, n, head_dim) -> (b, n, d)."""
        # Calling the module instead would look for hooks and cost some microseconds of a short call.
        return nn.functional.linear(concatenated(heads), self.out_proj.weight, self.out_proj.bias)  # (b, n, d)
