"""Gated recurrent unit as `torch.nn.GRU`: the loop of `gru.py` inside ATen (CPU) or cuDNN (CUDA)."""

from torch import nn

from impls.rnn.torch_module import TorchRecurrent


class TorchGRU(TorchRecurrent, nn.GRU):  # type: ignore[misc]  # the layer's contract, not nn.GRU's
    """(b, n, d) -> (b, n, d): every h_t."""
