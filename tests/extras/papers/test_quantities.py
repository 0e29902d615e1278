"""What a figure is of follows from a line, in the unit that it is published in."""

from dataclasses import replace

import pytest
from extras.papers.settings import timed

from harness.extras.papers.papers import QUANTITIES

[LINE] = timed("sdpa.naive", lambda n: 0.010, sizes=(2048,), flops=7, depth=3)


def test_a_time_is_in_milliseconds_with_its_interval() -> None:
    assert QUANTITIES["time_ms"].of(LINE) == pytest.approx((10, 9.9, 10.1))


def test_memory_is_all_that_is_alive_at_the_peak() -> None:
    assert QUANTITIES["memory_MiB"].of(LINE) == (4.0, 4.0, 4.0)
    assert QUANTITIES["memory_GB"].of(LINE) == pytest.approx((0.004194304,) * 3)


def test_a_rate_is_lowest_where_the_time_is_longest() -> None:
    assert QUANTITIES["calls_per_s"].of(LINE) == pytest.approx((100, 100 / 1.01, 100 / 0.99))


@pytest.mark.parametrize(
    ("mode", "mask", "passes"),
    [("forward", "none", 1), ("train", "none", 3.5), ("backward", "none", 2.5), ("train", "causal", 1.75)],
)
def test_attentions_rate_counts_four_n_squared_d_a_pass_and_half_of_it_under_a_causal_mask(
    mode: str, mask: str, passes: float
) -> None:
    rate = QUANTITIES["attention_tflops"].of(replace(LINE, mode=mode, mask=mask, batch_size=2))
    assert rate is not None
    assert rate[0] == pytest.approx(passes * 4 * 2 * 2048**2 * 128 / 0.010 / 1e12)


def test_of_a_token_that_is_decoded_there_is_no_such_rate() -> None:
    assert QUANTITIES["attention_tflops"].of(replace(LINE, mode="decode")) is None


def test_counts_are_exact() -> None:
    assert QUANTITIES["work"].of(LINE) == (7, 7, 7)
    assert QUANTITIES["depth"].of(LINE) == (3, 3, 3)


def test_an_error_is_the_one_at_the_timed_size() -> None:
    assert QUANTITIES["output_error"].of(replace(LINE, output_error=2e-4)) == (2e-4, 2e-4, 2e-4)


@pytest.mark.parametrize("name", QUANTITIES)
def test_what_was_not_measured_is_no_number(name: str) -> None:
    bare = replace(LINE, time_s=None, peak_bytes=None, flops=None, depth=None, output_error=None, status="oom")
    assert QUANTITIES[name].of(bare) is None
