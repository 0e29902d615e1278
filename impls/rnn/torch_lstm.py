"""Long short-term memory as `torch.nn.LSTM`: the loop of `lstm.py` inside oneDNN or ATen (CPU), or cuDNN (CUDA).

On the CPU, the dtype decides. In float32, oneDNN runs the whole loop, and in half precision as well if the processor
has instructions for it. In float64, ATen loops over the steps.

The backward passes do not cost the same. The one in oneDNN continues to h_0, although no one needs that gradient:
48nd² in training. The others stop before h_0: 48nd² − 8d². No claim for training is therefore made, because no single
formula holds for all backends.
"""

from torch import Tensor, nn

from impls.rnn.torch_module import TorchRecurrent


class TorchLSTM(TorchRecurrent, nn.LSTM):  # type: ignore[misc]  # the layer's contract, not nn.LSTM's
    """(b, n, d) -> (b, n, d): every h_t."""

    def start(self, batch_size: int, seq_len: int) -> tuple[Tensor, Tensor]:
        """Return h_0 and c_0, (1, b, d) each, as `nn.LSTM` expects them."""
        h: Tensor = super().start(batch_size, seq_len)
        return h, h.clone()
