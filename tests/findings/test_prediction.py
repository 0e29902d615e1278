"""What an impl costs at a size that was not measured, and what is said about it."""

import pytest
from rows import SIZES, attention_time, lines, usual_lines

from harness.case import Case
from harness.findings.laws import FittedLaw, fit_laws
from harness.findings.prediction import predict_cost


def law(impl: str = "attention.fused", metric: str = "time", of: list | None = None) -> FittedLaw:
    found = fit_laws(of if of is not None else usual_lines())
    return next(one for one in found if (one.series.impl, one.series.metric) == (impl, metric))


def test_between_and_beyond_the_sizes_measured_the_law_is_followed() -> None:
    for n, d in [(300, 128), (3000, 256), (1500, 200)]:
        said = predict_cost(law(), n, d, 8, 1)
        assert said.value == pytest.approx(attention_time(Case("attention.fused", n, d, 8)), rel=0.05)
        assert said.lo < said.value < said.hi
        assert not said.measured


def test_what_was_measured_is_its_own_prediction() -> None:
    said = predict_cost(law(), 2048, 256, 8, 1)
    point = next(p for p in law().series.points if p.size == (2048, 256, 8, 1))
    assert said.measured
    assert (said.value, said.lo, said.hi) == (point.value, point.lo, point.hi)


def test_far_outside_there_is_a_plain_warning() -> None:
    assert predict_cost(law(), 4096, 256, 8, 1).warnings == ()
    [warning] = predict_cost(law(), 65536, 256, 8, 1).warnings
    assert warning == "far outside what was measured: seq_len=65536 is 32 times beyond 64 to 2048; take it as a guess"


def test_along_an_axis_of_one_value_nothing_can_be_said() -> None:
    with pytest.raises(ValueError, match="batch_size=4 was asked and only batch_size=1 measured"):
        predict_cost(law(), 1024, 256, 8, 4)


def test_an_undetermined_law_is_told() -> None:
    few = [line for line in usual_lines() if line.seq_len <= 128]
    assert "undetermined" in " ".join(predict_cost(law(of=few), 1024, 256, 8, 1).warnings)


def test_below_a_break_the_law_below_it_holds() -> None:
    cases = [Case("attention.fused", n, d, h) for n in (*SIZES, 4096) for d in (128, 256) for h in (2, 8)]
    jumped = lines(cases, lambda c: 1e-8 * c.seq_len * (5 if c.seq_len >= 512 else 1), lambda c: 8 * c.seq_len)
    broken = law(of=jumped)
    assert [found.n for found in broken.law.breaks] == [512]
    assert predict_cost(broken, 200, 128, 2, 1).value == pytest.approx(2e-6, rel=0.05)
    assert predict_cost(broken, 3000, 128, 2, 1).value == pytest.approx(1.5e-4, rel=0.05)


def test_memory_that_has_an_exact_law_is_predicted_to_the_byte() -> None:
    said = predict_cost(law("attention.naive", "memory"), 16384, 256, 8, 1)
    assert (said.lo, said.value, said.hi) == (8 * 16384**2,) * 3
