"""One time or two, on numbers made up."""

import math
import random

import numpy as np
import pytest

from harness.core.stats.bimodality import find_bimodality, may_be_bimodal


def counters(*faults: float, **others: float) -> list[dict]:
    return [{"minor_faults_per_call": f, **others} for f in faults]


def test_two_groups_far_apart_are_two_humps_with_what_goes_with_the_slow_one() -> None:
    humps = find_bimodality([4.6, 8.2, 4.7, 8.3, 8.1], counters(12, 4100, 10, 4096, 4111))
    assert humps is not None
    assert (humps.fast_s, humps.slow_s) == pytest.approx((4.65, 8.2))
    assert humps.cause == "slow trials paid 4,100 page faults a call, fast ones 11"


def test_two_humps_that_nothing_recorded_explains_are_said_to_be_so() -> None:
    humps = find_bimodality([4.6, 8.2, 4.7, 8.3, 4.65, 8.25], counters(5, 7, 7, 5, 5, 5))
    assert humps is not None
    assert humps.cause is None


def test_few_trials_that_nothing_recorded_sets_apart_are_no_humps() -> None:
    assert find_bimodality([4.6, 8.2, 4.7, 8.3], counters(5, 7, 7, 5)) is None


def test_a_single_slow_trial_is_a_hump_only_where_something_sets_it_apart() -> None:
    assert find_bimodality([1.0, 1.01, 1.02, 1.8], counters(9, 9, 9, 9)) is None
    assert find_bimodality([1.0, 1.01, 1.02, 1.8], counters(9, 9, 9, 2000)) is not None


def test_the_clearest_of_several_causes_is_named() -> None:
    seen = [
        {"minor_faults_per_call": 1.0, "steal_share": 0.0},
        {"minor_faults_per_call": 2.0, "steal_share": 0.0},
        {"minor_faults_per_call": 60.0, "steal_share": 0.5},
        {"minor_faults_per_call": 61.0, "steal_share": 0.6},
    ]
    assert find_bimodality([1.0, 1.01, 2.0, 2.01], seen).cause == (
        "the hypervisor took 55% of the time of slow trials, 0% of fast ones"
    )


def test_a_lower_clock_in_the_slow_trials_is_a_cause() -> None:
    seen = [{"sm_clock_mhz": mhz} for mhz in (1980, 1980, 1500, 1510)]
    assert find_bimodality([1.0, 1.01, 1.3, 1.31], seen).cause == "slow trials ran at 1,505 MHz, fast ones at 1,980"


def test_fewer_cpus_in_the_slow_trials_are_a_cause() -> None:
    seen = [{"cpu_over_wall": cpus} for cpus in (1.0, 0.99, 0.77, 0.76)]
    assert find_bimodality([1.0, 1.01, 1.3, 1.31], seen).cause == "slow trials had 0.77 CPUs, fast ones 0.99"


def test_a_counter_that_was_not_read_in_every_trial_is_no_cause() -> None:
    seen = [{"sm_clock_mhz": mhz} for mhz in (1980, None, 1980, 1100, 1110, 1110)]
    assert find_bimodality([1.0, 1.01, 1.02, 1.8, 1.81, 1.82], seen).cause is None


def test_two_trials_tell_nothing() -> None:
    assert find_bimodality([1.0, 2.0], counters(1, 1)) is None


NOISE = {
    "normal": lambda rng, spread: rng.gauss(0, spread),
    "exponential": lambda rng, spread: rng.expovariate(1 / spread),
}


@pytest.mark.parametrize("trials", [4, 6, 9, 20])
@pytest.mark.parametrize("spread", [0.01, 0.05, 0.15, 0.3])
@pytest.mark.parametrize("noise", NOISE)
def test_noise_with_one_hump_is_seldom_called_two(noise: str, spread: float, trials: int) -> None:
    rng = random.Random(3)
    called = sum(
        find_bimodality([math.exp(NOISE[noise](rng, spread)) for _ in range(trials)], [{}] * trials) is not None
        for _ in range(1000)
    )
    assert called / 1000 < 0.04


@pytest.mark.parametrize(("trials", "found"), [(9, 0.7), (12, 0.85), (20, 0.95)])
@pytest.mark.parametrize("spread", [0.02, 0.05])
def test_two_humps_are_mostly_found_even_where_nothing_explains_them(spread: float, trials: int, found: float) -> None:
    rng = random.Random(3)
    times = [[math.exp(rng.gauss(0.5 * (rng.random() < 0.5), spread)) for _ in range(trials)] for _ in range(500)]
    assert sum(find_bimodality(of_case, [{}] * trials) is not None for of_case in times) / 500 > found


@pytest.mark.parametrize("trials", [3, 4, 9, 30])
def test_a_quick_look_at_many_cases_misses_none_that_has_two_humps(trials: int) -> None:
    rng = np.random.default_rng(trials)
    slow = rng.random((1000, trials)) < rng.random((1000, 1))
    times = np.exp(rng.normal(0, 0.1, slow.shape) * rng.random((1000, 1)) + np.where(slow, 0.4, 0.0))
    faults = [[{"minor_faults_per_call": 1000.0 * s} for s in case] for case in slow]
    two = np.array([find_bimodality(*case) is not None for case in zip(times.tolist(), faults, strict=True)])
    looked = may_be_bimodal(times, np.ones(times.shape, dtype=bool))
    assert looked[two].all()
    assert 0 < two.sum() <= looked.sum() < 1.5 * two.sum()


def test_it_looks_at_the_trials_that_count_alone() -> None:
    times = np.array([[1.0, 9.0, 1.01, 2.0, 1.02, 2.01, 9.0]])
    assert may_be_bimodal(times, times < 9).tolist() == [True]
    assert may_be_bimodal(times, times < 2).tolist() == [False]
    assert may_be_bimodal(times, times < 1).tolist() == [False]


def test_the_division_of_thousands_of_trials_is_found() -> None:
    rng = random.Random(3)
    times = [math.exp(rng.gauss(0.5 * (i % 3 == 0), 0.02)) for i in range(9_000)]
    found = find_bimodality(times, [{}] * len(times))
    assert found is not None
