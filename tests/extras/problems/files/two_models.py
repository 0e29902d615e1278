"""Two models, of which neither is the one."""

from torch import Tensor, nn, randn


class First(nn.Module):
    pass


class Second(nn.Module):
    pass


class Settings:
    pass


def get_inputs() -> list[Tensor]:
    return [randn(2, 3)]


def get_init_inputs() -> list[int]:
    return []
