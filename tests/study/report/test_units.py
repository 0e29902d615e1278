"""Numbers with units, and lists in words."""

import pytest

from harness.core.model import formatting


@pytest.mark.parametrize(("value", "text"), [(2.04e11, "204 GFLOP/s"), (1e12, "1.00 TFLOP/s"), (12.0, "12.0 FLOP/s")])
def test_rates_are_in_powers_of_1000(value: float, text: str) -> None:
    assert formatting.flops_rate(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.031, "3.1 %"), (0.46, "46 %"), (0.0996, "10 %"), (1.2, "120 %")])
def test_shares_are_in_per_cent(value: float, text: str) -> None:
    assert formatting.share(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(3.2e-12, "3.20·10⁻¹²"), (4.19e8, "4.19·10⁸"), (16.0, "16"), (0.5, "0.50"), (0, "0")]
)
def test_long_numbers_are_written_with_a_power_of_ten(value: float, text: str) -> None:
    assert formatting.power_of_ten(value) == text


@pytest.mark.parametrize(("value", "text"), [(3.7e-11, "37.0 ps"), (2e-15, "2.00 fs"), (0.0, "0 s")])
def test_the_times_of_single_operations_are_short(value: float, text: str) -> None:
    assert formatting.seconds(value) == text


def test_ticks_are_round() -> None:
    assert formatting.round_text(formatting.seconds(3e-4)) == "300 µs"
    assert formatting.round_text(formatting.size(2**20)) == "1 MiB"


def test_a_list_in_words_counts_what_its_noun_names() -> None:
    letters = ["A", "B", "C", "D", "E", "F"]
    assert formatting.listed(letters, "layer") == "A, B, C, D and 2 more layers"
    assert formatting.listed(letters[:5], "case") == "A, B, C, D and 1 more case"
    assert formatting.listed(letters) == "A, B, C, D, E and F"
    assert [formatting.listed(letters[:many], "layer") for many in range(3)] == ["", "A", "A and B"]
