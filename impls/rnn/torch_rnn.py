"""The Elman network as `torch.nn.RNN`: the same loop, inside ATen (CPU) or cuDNN (CUDA)."""

from torch import Tensor, nn


class TorchRNN(nn.RNN):
    """(b, n, d) -> (b, n, d): every h_t. It has no heads; `num_heads` is accepted and not used."""

    causal = True

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]  # the layer's contract, not nn.RNN's
        states, _ = super().forward(x)  # (b, n, d)
        return states

    def start(self, batch_size: int, seq_len: int) -> Tensor:
        """h_0, (1, b, d), as nn.RNN takes it."""
        return next(self.parameters()).new_zeros(1, batch_size, self.hidden_size)

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """One token more, (b, d) -> (b, d): a sequence of one."""
        y, h = super().forward(x_t[:, None], h)  # (b, 1, d), (1, b, d)
        return y[:, 0], h

    def prefill(self, x: Tensor, h: Tensor) -> Tensor:
        """The state after t tokens (b, t, d)."""
        return super().forward(x, h)[1]
