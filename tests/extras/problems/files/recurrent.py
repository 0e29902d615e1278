"""A recurrent layer that takes time first, with its first state."""

from torch import Tensor, nn, rand

seq_len, batch_size = 16, 2
input_size = 4
hidden_size = 8
num_layers = 2


class Model(nn.Module):
    def __init__(self, input_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, bidirectional=True)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        return self.lstm(x, (h, c))[0]


def get_inputs() -> list[Tensor]:
    states = (rand(2 * num_layers, batch_size, hidden_size) for _ in range(2))
    return [rand(seq_len, batch_size, input_size), *states]


def get_init_inputs() -> list[int]:
    return [input_size, hidden_size, num_layers]
