"""Torch's own `nn.RNN`, `nn.GRU` and `nn.LSTM` as layers: the loops of `gated.py` inside one call of torch."""

from typing import Any

from torch import Tensor, nn


class TorchRecurrent:
    """Mixin before a torch module, which adds decoding steps and returns a single output.

    (b, n, d) -> (b, n, d), every h_t. `num_heads` is accepted but unused.
    """

    causal = True

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, d_model, batch_first=True)  # type: ignore[call-arg]  # of torch's module

    def forward(self, x: Tensor) -> Tensor:
        states, _ = super().forward(x)  # type: ignore[misc]  # (b, n, d)
        return states

    def start(self, batch_size: int, seq_len: int) -> Any:
        """Return h_0, (1, b, d), as the module expects it."""
        weight = next(self.parameters())  # type: ignore[attr-defined]
        return weight.new_zeros(1, batch_size, self.hidden_size)  # type: ignore[attr-defined]

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Process one more token as a sequence of length one: (b, d) -> (b, d)."""
        y, state = super().forward(x_t[:, None], state)  # type: ignore[misc]  # (b, 1, d)
        return y[:, 0], state

    def prefill(self, x: Tensor, state: Any) -> Any:
        """Return the state after t more tokens (b, t, d)."""
        return super().forward(x, state)[1]  # type: ignore[misc]


class TorchRNN(TorchRecurrent, nn.RNN):  # type: ignore[misc]  # the layer's contract, not nn.RNN's
    """Elman network as `torch.nn.RNN`: the same loop, inside ATen (CPU) or cuDNN (CUDA)."""


class TorchGRU(TorchRecurrent, nn.GRU):  # type: ignore[misc]  # the layer's contract, not nn.GRU's
    """Gated recurrent unit as `torch.nn.GRU`: the loop of `GRU`, inside ATen (CPU) or cuDNN (CUDA)."""


class TorchLSTM(TorchRecurrent, nn.LSTM):  # type: ignore[misc]  # the layer's contract, not nn.LSTM's
    """Long short-term memory as `torch.nn.LSTM`: the loop of `LSTM`, inside oneDNN or ATen (CPU), or cuDNN (CUDA).

    On the CPU, the dtype decides. In float32, oneDNN runs the whole loop, and in half precision as well if the
    processor has instructions for it. In float64, ATen loops over the steps.

    The backward passes do not cost the same. The one in oneDNN continues to h_0, although no one needs that gradient:
    48nd² in training. The others stop before h_0: 48nd² − 8d². No claim for training is therefore made, because no
    single formula holds for all backends.
    """

    def start(self, batch_size: int, seq_len: int) -> tuple[Tensor, Tensor]:
        """Return h_0 and c_0, (1, b, d) each, as `nn.LSTM` expects them."""
        h: Tensor = super().start(batch_size, seq_len)
        return h, h.clone()
