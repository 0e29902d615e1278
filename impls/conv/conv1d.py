"""Convolution over the sequence: each token sees its k − 1 nearest neighbours, with one matrix for each of the k taps.

    y_t = b + Σ_{j=0}^{k-1} W_j x_{t + j − left},   x = 0 outside the sequence and where it is padding

`left` is how many positions a token looks back. Without a mask, it is (k − 1) // 2, so that the token is in the middle.
Under a causal mask, it is k − 1, so that no later token is seen (van den Oord et al. 2016, "WaveNet", section 2.1).

The work does not grow with n², and the depth does not grow with n. One layer carries information at most k − 1
positions (Vaswani et al. 2017, table 1, third row).
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad


class Conv1d(nn.Conv1d):
    """(b, n, d) -> (b, n, d). The layer has no heads; `num_heads` is accepted but unused.

    `attn_mask` (b, 1, 1, n) is True for real tokens. Inputs that are padding count as 0.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"kernel_size": ("k", 3)}

    def __init__(self, d_model: int, num_heads: int = 1, kernel_size: int = 3) -> None:
        if kernel_size < 1:
            raise ValueError(f"kernel_size={kernel_size}: a convolution has one tap at least")
        super().__init__(d_model, d_model, kernel_size)
        self.k = kernel_size

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        if attn_mask is not None:
            x = torch.where(real_tokens(attn_mask, x), x, 0.0)  # (b, n, d)
        left = self.k - 1 if is_causal else (self.k - 1) // 2
        padded = pad(x.transpose(1, 2), (left, self.k - 1 - left))  # (b, d, n + k − 1)
        return conv1d(padded, self.weight, self.bias).transpose(1, 2)  # (b, n, d)

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        """Return the decoding state: the k − 1 inputs before the first token, all 0, (b, d, k − 1)."""
        return self.weight.new_zeros(batch_size, self.in_channels, self.k - 1)

    def step(self, x_t: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """Process one more token: (b, d) -> (b, d).

        Each of the last k inputs goes through its tap, so the result is causal.
        """
        window = torch.cat([before, x_t[:, :, None]], dim=2)  # (b, d, k)
        return conv1d(window, self.weight, self.bias)[:, :, 0], window[:, :, 1:]

    def prefill(self, x: Tensor, before: Tensor) -> Tensor:
        """Return the last k − 1 inputs after t more tokens (b, t, d)."""
        inputs = torch.cat([before, x.transpose(1, 2)], dim=2)  # (b, d, k − 1 + t)
        return inputs[:, :, x.shape[1] :].contiguous()


def real_tokens(attn_mask: Tensor, x: Tensor) -> Tensor:
    """Return (b, n, 1), True for real tokens, from a mask (b, 1, 1, n).

    Raises ValueError for a mask of any other shape.
    """
    b, n, _ = x.shape
    if attn_mask.shape != (b, 1, 1, n):
        raise ValueError(
            f"attn_mask has shape {tuple(attn_mask.shape)}: a convolution can leave out padding, ({b}, 1, 1, {n}), and "
            "later tokens with is_causal, but no other pairs"
        )
    return attn_mask[:, 0, 0, :, None]


class ConvReference(Conv1d):
    """Reference of the convolution, computed one tap after another: (b, n, d) -> (b, n, d).

    Each W_j is a plain matrix. A tap is applied only to positions that have an input, so no zeros are padded. Written
    for float64 and small n, not for speed.
    """

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        b, n, d = x.shape
        is_real = torch.ones(b, n, 1) if attn_mask is None else attn_mask.reshape(b, n, 1)
        x = x * is_real.to(x)  # (b, n, d)
        left = self.k - 1 if is_causal else (self.k - 1) // 2
        assert self.bias is not None
        y = self.bias.expand(b, n, d).clone()  # (b, n, d)
        for tap in range(self.k):
            ahead = tap - left
            outputs = [t for t in range(n) if 0 <= t + ahead < n]
            seen = [t + ahead for t in outputs]
            y[:, outputs] += torch.einsum("ed,bnd->bne", self.weight[:, :, tap], x[:, seen])
        return y
