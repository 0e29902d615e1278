"""Which layer to use, from predictions that the test chooses."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from rows import usual_lines
from study.laws.fitted import fitted, law

from harness.core.model.polynomial import Term
from harness.core.model.sweep_axes import Setting
from harness.core.results.columns import CaseResult
from harness.study.laws import predict as prediction
from harness.study.laws.fitted_laws import FittedLaw, Prediction
from harness.study.laws.predict import Recommendation, SizeRequest, probabilities_of_least

LINES = usual_lines()
SETTING = Setting.of(LINES[0])
SIZE = (512, 256, 8, 1)
WHERE = SizeRequest(SIZE, SETTING)
NAIVE, FUSED, RNN = "attention.naive", "attention.fused", "rnn.torch"


def predicted(value: float, lo: float, hi: float, measured: bool = False) -> Prediction:
    return Prediction(value, lo, hi, measured)


def recommend(lines: Any, laws: Any, where: SizeRequest, memory: int | None, predict: Any) -> Recommendation:
    """The recommendation if each law predicts what `predict` returns for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FittedLaw, "predict", predict)
        return prediction.recommend(lines, laws, [(1.0, where)], memory)


def within(value: float, share: float) -> Prediction:
    return predicted(value, value / (1 + share), value * (1 + share))


def laws(metrics: tuple[str, ...] = ("time", "memory")) -> list[FittedLaw]:
    any_law = law({Term(n=1, d=1): 1.0})
    return [
        fitted([line for line in LINES if line.impl == impl], metric, any_law)
        for impl in (NAIVE, FUSED, RNN)
        for metric in metrics
    ]


def recommended(
    times: Mapping[str, Prediction], memories: Mapping[str, Prediction] | None = None, limit: int | None = None
) -> Recommendation:
    said = {"time": times, "memory": memories or dict.fromkeys(times, within(1e6, 0.1))}

    def predict(one: FittedLaw, n: int, d: int, h: int, b: int, own: object) -> Prediction:
        return said[one.series.metric][one.series.impl]

    return recommend(LINES, laws(), WHERE, limit, predict)


TIMES = {NAIVE: within(4e-3, 0.01), FUSED: within(1e-3, 0.01), RNN: within(2e-3, 0.01)}


def test_the_fastest_is_recommended_with_how_many_times_as_fast_it_is() -> None:
    found = recommended(TIMES)
    assert [one.impl for one in found.ranked] == [FUSED, RNN, NAIVE]
    assert found.ratio.value == pytest.approx(2.0)
    reach = math.hypot(math.log(1.01), math.log(1.01))
    assert (found.ratio.lo, found.ratio.hi) == (
        pytest.approx(2 * math.exp(-reach)),
        pytest.approx(2 * math.exp(reach)),
    )
    assert (found.share, found.how_sure) == (1.0, "sure")


def test_a_layer_with_a_suspect_time_is_left_out() -> None:
    lines = [replace(line, suspect="too fast" if line.impl == FUSED else None) for line in LINES]
    found = recommend(lines, laws(("time",)), WHERE, None, lambda one, *size: TIMES[one.series.impl])
    assert [one.impl for one in found.ranked] == [RNN, NAIVE]
    ((left_out, why),) = found.unknown
    assert left_out == FUSED
    assert why.endswith("is suspect: too fast")


def test_it_is_a_toss_up_where_both_may_be_the_faster() -> None:
    found = recommended(TIMES | {RNN: within(1.001e-3, 0.2)})
    assert found.share == pytest.approx(0.5, abs=0.03)
    assert found.how_sure == "too close to call"


def test_it_is_likely_where_the_difference_is_about_its_uncertainty() -> None:
    # Apart by one standard deviation of their difference: Φ(1) = 0.84.
    apart = math.sqrt(2) * math.log(1.2) / 1.96
    found = recommended(TIMES | {FUSED: within(1e-3, 0.2), RNN: within(1e-3 * math.exp(apart), 0.2)})
    assert found.share == pytest.approx(0.841, abs=0.01)
    assert found.how_sure == "likely"


