"""Where a token stands, as a vector."""

import pytest
import torch

from impls.blocks.blocks import sinusoids
from impls.blocks.reference import positions


def like(d: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.zeros(1, d, dtype=dtype)


def test_the_first_token_is_at_angle_nought() -> None:
    assert sinusoids(1, like(6)).tolist() == [[0, 1, 0, 1, 0, 1]]


def test_the_first_pair_turns_by_a_radian_a_token_and_the_last_ever_slower() -> None:
    angle = torch.tensor([2.0, 0.02]).double()
    torch.testing.assert_close(sinusoids(3, like(4))[2, 0::2], angle.sin())
    torch.testing.assert_close(sinusoids(3, like(4))[2, 1::2], angle.cos())


def test_a_shift_turns_every_position_by_the_same_angles() -> None:
    table = torch.view_as_complex(sinusoids(40, like(8)).view(40, 4, 2))
    turned = table[7:] / table[:-7]  # (33, 4)
    torch.testing.assert_close(turned, turned[:1].expand_as(turned))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 7), (33, 48)])
def test_it_is_the_table_of_the_reference_at_even_and_odd_widths(n: int, d: int) -> None:
    torch.testing.assert_close(sinusoids(n, like(d)), positions(torch.zeros(2, n, d, dtype=torch.float64)))


def test_at_half_precision_the_angle_is_still_right() -> None:
    exact = sinusoids(3000, like(8))
    assert (sinusoids(3000, like(8, torch.bfloat16)).double() - exact).abs().max() < 2**-8
