"""A model of another name than Model, with a part and keywords."""

from torch import Tensor, nn, randn


class Gate(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid() * x


class GatedSum(nn.Module):
    def __init__(self, scale: float) -> None:
        super(GatedSum, self).__init__()  # noqa: UP008
        self.gate, self.scale = Gate(), scale

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.scale * (self.gate(x) + y)


def get_inputs() -> list[Tensor]:
    return [randn(4, 4, 8), randn(4, 4, 8)]


def get_init_inputs() -> list[object]:
    return [[], {"scale": 0.5}]
