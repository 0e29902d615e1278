"""A projection in a directory of its own. Its sizes are in shapes.py, and its formulas in problem.yaml."""

from torch import Tensor, nn, randn

batch_size, T = 2, 16
width, out = 8, 12
doubled = 2 * width  # follows the width


class Model(nn.Module):
    def __init__(self, doubled: int, out: int) -> None:
        super().__init__()
        self.down = nn.Linear(doubled, out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(x)


def get_inputs() -> list[Tensor]:
    return [randn(batch_size, T, doubled)]


def get_init_inputs() -> list[int]:
    return [doubled, out]