def test_a_third_that_may_be_the_fastest_makes_the_first_less_sure() -> None:
    two = recommended(TIMES | {FUSED: within(1e-3, 0.2), RNN: within(1.1e-3, 0.2)})
    three = recommended(TIMES | {FUSED: within(1e-3, 0.2), RNN: within(1.1e-3, 0.2), NAIVE: within(1.1e-3, 0.2)})
    assert three.share < two.share


def test_each_side_of_an_interval_has_its_own_spread() -> None:
    slower_at_most = predicted(1e-3, 0.99e-3, 2e-3)
    faster_at_most = predicted(1e-3, 0.5e-3, 1.01e-3)
    other = within(1.2e-3, 0.01)
    assert probabilities_of_least([slower_at_most, other])[0] < probabilities_of_least([faster_at_most, other])[0]


def test_what_was_measured_once_is_known_within_no_bounds() -> None:
    once = predicted(1e-3, 0.0, math.inf, measured=True)
    assert probabilities_of_least([once, within(2e-3, 0.01)])[0] == pytest.approx(0.5, abs=0.02)
    found = recommended(TIMES | {FUSED: once})
    assert (found.ratio.lo, found.ratio.hi, found.how_sure) == (0.0, math.inf, "too close to call")


def test_the_share_is_the_same_each_time() -> None:
    costs = [within(1e-3, 0.2), within(1.1e-3, 0.2)]
    assert probabilities_of_least(costs)[0] == probabilities_of_least(costs)[0]


def test_what_may_need_more_memory_than_there_is_is_left_out() -> None:
    memories = {NAIVE: within(100, 0.1), FUSED: within(1000, 0.1), RNN: within(990, 0.01)}
    found = recommended(TIMES, memories, limit=1050)
    assert [one.impl for one in found.ranked] == [RNN, NAIVE]
    assert [one.impl for one in found.too_large] == [FUSED]
    nothing = recommended(TIMES, memories, limit=1)
    assert (nothing.ranked, len(nothing.too_large), nothing.share) == ((), 3, None)


def test_an_impl_whose_memory_is_not_known_passes_no_limit() -> None:
    known = [one for one in laws() if (one.series.impl, one.series.metric) != (FUSED, "memory")]
    said = {"time": TIMES, "memory": dict.fromkeys(TIMES, within(100, 0.1))}
    found = recommend(LINES, known, WHERE, 200, lambda one, *size: said[one.series.metric][one.series.impl])
    assert [one.impl for one in found.ranked] == [RNN, NAIVE]
    assert (found.too_large, found.unknown) == (
        (),
        ((FUSED, "it has no law of memory, so whether it fits is not known"),),
    )


def test_without_a_limit_an_impl_without_a_law_of_memory_is_left_in() -> None:
    found = recommend(LINES, laws(("time",)), WHERE, None, lambda one, *size: TIMES[one.series.impl])
    assert len(found.ranked) == 3
    assert {one.memory for one in found.ranked} == {None}


def test_one_alone_is_the_only_one() -> None:
    found = recommend(LINES, laws()[:2], WHERE, None, lambda one, *size: TIMES[one.series.impl])
    assert (len(found.ranked), found.share, found.how_sure) == (1, None, "the only one")


def test_a_layer_without_heads_is_asked_for_at_its_one() -> None:
    asked: dict[str, int] = {}

    def predict(one: FittedLaw, n: int, d: int, h: int, b: int, own: object) -> Prediction:
        asked[one.series.impl] = h
        return TIMES[one.series.impl]

    recommend(LINES, laws(), WHERE, None, predict)
    assert asked == {NAIVE: 8, FUSED: 8, RNN: 1}


