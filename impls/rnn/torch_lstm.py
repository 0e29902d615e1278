"""Long short-term memory as `torch.nn.LSTM`: the loop of `lstm.py` inside oneDNN or ATen (CPU), or cuDNN (CUDA).

On the CPU the dtype decides: oneDNN runs the whole loop in float32, and in half precision if the processor has
instructions for it; ATen loops over the steps in float64. Their backward passes are not the same work: oneDNN's goes on
to h_0, which nobody asks for, 48nd² in training; the others' stop before it, 48nd² − 8d². So no work in training is
claimed: what would hold of one would not of the other.
"""

from torch import Tensor, nn

from impls.rnn.torch_module import TorchRecurrent


class TorchLSTM(TorchRecurrent, nn.LSTM):  # type: ignore[misc]  # the layer's contract, not nn.LSTM's
    """(b, n, d) -> (b, n, d): every h_t."""

    def start(self, batch_size: int, seq_len: int) -> tuple[Tensor, Tensor]:
        """h_0 and c_0, (1, b, d) each, as nn.LSTM takes them."""
        h: Tensor = super().start(batch_size, seq_len)
        return h, h.clone()
