"""laws.csv: slopes of time and memory against n."""

import pytest
from rows import SIZES, usual_lines

from harness.report.laws import fit_laws, laws_table


def law(impl: str, metric: str):
    (found,) = [
        law
        for law in fit_laws(usual_lines())
        if (law.impl, law.metric, law.d_model) == (impl, metric, 128) and law.num_heads in (1, 8)
    ]
    return found


def test_attentions_time_bends_towards_two_while_the_rnns_stays_at_one() -> None:
    attention, rnn = law("attention.fused", "time"), law("rnn.torch", "time")
    assert (rnn.slope, rnn.slope_small_n, rnn.slope_large_n) == pytest.approx((1.0, 1.0, 1.0), abs=1e-6)
    assert attention.slope_small_n < 1.4 < 1.8 < attention.slope_large_n < 2


def test_the_fused_layers_memory_is_linear_and_the_naive_ones_quadratic() -> None:
    assert law("attention.fused", "memory").slope == pytest.approx(1.0)
    assert law("attention.naive", "memory").slope == pytest.approx(2.0)


def test_each_law_says_what_it_rests_on() -> None:
    found = law("rnn.torch", "time")
    assert (found.points, found.seq_len_min, found.seq_len_max) == (len(SIZES), SIZES[0], SIZES[-1])
    assert found.slope_small_n_lo < found.slope_small_n < found.slope_small_n_hi


def test_a_series_of_one_size_has_no_law() -> None:
    assert fit_laws([line for line in usual_lines() if line.seq_len == 64]) == []


def test_the_table_has_a_header_even_without_laws() -> None:
    assert list(laws_table([]).columns)[:4] == ["impl", "d_model", "num_heads", "batch_size"]
