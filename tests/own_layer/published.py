"""Layers of published packages, each with the few lines that a stranger would write."""

from minGRU_pytorch import minGRU
from torch import Tensor, nn
from x_transformers import Attention


class MinGRU(minGRU):
    """`minGRU-pytorch`: the parallel form of Feng et al. 2024, and its step."""

    family, causal = "rnn", True

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)

    def start(self, batch_size: int, seq_len: int) -> None:
        return None

    def step(self, x_t: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        y, state = self(x_t[:, None], state, return_next_prev_hidden=True)
        return y[:, 0], state


class XAttention(nn.Module):
    """`x-transformers`: its attention with all options left alone."""

    family = "attention"

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.inner = Attention(d_model, heads=num_heads, dim_head=d_model // num_heads)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        return self.inner(x, context=source, attn_mask=attn_mask)
