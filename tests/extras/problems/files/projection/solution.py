"""A solution, whose class has the name of the problem's."""

from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, doubled: int, out: int) -> None:
        super().__init__()
        self.down = nn.Linear(doubled, out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.down.weight.T
