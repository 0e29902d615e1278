"""Predicted costs at sizes that were not measured, and their remarks."""

import math
from dataclasses import replace

import pytest
from rows import SIZES, attention_time, lines, usual_lines

from harness.analysis.claims_table import verdicts
from harness.analysis.fitted_laws import FittedLaw, fit_laws
from harness.report.text.cost_models import break_text
from harness.sweep_axes import Case


def law(impl: str = "attention.fused", metric: str = "time", of: list | None = None) -> FittedLaw:
    found = fit_laws(of if of is not None else usual_lines())
    return next(one for one in found if (one.series.impl, one.series.metric) == (impl, metric))


def test_between_and_beyond_the_sizes_measured_the_law_is_followed() -> None:
    for n, d in [(300, 128), (3000, 256), (1500, 200)]:
        said = law().predict(n, d, 8, 1)
        assert said.value == pytest.approx(attention_time(Case("attention.fused", n, d, 8)), rel=0.05)
        assert said.lo < said.value < said.hi
        assert not said.measured


def test_what_was_measured_is_its_own_prediction() -> None:
    said = law().predict(2048, 256, 8, 1)
    point = next(p for p in law().series.points if p.size == (2048, 256, 8, 1, ()))
    assert said.measured
    assert (said.value, said.lo, said.hi) == (point.value, point.lo, point.hi)


def test_far_outside_there_is_a_plain_warning() -> None:
    assert law().predict(4096, 256, 8, 1).warnings == ()
    [warning] = law().predict(65536, 256, 8, 1).warnings
    assert warning == "far outside what was measured: seq_len=65536 is 32 times beyond 64 to 2048; take it as a guess"


def test_beyond_two_widths_the_way_that_cost_grows_with_width_is_said_to_rest_on_them() -> None:
    said = law().predict(1024, 512, 8, 1).warnings
    assert said == (
        "the cost model is fitted to two values of d_model (128 and 256), so growth beyond them is uncertain: "
        "measure a third",
    )
    assert law().predict(1000, 200, 8, 1).warnings == ()


def test_along_an_axis_of_one_value_nothing_can_be_said() -> None:
    with pytest.raises(ValueError, match="batch_size=4 was requested and only batch_size=1 measured"):
        law().predict(1024, 256, 8, 4)


def test_an_undetermined_law_is_told() -> None:
    few = [line for line in usual_lines() if line.seq_len <= 128]
    assert "undetermined" in " ".join(law(of=few).predict(1024, 256, 8, 1).warnings)


# Bytes of attention.naive in bfloat16 on an H200, batch 4: 16n² + 9,728n from n = 1024 on, and more at 512.
ON_A_GPU = {512: 12_582_912, 1024: 26_738_688, 2048: 87_031_808, 4096: 308_281_344, 8192: 1_153_433_600}


def test_sizes_below_a_break_say_nothing_of_those_beyond_it_and_the_claim_names_the_break() -> None:
    cases = [Case("attention.naive", n, 1024, 16, batch_size=4) for n in ON_A_GPU]
    run = lines(cases, lambda case: 1e-9 * case.seq_len, lambda case: ON_A_GPU[case.seq_len])
    memory = law("attention.naive", "memory", run)
    for n in (1500, 16384):
        said = memory.predict(n, 1024, 16, 4)
        assert said.value == said.lo == 16 * n * n + 9728 * n
    assert break_text(memory) == "from n = 1024 on"
    [claim] = [one for one in verdicts(run, ()) if one.quantity == "memory"]
    assert claim.measured == "16 n² + 9,728 n bytes from n = 1024 on"


def test_below_a_break_the_law_below_it_holds() -> None:
    cases = [Case("attention.fused", n, d, h) for n in (*SIZES, 4096) for d in (128, 256) for h in (2, 8)]
    jumped = lines(cases, lambda c: 1e-8 * c.seq_len * (5 if c.seq_len >= 512 else 1), lambda c: 8 * c.seq_len)
    broken = law(of=jumped)
    assert [found.n for found in broken.law.breaks] == [512]
    assert broken.predict(200, 128, 2, 1).value == pytest.approx(2e-6, rel=0.05)
    assert broken.predict(3000, 128, 2, 1).value == pytest.approx(1.5e-4, rel=0.05)


def test_memory_that_has_an_exact_law_is_predicted_to_the_byte_inside_and_at_least_so_outside() -> None:
    inside, outside = (law("attention.naive", "memory").predict(n, 256, 8, 1) for n in (300, 16384))
    assert (inside.lo, inside.value, inside.hi) == (8 * 300**2,) * 3
    assert outside.lo == outside.value == 8 * 16384**2 < outside.hi


@pytest.mark.parametrize(
    ("n", "lo", "hi"),
    # 2 ⌈log₂ n⌉ + 1: 15 at n = 96, whose powers of two beside it have 13 and 15.
    [(96, 13, 15), (100, 13, 15), (33, 11, 13), (256, 17, 17)],
)
def test_between_powers_of_two_a_law_with_a_logarithm_predicts_the_values_there(n: int, lo: float, hi: float) -> None:
    cases = [Case("attention.fused", length, 64, 1) for length in (16, 32, 64, 128, 512)]
    found = law(
        metric="memory", of=lines(cases, lambda c: 1e-6 * c.seq_len, lambda c: 2 * (c.seq_len.bit_length() - 1) + 1)
    )
    assert str(found.law) == "2 log n + 1"
    assert found.law.determined
    said = found.predict(n, 64, 1, 1)
    assert (said.lo, said.hi) == (lo, hi)
    assert lo <= said.value <= hi