def test_an_impl_of_which_nothing_can_be_said_is_named_with_the_reason() -> None:
    def predict(one: FittedLaw, n: int, d: int, h: int, b: int, own: object) -> Prediction:
        if one.series.impl == RNN:
            raise ValueError("batch_size=4 was requested and only batch_size=1 measured")
        return TIMES[one.series.impl]

    found = recommend(LINES, laws(), SizeRequest((512, 256, 8, 4), SETTING), None, predict)
    assert [one.impl for one in found.ranked] == [FUSED, NAIVE]
    assert found.unknown == ((RNN, "batch_size=4 was requested and only batch_size=1 measured"),)


def test_other_settings_have_no_say() -> None:
    other = Setting(mode="train")
    assert recommend(LINES, laws(), SizeRequest(SIZE, other), None, lambda *size: TIMES[FUSED]).ranked == ()


def failed(impl: str, **at: object) -> list[CaseResult]:
    """The lines, with that impl having run out of memory at that size."""
    return [
        replace(line, status="oom", reason="can't allocate", time_s=None, **at)
        if line.impl == impl and (line.seq_len, line.d_model) == SIZE[:2]
        else line
        for line in LINES
    ]


@pytest.mark.parametrize("impl", [FUSED, RNN])
def test_what_failed_at_that_very_size_is_not_recommended_there(impl: str) -> None:
    found = recommend(failed(impl), laws(), WHERE, None, lambda one, *size: TIMES[one.series.impl])
    assert impl not in [one.impl for one in found.ranked]
    assert (len(found.ranked), found.unknown) == (2, ((impl, "oom at n=512 d=256: can't allocate"),))


@pytest.mark.parametrize(
    ("status", "at", "why"),
    [
        ("oom", {"seq_len": 384, "d_model": 128}, "oom at n=384 d=128: too large"),
        ("timeout", {"seq_len": 384}, "timeout at n=384 d=256: too large"),
        ("error", {"seq_len": 384}, "error at n=384 d=256: too large"),
        ("incorrect", {"seq_len": 4096}, "incorrect at n=4096 d=256: too large"),
        # Larger ones, those with other heads, and what the layer does not support say nothing of this size.
        ("oom", {"seq_len": 4096}, None),
        ("error", {"seq_len": 4096}, None),
        ("timeout", {"num_heads": 2}, None),
        ("unsupported", {"seq_len": 100}, None),
    ],
)
def test_what_failed_at_a_smaller_size_or_is_incorrect_is_not_predicted_beyond(
    status: str, at: dict[str, object], why: str | None
) -> None:
    (there,) = (line for line in LINES if line.impl == FUSED and line.size == (*SIZE, ()))
    beside = replace(there, status=status, reason="too large", time_s=None, **at)
    measured = recommend([*LINES, beside], laws(), WHERE, None, lambda one, *size: TIMES[one.series.impl])
    # A measured size speaks for itself, unless the layer computes something else elsewhere.
    assert measured.unknown == (((FUSED, why),) if status == "incorrect" else ())
    lines = [beside if line is there else line for line in LINES]
    found = recommend(lines, laws(), WHERE, None, lambda one, *size: TIMES[one.series.impl])
    assert found.unknown == (((FUSED, why),) if why else ())
    assert (FUSED in [one.impl for one in found.ranked]) is (why is None)


@pytest.mark.parametrize("impl", TIMES)
def test_nothing_is_sure_beside_a_warning_about_a_time(impl: str) -> None:
    guess = replace(TIMES[impl], warnings=("far outside what was measured: take it as a guess",))
    found = recommended(TIMES | {impl: guess})
    assert (found.share, found.how_sure, found.is_open) == (1.0, "likely", True)
    assert not recommended(TIMES).is_open


