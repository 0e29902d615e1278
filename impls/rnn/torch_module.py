"""Adapter that turns torch's `nn.RNN`, `nn.GRU` and `nn.LSTM` into layers: a single output, and decoding steps."""

from typing import Any

from torch import Tensor


class TorchRecurrent:
    """Mixin before a torch module: (b, n, d) -> (b, n, d), every h_t. `num_heads` is accepted but unused."""

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
