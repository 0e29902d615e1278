"""Predictions held against what was measured beyond them."""

from dataclasses import replace

import pytest
from rows import usual_lines

from harness.study.laws.fitted_laws import fit_laws
from harness.study.laws.predict import hold_out, scores


def test_the_largest_n_is_predicted_from_a_quarter_of_it() -> None:
    held = hold_out(usual_lines())
    assert {one.n for one in held} == {2048}
    assert {one.fitted_to for one in held} == {512}
    assert {one.metric for one in held} == {"time", "memory"}
    # 2 layers of attention at 2 widths and 2 numbers of heads, and an RNN at 2 widths; time and memory of each
    assert len(held) == 2 * (2 * 4 + 2)


def test_costs_that_follow_their_law_are_predicted_and_covered() -> None:
    time, memory = scores(hold_out(usual_lines()))
    assert (time.metric, memory.metric) == ("time", "memory")
    assert time.error < 0.02
    assert memory.error == 0
    assert (time.covered, time.predictions) == (10, 10)


def test_what_lies_beyond_has_no_say() -> None:
    doubled = [
        replace(line, time_s=2 * line.time_s, time_hi_s=2 * line.time_hi_s, peak_bytes=2 * line.peak_bytes)
        if line.seq_len > 512
        else line
        for line in usual_lines()
    ]
    for before, after in zip(hold_out(usual_lines()), hold_out(doubled), strict=True):
        assert (after.predicted, after.lo, after.hi) == (before.predicted, before.lo, before.hi)
        assert after.measured == 2 * before.measured
        assert after.error == pytest.approx((1 + before.error) / 2 - 1)


def test_a_cost_that_leaves_its_law_is_not_covered_for_nothing() -> None:
    broken = [replace(line, time_s=line.time_s * (30 if line.seq_len > 512 else 1)) for line in usual_lines()]
    (time, _) = scores(hold_out(broken))
    assert time.covered == 0


def test_runs_that_end_too_soon_or_have_no_sizes_below_hold_nothing_out() -> None:
    assert hold_out([line for line in usual_lines() if line.seq_len >= 1024]) == []
    assert hold_out([]) == []
    assert scores([]) == []


def test_a_width_measured_at_the_largest_n_alone_is_not_predicted() -> None:
    some = [line for line in usual_lines() if line.d_model == 128 or line.seq_len == 2048]
    assert {one.d for one in hold_out(some)} == {128}


def test_the_largest_n_is_the_largest_that_was_measured() -> None:
    failed = [
        replace(line, status="oom", time_s=None, time_lo_s=None, time_hi_s=None, peak_bytes=None)
        if line.seq_len == 2048
        else line
        for line in usual_lines()
    ]
    assert {(one.n, one.fitted_to) for one in hold_out(failed)} == {(1024, 256)}


def test_what_is_held_out_is_predicted_as_predict_would() -> None:
    kept = [line for line in usual_lines() if line.seq_len <= 512]
    fitted = {(law.series.impl, law.series.metric): law for law in fit_laws(kept)}
    for one in hold_out(usual_lines()):
        said = fitted[one.impl, one.metric].predict(one.n, one.d, one.h, one.b)
        assert (said.value, said.lo, said.hi) == (one.predicted, one.lo, one.hi)
