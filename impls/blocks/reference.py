"""References of the blocks and of the stack, written out by hand: every block is checked against one of them.

Vaswani et al. 2017, sections 3.1, 3.3 and 3.5. The attention inside is the reference of the attention layer, which
takes a causal mask like any other mask. Written for float64 and small n, not for speed.
"""

from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from impls.blocks.blocks import FeedForward, find

DEFAULT_REFERENCE = "impls.attention.reference:AttentionReference"


class EncoderReference(nn.Module):
    """Reference of the encoder block: (b, n, d) -> (b, n, d). With `rows`, the outputs of these tokens only."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        attention: str = DEFAULT_REFERENCE,
        attention_options: dict[str, Any] | None = None,
        adds_positions: bool = True,
    ) -> None:
        super().__init__()
        self.adds_positions = adds_positions
        self.self_attention = find(attention)(d_model=d_model, num_heads=num_heads, **attention_options or {})
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        if self.adds_positions:
            x = x + positions(x)  # (b, n, d)
        given = {name: value for name, value in (("attn_mask", attn_mask), ("rows", rows)) if value is not None}
        seen = self.self_attention(x, **given)
        x = x if rows is None else x[:, rows]
        x = normalised(x + seen, self.norm1)  # (b, n, d)
        return normalised(x + thought(x, self.feed_forward), self.norm2)  # (b, n, d)


class CausalEncoderReference(EncoderReference):
    """The same, around attention that is causal by nature."""

    causal = True


class DecoderReference(nn.Module):
    """Reference of the decoder block: (b, n, d) and a source (b, m, d) -> (b, n, d).

    If `cross_attention` is empty, it is the same class as `attention`.
    """

    causal = True
    needs_source = True

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        attention: str = DEFAULT_REFERENCE,
        attention_options: dict[str, Any] | None = None,
        cross_attention: str = "",
    ) -> None:
        super().__init__()
        options = attention_options or {}
        self.self_attention = find(attention)(d_model=d_model, num_heads=num_heads, **options)
        cross, options = (cross_attention, {}) if cross_attention else (attention, options)
        self.cross_attention = find(cross)(d_model=d_model, num_heads=num_heads, **options)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model)

    def forward(self, x: Tensor, source: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        place = torch.arange(x.shape[1], device=x.device)
        not_later = (place[None, :] <= place[:, None])[None, None]  # (1, 1, n, n)
        of_source = {} if attn_mask is None else {"attn_mask": attn_mask}
        x = x + positions(x)  # (b, n, d)
        x = normalised(x + self.self_attention(x, attn_mask=not_later), self.norm1)  # (b, n, d)
        x = normalised(x + self.cross_attention(x, source=source, **of_source), self.norm2)  # (b, n, d)
        return normalised(x + thought(x, self.feed_forward), self.norm3)  # (b, n, d)


def positions(x: Tensor) -> Tensor:
    """Return the positional encoding (n, d): each pair of dimensions is a rotation, with its sine before its cosine.

        PE(pos)_{2i} + 1j·PE(pos)_{2i+1} = 1j·exp(−1j·pos / 10000^(2i/d))

    Vaswani et al. 2017, section 3.5.
    """
    n, d = x.shape[1:]
    place = torch.arange(n, dtype=torch.float64)[:, None]
    even = torch.arange(0, d, 2, dtype=torch.float64)
    hands = 1j * torch.exp(-1j * place / 10000 ** (even / d))  # (n, d/2)
    return torch.view_as_real(hands).flatten(1)[:, :d].to(x)


def normalised(z: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Scale the features of each token to mean 0 and variance 1, then apply weight and bias: (b, n, d) -> (b, n, d).

        LayerNorm(z)_i = γ_i (z_i − mean z) / √(mean (z − mean z)² + ε) + β_i,   over the d features of one token

    Ba et al. 2016, "Layer Normalization", equations 3 and 4.
    """
    mean = torch.einsum("bnd->bn", z)[..., None] / z.shape[-1]  # (b, n, 1)
    variance = torch.einsum("bnd,bnd->bn", z - mean, z - mean)[..., None] / z.shape[-1]  # (b, n, 1)
    return norm.weight * (z - mean) / (variance + norm.eps) ** 0.5 + norm.bias


def thought(x: Tensor, feed_forward: FeedForward) -> Tensor:
    """Return max(0, x W_1 + b_1) W_2 + b_2: (b, n, d) -> (b, n, d)."""
    w_1, w_2 = feed_forward.linear1.weight, feed_forward.linear2.weight  # (4d, d), (d, 4d)
    inner = torch.einsum("bnd,ed->bne", x, w_1) + feed_forward.linear1.bias  # (b, n, 4d)
    return torch.einsum("bne,de->bnd", inner * (inner > 0), w_2) + feed_forward.linear2.bias  # (b, n, d)


class EncoderStackReference(nn.Module):
    """Reference of a stack of encoder blocks: (b, n, d) -> (b, n, d).

    Each block takes the output of the one before, and the first adds positions.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        attention: str = DEFAULT_REFERENCE,
        attention_options: dict[str, Any] | None = None,
        layers: int = 6,
    ) -> None:
        super().__init__()
        first = EncoderReference(d_model, num_heads, attention, attention_options)
        others = [
            EncoderReference(d_model, num_heads, attention, attention_options, adds_positions=False)
            for _ in range(layers - 1)
        ]
        self.layers = nn.ModuleList([first, *others])

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return reduce(lambda y, layer: layer(y, attn_mask), self.layers, x)  # (b, n, d)
