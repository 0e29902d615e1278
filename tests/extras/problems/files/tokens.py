"""Whole numbers as inputs, a keyword of the constructor, and an argument that is no tensor."""

import torch
from torch import Tensor, nn

batch_size = 2
sequence_length = 16
vocabulary = 32
hidden_size = 8


class Model(nn.Module):
    def __init__(self, vocabulary: int, width: int = 1) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, tokens: Tensor, scale: float, mask: None, gain: Tensor) -> Tensor:
        assert mask is None
        return self.table(tokens) * scale * gain


def get_inputs() -> list[object]:
    return [torch.randint(0, vocabulary, (batch_size, sequence_length)), 0.5, None, torch.rand(hidden_size)]


def get_init_inputs() -> list[object]:
    return [[vocabulary], {"width": hidden_size}]
