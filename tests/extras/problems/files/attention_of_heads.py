"""Attention over heads. The width of a head is an integer, and that of the model is none."""

import torch.nn.functional as F
from torch import Tensor, nn, rand

batch_size, num_heads, sequence_length = 2, 2, 16
embedding_dimension = 4


class Model(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs() -> list[Tensor]:
    return [rand(batch_size, num_heads, sequence_length, embedding_dimension) for _ in range(3)]


def get_init_inputs() -> list[int]:
    return []
