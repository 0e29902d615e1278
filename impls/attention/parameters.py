"""The weights every attention rung shares, so that one loads another's `state_dict`.

Names and shapes are those of `torch.nn.MultiheadAttention`, whose weights load as well.
"""

import torch
from torch import Tensor, nn


class AttentionParameters(nn.Module):
    """W_q, W_k, W_v stacked as `in_proj_weight` (3d, d), and W_o as `out_proj` (d, d), with biases.

    Head i owns rows [i·head_dim, (i+1)·head_dim) of each of W_q, W_k and W_v, and the same columns
    of W_o. Raises ValueError if `num_heads` does not divide `d_model`.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * d_model))
        self.out_proj = nn.Linear(d_model, d_model)
        nn.init.xavier_uniform_(self.in_proj_weight)
        # Not zero: a rung that drops a bias must not pass for a right one.
        nn.init.normal_(self.in_proj_bias, std=0.02)
        nn.init.normal_(self.out_proj.bias, std=0.02)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K and V of all heads in one matrix product: (b, n, d) -> three of (b, h, n, head_dim)."""
        b, n, _ = x.shape
        qkv = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias)  # (b, n, 3d)
        qkv = qkv.view(b, n, 3, self.num_heads, self.head_dim)  # (b, n, 3, h, head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # (b, h, n, head_dim) each
        return q, k, v

    def merge(self, heads: Tensor) -> Tensor:
        """Concatenate the heads and apply W_o: (b, h, n, head_dim) -> (b, n, d)."""
        b, h, n, head_dim = heads.shape
        concat = heads.transpose(1, 2).reshape(b, n, h * head_dim)  # (b, n, d)
        return self.out_proj(concat)  # (b, n, d)