@pytest.mark.parametrize("elsewhere", [{"seq_len": 4096}, {"dtype": "bfloat16"}, {"batch_size": 2}])
def test_what_failed_elsewhere_is_recommended(elsewhere: dict[str, object]) -> None:
    lines = failed(FUSED, **elsewhere)
    found = recommend(lines, laws(), WHERE, None, lambda one, *size: TIMES[one.series.impl])
    assert (found.ranked[0].impl, found.unknown) == (FUSED, ())


def test_equal_costs_are_a_toss_up() -> None:
    known = predicted(1e-3, 1e-3, 1e-3)
    assert probabilities_of_least([known, known])[0] == 0.5
    assert probabilities_of_least([known, known, known])[0] == pytest.approx(1 / 3)
    assert probabilities_of_least([known, known, predicted(2e-3, 2e-3, 2e-3)])[0] == 0.5


def test_two_costs_of_one_trial_each_are_a_toss_up_however_far_apart() -> None:
    once, later = predicted(1e-3, 0.0, math.inf), predicted(1.0, 0.0, math.inf)
    assert probabilities_of_least([once, later])[0] == pytest.approx(0.5, abs=0.02)
    assert probabilities_of_least([once, later, later])[0] == pytest.approx(1 / 3, abs=0.02)


def test_a_layer_too_uncertain_to_predict_comes_last_whatever_its_time() -> None:
    found = recommended(TIMES | {NAIVE: predicted(1e-9, 1e-12, 1e-6, measured=False)})
    assert [one.impl for one in found.ranked] == [FUSED, RNN, NAIVE]
    assert found.share < 0.5, "it may be the fastest nevertheless"
    assert sum(found.shares) == pytest.approx(1.0)


# Seconds a call at n = 64 and at n = 4096.
AT = {64: {NAIVE: 1e-3, FUSED: 2e-3, RNN: 4e-3}, 4096: {NAIVE: 100e-3, FUSED: 40e-3, RNN: 4e-3}}


def of_mix(weights: tuple[float, float], limit: int | None = None, without: str = "") -> Recommendation:
    """The recommendation for calls at n = 64 and at n = 4096, where a layer needs 1 kB a token."""

    def predict(one: FittedLaw, n: int, *size: object) -> Prediction:
        if one.series.impl == without and n == 4096:
            raise ValueError("beyond what was measured")
        return within(AT[n][one.series.impl], 0.1) if one.series.metric == "time" else within(1000.0 * n, 0.1)

    mix = [(weight, SizeRequest((n, 256, 8, 1), SETTING)) for weight, n in zip(weights, AT, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FittedLaw, "predict", predict)
        return prediction.recommend(LINES, laws(), mix, limit)


@pytest.mark.parametrize(
    ("weights", "fastest", "mean_ms"),
    [((0.99, 0.01), NAIVE, 1.99), ((0.95, 0.05), FUSED, 3.9), ((94, 6), RNN, 4.0)],  # weights need not sum to 1
)
def test_over_a_mix_of_sizes_the_least_mean_time_wins(
    weights: tuple[float, float], fastest: str, mean_ms: float
) -> None:
    first = of_mix(weights).ranked[0]
    assert first.impl == fastest
    mean_s = mean_ms / 1e3
    ends = first.time.value, first.time.lo, first.time.hi
    assert ends == tuple(map(pytest.approx, (mean_s, mean_s / 1.1, mean_s * 1.1)))


def test_a_mix_needs_the_memory_of_its_largest_size() -> None:
    found = of_mix((0.99, 0.01), limit=1_000_000)
    assert [one.impl for one in found.too_large] == [NAIVE, FUSED, RNN]
    assert {one.memory.value for one in found.too_large if one.memory} == {4_096_000.0}


def test_a_layer_without_a_prediction_at_one_size_of_a_mix_is_left_out() -> None:
    found = of_mix((0.99, 0.01), without=NAIVE)
    assert [one.impl for one in found.ranked] == [FUSED, RNN]
    assert found.unknown == ((NAIVE, "beyond what was measured"),)
