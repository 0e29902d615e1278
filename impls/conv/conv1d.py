"""A convolution over the sequence: each token sees its k − 1 nearest, through one matrix for each of k taps.

    y_t = b + Σ_{j=0}^{k-1} W_j x_{t + j − left},   x = 0 outside the sequence

`left`, how far a token looks back: (k − 1) // 2 without a mask, so that it stands in the middle; under a causal one
k − 1, so that nothing later is seen (van den Oord et al. 2016, "WaveNet", section 2.1). The work does not grow with
the square of n, nor the depth with n at all; but one layer takes what a token knows no farther than k − 1 positions:
Vaswani et al. 2017, table 1, third row.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad


class Conv1d(nn.Conv1d):
    """(b, n, d) -> (b, n, d). It has no heads; `num_heads` is accepted and not used.

    Of `attn_mask`, (b, 1, 1, n), True for real tokens, it takes which inputs are padding, and counts them as 0.
    """

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
        """The k − 1 inputs before the first, which are 0: (b, d, k − 1), all that decoding keeps."""
        return self.weight.new_zeros(batch_size, self.in_channels, self.k - 1)

    def step(self, x_t: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """One token more, (b, d) -> (b, d), none looking ahead: the last k inputs, each through its tap."""
        window = torch.cat([before, x_t[:, :, None]], dim=2)  # (b, d, k)
        return conv1d(window, self.weight, self.bias)[:, :, 0], window[:, :, 1:]

    def prefill(self, x: Tensor, before: Tensor) -> Tensor:
        """The last k − 1 inputs after t more tokens (b, t, d)."""
        inputs = torch.cat([before, x.transpose(1, 2)], dim=2)  # (b, d, k − 1 + t)
        return inputs[:, :, x.shape[1] :].contiguous()


def real_tokens(attn_mask: Tensor, x: Tensor) -> Tensor:
    """(b, n, 1), True for real tokens, from a mask (b, 1, 1, n). Raises ValueError for any other."""
    b, n, _ = x.shape
    if attn_mask.shape != (b, 1, 1, n):
        raise ValueError(
            f"attn_mask has shape {tuple(attn_mask.shape)}: a convolution can leave out padding, ({b}, 1, 1, {n}), and "
            "later tokens with is_causal, but no other pairs"
        )
    return attn_mask[:, 0, 0, :, None]
