"""A block of attention and a perceptron. The sizes of the model and of its inputs are shared."""

import math

from torch import Tensor, nn, randn

batch_size, seq_len = 2, 16
n_embd = 8
n_head = 2
hidden = 2 * 16  # of integers alone: an axis
head_dim = n_embd // n_head  # follows the others: none
dropout = 0.0


class Model(nn.Module):
    def __init__(self, n_embd: int, n_head: int, hidden: int) -> None:
        super().__init__()
        self.heads = n_head
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.up, self.down = nn.Linear(n_embd, hidden), nn.Linear(hidden, n_embd)

    def forward(self, x: Tensor) -> Tensor:
        batch_size, seq_len, width = x.shape  # names of its own
        qkv = self.qkv(x).view(batch_size, seq_len, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        return x + self.down(self.up(x).tanh())


def get_inputs() -> list[Tensor]:
    return [randn(batch_size, seq_len, n_embd)]


def get_init_inputs() -> list[int]:
    return [n_embd, n_head, hidden]
