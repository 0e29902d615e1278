"""Long short-term memory as `torch.nn.LSTM`: the loop of `lstm.py` inside oneDNN or ATen (CPU), or cuDNN (CUDA).

On the CPU the dtype decides: oneDNN runs the whole loop in float32, and in half precision if the processor has
instructions for it; ATen loops over the steps in float64. Their backward passes are not the same work: oneDNN's goes on
to h_0, which nobody asks for, 48nd² in training; the others' stop before it, 48nd² − 8d². So no work in training is
claimed: what would hold of one would not of the other.
"""

from torch import Tensor, nn

State = tuple[Tensor, Tensor]  # h and c, (1, b, d) each


class TorchLSTM(nn.LSTM):
    """(b, n, d) -> (b, n, d): every h_t. It has no heads; `num_heads` is accepted and not used."""

    causal = True

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]  # the layer's contract, not nn.LSTM's
        states, _ = super().forward(x)  # (b, n, d)
        return states

    def start(self, batch_size: int, seq_len: int) -> State:
        """h_0 and c_0, (1, b, d) each, as nn.LSTM takes them."""
        h = next(self.parameters()).new_zeros(1, batch_size, self.hidden_size)
        return h, h.clone()

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """One token more, (b, d) -> (b, d): a sequence of one."""
        y, state = super().forward(x_t[:, None], state)  # (b, 1, d), (1, b, d) twice
        return y[:, 0], state

    def prefill(self, x: Tensor, state: State) -> State:
        """The state after t tokens (b, t, d)."""
        return super().forward(x, state)[1]
