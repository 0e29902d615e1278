"""Elman network as `torch.nn.RNN`: the same loop, inside ATen (CPU) or cuDNN (CUDA)."""

from torch import nn

from impls.rnn.torch_module import TorchRecurrent


class TorchRNN(TorchRecurrent, nn.RNN):  # type: ignore[misc]  # the layer's contract, not nn.RNN's
    """(b, n, d) -> (b, n, d): every h_t."""
