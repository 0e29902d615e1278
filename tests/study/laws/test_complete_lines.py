"""Columns that follow from other lines and from the machine: speeds, shares of the peak, ratios to a baseline."""

import math
from dataclasses import replace
from typing import Any

import pytest
from rows import usual_lines

from harness.core.model.errors import UsageError
from harness.core.results.columns import CaseResult
from harness.study.complete_lines import complete_lines, with_ratios, with_speeds
from harness.study.laws.fitted_laws import fit_laws
from harness.study.laws.roofline import roofs

CALIBRATED: dict[str, Any] = {
    "calibration": {
        "device": "cpu",
        "threads": 1,
        "noise_floor": 0.1,
        "bandwidth": {"bandwidth_bytes_per_s": 5e10, "cache_bytes": 0},
        "peak_flops_per_s": {"float32": 2e11},
    }
}


def line_of(impl: str, n: int = 2048, heads: int = 8) -> CaseResult:
    every = {(one.impl, one.seq_len, one.d_model, one.num_heads): one for one in usual_lines()}
    return replace(every[impl, n, 256, heads], flops=4 * 10**9, min_bytes=10**8, time_s=0.04)


def test_the_laws_returned_with_the_lines_are_those_of_the_lines() -> None:
    lines, laws = complete_lines(usual_lines()[::-1], CALIBRATED, baseline="attention.naive")
    assert laws == fit_laws(lines)


def test_a_speed_is_the_exact_work_over_the_time() -> None:
    (line,) = with_speeds([line_of("attention.naive")], [])
    assert (line.tflops_per_s, line.gb_per_s, line.of_peak) == (pytest.approx(0.1), pytest.approx(2.5), None)


def test_with_a_calibration_a_speed_is_a_share_of_the_peak_of_its_dtype_and_threads() -> None:
    attention = line_of("attention.naive")
    line, other = with_speeds([attention, replace(attention, threads=2)], roofs(CALIBRATED))
    assert (line.of_peak, other.of_peak) == (pytest.approx(0.5), None)


def test_a_speed_under_load_is_a_share_of_the_peak_under_load() -> None:
    made = {**CALIBRATED["calibration"], "device": "cuda", "sustained_flops_per_s": {"float32": 1.5e11}}
    under_load = replace(line_of("attention.naive"), device="cuda", sustained_s=0.05)
    (line,) = with_speeds([under_load], roofs({"calibration": made}))
    assert (line.of_peak, line.sustained_of_peak) == (pytest.approx(0.5), pytest.approx(8e10 / 1.5e11))
    older = {**made, "sustained_flops_per_s": {}}
    assert with_speeds([under_load], roofs({"calibration": older}))[0].sustained_of_peak is None
    short = replace(under_load, sustained_s=None)
    assert with_speeds([short], roofs({"calibration": made}))[0].sustained_of_peak is None


def test_a_case_without_a_time_has_no_speed() -> None:
    (line,) = with_speeds([replace(line_of("attention.naive"), time_s=None)], roofs(CALIBRATED))
    assert (line.tflops_per_s, line.gb_per_s, line.of_peak, line.ratio) == (None, None, None, None)


def test_the_width_of_a_head_is_that_of_layers_with_heads() -> None:
    attention, rnn = with_speeds([line_of("attention.naive"), line_of("rnn.torch", heads=1)], [])
    assert (attention.head_dim, rnn.head_dim) == (32, None)


def test_a_ratio_is_to_the_baseline_at_the_same_sizes() -> None:
    naive, fused = line_of("attention.naive"), replace(line_of("attention.fused"), time_s=0.01)
    other = replace(naive, seq_len=4096)
    found = with_ratios([naive, fused, other], "attention.fused")
    assert [line.ratio for line in found] == [pytest.approx(4.0), 1.0, None]


def test_a_ratio_has_the_interval_of_two_independent_times() -> None:
    fused = replace(line_of("attention.fused"), time_s=0.01, time_lo_s=0.01 / 1.03, time_hi_s=0.01 * 1.03)
    naive = replace(line_of("attention.naive"), time_s=0.04, time_lo_s=0.04 / 1.04, time_hi_s=0.04 * 1.04)
    reach = math.exp(math.hypot(math.log(1.03), math.log(1.04)))
    of_naive, of_fused = with_ratios([naive, fused], "attention.fused")
    assert (of_naive.ratio_lo, of_naive.ratio_hi) == (pytest.approx(4 / reach), pytest.approx(4 * reach))
    assert (of_fused.ratio_lo, of_fused.ratio_hi) == (1.0, 1.0), "a time is itself, however uncertain"
    once = replace(naive, time_lo_s=None, time_hi_s=None)
    of_once, _ = with_ratios([once, fused], "attention.fused")
    assert (of_once.ratio, of_once.ratio_lo, of_once.ratio_hi) == (pytest.approx(4.0), None, None)


def test_a_baseline_without_heads_is_compared_with_any_number_of_heads() -> None:
    two, eight, rnn = line_of("attention.naive", heads=2), line_of("attention.naive"), line_of("rnn.torch", heads=1)
    assert [line.ratio for line in with_ratios([two, eight, rnn], "rnn.torch")] == [1.0, 1.0, 1.0]


def test_an_unknown_baseline_is_a_mistake_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"baseline=attention\.naiv: .* did you mean 'attention\.naive'\?"):
        with_ratios([line_of("attention.naive")], "attention.naiv")
