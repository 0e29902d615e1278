"""One time or two, on numbers made up."""

import random

import pytest

from harness.stats.humps import find_humps


def counters(*faults: float, **others: float) -> list[dict]:
    return [{"minor_faults_per_call": f, **others} for f in faults]


def test_two_groups_far_apart_are_two_humps_with_what_goes_with_the_slow_one() -> None:
    humps = find_humps([4.6, 8.2, 4.7, 8.3, 8.1], counters(12, 4100, 10, 4096, 4111))
    assert humps is not None
    assert (humps.count, humps.fast_trials, humps.slow_trials) == (2, 2, 3)
    assert (humps.fast_s, humps.slow_s) == pytest.approx((4.65, 8.2))
    assert humps.cause == "slow trials paid 4,100 page faults a call, fast ones 11"


def test_two_humps_that_nothing_recorded_explains_are_said_to_be_so() -> None:
    humps = find_humps([4.6, 8.2, 4.7, 8.3], counters(5, 7, 7, 5))
    assert humps is not None
    assert (humps.count, humps.cause) == (2, None)


def test_a_single_slow_trial_is_a_hump_only_where_something_sets_it_apart() -> None:
    assert find_humps([1.0, 1.01, 1.02, 1.8], counters(9, 9, 9, 9)).count == 1
    assert find_humps([1.0, 1.01, 1.02, 1.8], counters(9, 9, 9, 2000)).count == 2


def test_the_clearest_of_several_causes_is_named() -> None:
    seen = [
        {"minor_faults_per_call": 1.0, "steal_share": 0.0},
        {"minor_faults_per_call": 2.0, "steal_share": 0.0},
        {"minor_faults_per_call": 60.0, "steal_share": 0.5},
        {"minor_faults_per_call": 61.0, "steal_share": 0.6},
    ]
    assert find_humps([1.0, 1.01, 2.0, 2.01], seen).cause == (
        "the hypervisor took 55% of the time of slow trials, 0% of fast ones"
    )


def test_a_lower_clock_in_the_slow_trials_is_a_cause() -> None:
    seen = [{"sm_clock_mhz": mhz} for mhz in (1980, 1980, 1100, 1110)]
    assert find_humps([1.0, 1.01, 1.8, 1.81], seen).cause == "slow trials ran at 1,105 MHz, fast ones at 1,980"


def test_a_counter_that_was_not_read_in_every_trial_is_no_cause() -> None:
    seen = [{"sm_clock_mhz": mhz} for mhz in (1980, None, 1100, 1110)]
    assert find_humps([1.0, 1.01, 1.8, 1.81], seen).cause is None


def test_two_trials_tell_nothing() -> None:
    assert find_humps([1.0, 2.0], counters(1, 1)) is None


@pytest.mark.parametrize("trials", [4, 6, 9, 20])
@pytest.mark.parametrize("spread", [0.01, 0.05])
def test_ordinary_noise_is_hardly_ever_two_humps(trials: int, spread: float) -> None:
    rng = random.Random(3)
    called = sum(
        find_humps([rng.lognormvariate(0, spread) for _ in range(trials)], [{}] * trials).count == 2
        for _ in range(2000)
    )
    assert called / 2000 < 0.01
