"""A case's time from its trials, on numbers that no clock has seen."""

import math

import numpy as np
import pytest

from harness.core.stats.estimate import (
    Trial,
    best_probe,
    estimate,
    estimates,
    is_quiet,
    median_between_ticks,
    trial_statistics,
)


def trials(*values: float, probe_s: float | None = None) -> list[Trial]:
    """Trials with the given fastest sample, each with a slower one beside it."""
    return [Trial(value, 1.5 * value, 0.1, probe_s) for value in values]


def test_the_time_is_the_fastest_trials_and_the_median_stands_beside_it() -> None:
    result = estimate(trials(1.2, 1.0, 1.1))
    assert result.time_s == 1.0
    assert result.median_s == pytest.approx(1.5 * 1.1)


def test_a_slow_trial_among_four_widens_no_interval() -> None:
    assert estimate(trials(1.0, 1.01, 1.02, 9.0)).half_width == estimate(trials(1.0, 1.01, 1.02, 2.0)).half_width


def test_two_trials_that_agree_do_not_make_a_third_that_does_not_unseen() -> None:
    assert estimate(trials(1.0, 1.0, 1.5)).half_width > 0.5


def test_one_trial_has_no_interval() -> None:
    result = estimate(trials(1.0))
    assert (result.lo_s, result.hi_s, result.half_width) == (0.0, math.inf, math.inf)


def test_trials_that_do_not_agree_at_all_still_leave_the_time_above_zero() -> None:
    assert 0.0 < estimate(trials(1.0, 5.0)).lo_s < 0.1


def test_nothing_measured_is_no_estimate() -> None:
    with pytest.raises(ValueError, match="at least one"):
        estimate([])


def test_quiet_trials_count_alone_if_they_are_half_of_all() -> None:
    rest = trials(1.0, 1.1, 1.1, 1.1, 1.1, 1.1, probe_s=1.0)
    seen = [*rest, *trials(*[1.3] * 6, probe_s=1.3)]
    alone, together = estimate(seen, best_probe(seen)), estimate(seen)
    assert (alone.time_s, alone.lo_s, alone.hi_s) == (estimate(rest).time_s, estimate(rest).lo_s, estimate(rest).hi_s)
    assert together.time_s > alone.time_s
    assert alone.median_s == together.median_s


@pytest.mark.parametrize("quiet", [3, 5])
def test_fewer_quiet_trials_do_not_count_alone(quiet: int) -> None:
    seen = [*trials(*[1.0] * quiet, probe_s=1.0), *trials(0.9, *[1.3] * (quiet if quiet > 4 else 0), probe_s=1.3)]
    assert estimate(seen, best_probe(seen)) == estimate(seen)


def test_a_machine_that_was_never_quiet_is_judged_by_what_there_is() -> None:
    assert estimate(trials(1.30, 1.31, 1.32, probe_s=1.3), best_probe_s=1.0).time_s == 1.30


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 9, 20, 61])
def test_many_cases_at_once_are_each_estimated_as_if_alone(number: int) -> None:
    rng = np.random.default_rng(number)
    values = np.exp(rng.normal(0, 0.05, (200, number)))
    medians = values * rng.uniform(1.0, 1.2, values.shape)
    probes = rng.choice([1.0, 1.0, 1.1, 1.3], values.shape)
    cases = [
        [Trial(low, middle, 0.1, probe) for low, middle, probe in zip(*case, strict=True)]
        for case in zip(values.tolist(), medians.tolist(), probes.tolist(), strict=True)
    ]
    middles = np.array([[trial.median_s for trial in case] for case in cases])
    calm = np.array([[is_quiet(trial.probe_s, 1.0) for trial in case] for case in cases])
    found = trial_statistics(values, middles, calm)
    assert estimates(found) == [estimate(case, 1.0) for case in cases]


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.9])
def test_times_that_are_multiples_of_a_tick_have_the_mean_between_two_ticks_without_outliers(share: float) -> None:
    longer = int(100 * share)
    samples_s = [4.096e-6] * (100 - longer) + [5.12e-6] * longer + [90.112e-6] * 9
    assert median_between_ticks(samples_s) == pytest.approx(4.096e-6 + share * 1.024e-6)


def test_times_without_ticks_have_their_median() -> None:
    drawn = np.random.default_rng(1).normal(1.0, 0.01, 101)
    assert median_between_ticks(drawn) == np.median(drawn)
    assert median_between_ticks([1.0, 2.0, 3.0, 1.0, 2.0, 9.0]) == 2.0
    assert median_between_ticks([1e-5, 1e-5, 1e-5, 1.15e-5]) == 1e-5, "two values need eight samples"
    assert median_between_ticks([0.1, 0.1 + 1e-9, 0.1 + 2e-9, *[0.1 + 3e-9] * 9]) == 0.1 + 3e-9, "rounding is no tick"
    assert median_between_ticks([3.0]) == 3.0


def test_times_of_two_kinds_that_are_far_apart_have_that_of_the_more_frequent_kind() -> None:
    assert median_between_ticks([*[10e-6] * 9, 11e-6, *[100e-6] * 11]) == pytest.approx(100e-6)
    assert median_between_ticks([*[10e-6] * 9, 11e-6, *[100e-6] * 9]) == pytest.approx(10.1e-6)
    assert median_between_ticks([*[10e-6] * 9, 100e-6]) == pytest.approx(10e-6)