def test_an_axis_that_takes_one_value_where_the_law_holds_is_one_of_which_nothing_is_known() -> None:
    # From n = 1024 on at d = 64 alone, and dearer there: the law of those says nothing of d = 256.
    cases = [Case("attention.fused", n, d, 1) for n in (64, 128, 256, 512) for d in (64, 128, 256)]
    cases += [Case("attention.fused", n, 64, 1) for n in (1024, 2048, 4096)]
    found = law(of=lines(cases, lambda c: 1e-8 * c.seq_len * c.d_model * (4 if c.seq_len > 512 else 1), lambda c: 8))
    assert [one.n for one in found.law.breaks] == [1024]
    with pytest.raises(ValueError, match="d_model=256 was requested and only d_model=64 measured"):
        found.predict(3000, 256, 1, 1)
    assert found.predict(300, 256, 1, 1).value == pytest.approx(1e-8 * 300 * 256, rel=0.02)


def test_a_law_that_vanishes_is_not_asked() -> None:
    found = law(
        of=lines([Case("attention.fused", n, 8, 1) for n in SIZES], lambda c: 1e-6 * math.log2(c.seq_len), lambda c: 8)
    )
    with pytest.raises(ValueError, match="says nothing at n = 1"):
        found.predict(1, 8, 1, 1)


def test_between_the_last_size_of_one_law_and_the_first_of_the_next_both_may_hold() -> None:
    cases = [Case("attention.fused", n, d, h) for n in (*SIZES, 4096) for d in (128, 256) for h in (2, 8)]
    jumped = lines(cases, lambda c: 1e-8 * c.seq_len * (5 if c.seq_len >= 512 else 1), lambda c: 8 * c.seq_len)
    said = law(of=jumped).predict(500, 128, 2, 1)
    assert said.lo <= 5e-6
    assert said.hi >= 25e-6
    assert any("another law begins" in warning for warning in said.warnings)


def test_a_law_that_took_over_from_another_is_trusted_the_less_for_that() -> None:
    cases = [Case("attention.fused", n, d, h) for n in (*SIZES, 4096) for d in (128, 256) for h in (2, 8)]

    def reach(jump: float) -> float:
        of = lines(cases, lambda c: 1e-8 * c.seq_len * (jump if c.seq_len >= 512 else 1), lambda c: 8 * c.seq_len)
        said = law(of=of).predict(16384, 128, 2, 1)
        return said.hi / said.lo

    assert reach(5) > 1.5 * reach(1)


def test_nothing_is_predicted_to_cost_less_than_a_smaller_size_did() -> None:
    few = [line for line in usual_lines() if line.seq_len <= 128 and (line.d_model, line.num_heads) == (256, 8)]
    for metric in ("time", "memory"):
        found = law(metric=metric, of=few)
        least = max(point.lo for point in found.series.points)
        for n in (200, 1024, 65536):
            said = found.predict(n, 256, 8, 1)
            assert least <= said.lo <= said.value <= said.hi


def test_where_cost_was_seen_to_fall_a_smaller_size_says_nothing_of_a_larger_one() -> None:
    cases = [Case("attention.fused", n, 64, 1) for n in (*SIZES, 4096)]
    found = law(of=lines(cases, lambda c: 1e-8 * c.seq_len * (0.1 if c.seq_len >= 512 else 1), lambda c: 8))
    assert found.predict(600, 64, 1, 1).value == pytest.approx(6e-7, rel=0.05)


def test_a_law_that_few_lengths_leave_open_is_told_with_what_to_measure() -> None:
    few = [line for line in usual_lines() if line.seq_len <= 128 and (line.d_model, line.num_heads) == (256, 8)]
    assert "measure seq_len=256,512 too" in " ".join(law(of=few).predict(1024, 256, 8, 1).warnings)


# The largest size takes up to ten times as long as the others suggest: no law follows that.
@pytest.mark.parametrize("times", [(1e-4, 2e-4, 4e-4, 3.19e-3), (4e-4, 2e-4, 3e-4, 3.19e-3), (1e-4, 1e-4, 1e-4, 1e-4)])
@pytest.mark.parametrize("share", [0.01, 0.6])
def test_no_prediction_lies_below_what_a_smaller_size_took(times: tuple[float, ...], share: float) -> None:
    sizes = (64, 128, 256, 512)
    by_n = dict(zip(sizes, times, strict=True))
    cases = [Case("attention.naive", n, 64, 2) for n in sizes]
    run = [
        replace(line, time_lo_s=line.time_s * (1 - share), time_hi_s=line.time_s * (1 + share))
        for line in lines(cases, lambda case: by_n[case.seq_len], lambda case: 8 * case.seq_len)
    ]
    for n in (600, 1024, 4096):
        said = law("attention.naive", of=run).predict(n, 64, 2, 1)
        assert said.value >= times[-1]
        assert said.lo <= said.value <= said.hi
