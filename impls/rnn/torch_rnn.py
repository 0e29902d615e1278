"""The Elman network as `torch.nn.RNN`: the same loop, inside ATen (CPU) or cuDNN (CUDA)."""

from torch import Tensor, nn


class TorchRNN(nn.RNN):
    """(b, n, d) -> (b, n, d): every h_t. It has no heads; `num_heads` is accepted and not used."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]  # the layer's contract, not nn.RNN's
        states, _ = super().forward(x)  # (b, n, d)
        return states
