"""A case's time from its trials, on numbers that no clock has seen."""

import math
import random
from statistics import median

import pytest

from harness.stats.estimate import Trial, best_pulse, estimate, quiet


def trials(*values: float, pulse_s: float | None = None) -> list[Trial]:
    """Trials with the given fastest sample, each with a slower one beside it."""
    return [Trial([value, 2 * value], 0.1, pulse_s) for value in values]


def test_the_time_is_the_fastest_trials_and_the_median_stands_beside_it() -> None:
    result = estimate(trials(1.2, 1.0, 1.1))
    assert result.time_s == 1.0
    assert result.median_s == pytest.approx(1.5 * 1.1)


def test_the_interval_grows_with_how_far_apart_the_lower_half_of_the_trials_lie_and_with_no_others() -> None:
    narrow = estimate(trials(1.0, 1.01, 1.02, 1.03, 2.0, 2.0, 2.0))
    assert estimate(trials(1.0, 1.01, 1.02, 1.03, 9.0, 9.0, 9.0)).half_width == narrow.half_width
    wide = estimate(trials(1.0, 1.01, 1.02, 1.03**2, 2.0, 2.0, 2.0))
    assert (wide.lo_s, wide.hi_s) == pytest.approx((narrow.lo_s**2, narrow.hi_s**2))
    assert narrow.hi_s == 1.03
    assert narrow.half_width == pytest.approx(1 / narrow.lo_s - 1)


def test_two_trials_that_agree_do_not_make_a_third_that_does_not_unseen() -> None:
    assert estimate(trials(1.0, 1.0, 1.5)).half_width > 0.5


def test_one_trial_has_no_interval() -> None:
    result = estimate(trials(1.0))
    assert (result.lo_s, result.hi_s, result.half_width) == (0.0, math.inf, math.inf)


def test_trials_that_do_not_agree_at_all_still_leave_the_time_above_zero() -> None:
    assert 0.0 < estimate(trials(1.0, 5.0)).lo_s < 0.1


def test_one_quiet_trial_among_disturbed_ones_that_agree_with_it_still_has_an_interval() -> None:
    seen = trials(1.0, pulse_s=1.0) + trials(1.01, 1.02, 1.03, pulse_s=1.5)
    assert estimate(seen, best_pulse(seen)).half_width < 0.1


@pytest.mark.parametrize("nothing", [[], [Trial([])]])
def test_nothing_measured_is_no_estimate(nothing: list[Trial]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        estimate(nothing)


def test_trials_of_a_disturbed_machine_do_not_count_where_there_are_others() -> None:
    rest = trials(1.0, 1.01, pulse_s=1.0)
    seen = trials(1.30, 1.31, 1.32, pulse_s=1.3) + rest
    result, alone = estimate(seen, best_pulse(seen)), estimate(rest)
    assert (result.time_s, result.lo_s, result.hi_s) == (alone.time_s, alone.lo_s, alone.hi_s)
    assert result.median_s > alone.median_s


def test_the_fastest_trial_counts_whenever_it_was_taken() -> None:
    seen = trials(0.9, 1.3, 1.3, pulse_s=1.3) + trials(1.0, 1.01, pulse_s=1.0)
    result, alone = estimate(seen, best_pulse(seen)), estimate([seen[0], *seen[3:]])
    assert (result.time_s, result.lo_s, result.hi_s) == (0.9, alone.lo_s, alone.hi_s)


def test_a_machine_that_was_never_quiet_is_judged_by_what_there_is() -> None:
    assert estimate(trials(1.30, 1.31, 1.32, pulse_s=1.3), best_pulse_s=1.0).time_s == 1.30


def test_without_pulses_every_trial_is_quiet() -> None:
    seen = trials(1.0, 1.1)
    assert best_pulse(seen) is None
    assert quiet(seen, None) == seen


def coverage(draw, trials_each: int, repeats: int = 2000) -> float:
    """How often the interval holds the median of `time_s` over many repeats of the same measurement."""
    results = [estimate([Trial([draw()]) for _ in range(trials_each)]) for _ in range(repeats)]
    truth = median(result.time_s for result in results)
    return sum(result.lo_s <= truth <= result.hi_s for result in results) / repeats


@pytest.mark.parametrize("trials_each", [3, 4, 8, 20])
@pytest.mark.parametrize("noise", ["normal", "log-normal", "two humps"])
def test_the_interval_holds_the_estimates_own_median_about_as_often_as_it_should(noise: str, trials_each: int) -> None:
    rng = random.Random(7)
    draws = {
        "normal": lambda: rng.gauss(1.0, 0.02),
        "log-normal": lambda: rng.lognormvariate(0.0, 0.05),
        "two humps": lambda: rng.gauss(1.0, 0.01) + (0.5 if rng.random() < 0.3 else 0.0),
    }
    # All three trials fall on the slow hump 0.3³ = 2.7 times in 100, and then agree with each other.
    unseen_hump = 0.3**trials_each if noise == "two humps" else 0.0
    # 95 %, less three standard errors of 2,000 repeats.
    assert coverage(draws[noise], trials_each) >= 0.935 - unseen_hump
