import math
import random

import pytest
from core.stats.simulation import is_precise

from harness.core.config import Precision
from harness.core.stats.estimate import Trial, are_quiet, confirmed, counted, estimate, fewest, stop_reason

LIMITS = Precision(target=0.05, min_rounds=3, max_rounds=5, trial_s=0.1, timeout_s=9, case_s=10, patience_s=1)


def trials(*values: float, probe_s: float = 1.0, wall_s: float = 0.1) -> list[Trial]:
    return [Trial(value, value, wall_s, probe_s) for value in values]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ([], None),
        (trials(1, 1), None),
        (trials(1, 1, 1), None),
        (trials(1, 1, 1, 1, 1), "precise"),
        (trials(1, 1, 1, 3, 3), "precise"),
        (trials(1, 1.2, 1.4, 1.6, 1.8), "max_rounds"),
        (trials(1, 2, wall_s=5.0), None),
        (trials(1, 2, 3, wall_s=5.0), "time_limit"),
    ],
)
def test_a_case_stops_when_precise_or_at_a_limit(seen: list[Trial], reason: str | None) -> None:
    assert stop_reason(seen, 1.0, LIMITS) == reason


def limits(min_rounds: int, max_rounds: int) -> Precision:
    return Precision(0.05, min_rounds, max_rounds, trial_s=0.1, timeout_s=9, case_s=10, patience_s=1)


def test_once_narrow_half_as_many_trials_again_are_made_unlooked_at() -> None:
    narrow = [False] * 5 + [True] * 3
    assert not is_precise(narrow, limits(4, 20))
    assert is_precise([*narrow, True], limits(4, 20))
    assert is_precise([False] * 5 + [True, False, False, True], limits(4, 20))


def test_no_confirmation_goes_beyond_the_last_round() -> None:
    assert is_precise([False] * 7 + [True], limits(4, 8))


@pytest.mark.parametrize(("min_rounds", "max_rounds", "trials"), [(4, 4, 4), (4, 20, 6), (5, 20, 8), (10, 12, 12)])
def test_the_fewest_trials_of_a_case_are_confirmed_ones(min_rounds: int, max_rounds: int, trials: int) -> None:
    assert fewest(limits(min_rounds, max_rounds)) == trials
    assert is_precise([False] * (min_rounds - 1) + [True] * (trials - min_rounds + 1), limits(min_rounds, max_rounds))


def test_an_interval_that_is_wide_again_at_the_end_is_not_precise() -> None:
    assert not is_precise([False] * 5 + [True, True, True, False], limits(4, 20))


def test_a_number_of_trials_that_is_fixed_beforehand_needs_no_confirmation() -> None:
    assert is_precise([False, False, False, True], limits(4, 4))


def test_agreement_of_disturbed_trials_is_no_precision() -> None:
    seen = trials(1.3, 1.3, 1.3, 1.3, probe_s=1.3)
    assert stop_reason(seen, 1.0, LIMITS) is None
    assert stop_reason([*seen, *seen[:1]], 1.3, LIMITS) == "precise"


def test_a_case_disturbed_in_every_round_continues_beyond_them() -> None:
    seen = trials(1.3, 1.3, 1.3, 1.3, 1.3, probe_s=1.3)
    assert stop_reason(seen, 1.0, LIMITS) is None
    assert stop_reason(seen + trials(1.0, 1.3), 1.0, LIMITS) == "max_rounds"


def looked_at_every_time(trials: list[Trial], precision: Precision) -> bool:
    """The rule word by word: what the interval was after each trial, and how many trials it was made of."""
    looks = []
    for number in range(1, len(trials) + 1):
        quiet = are_quiet(trials[:number], 1.0)
        narrow = quiet.sum() >= precision.min_rounds and estimate(trials[:number], 1.0).half_width <= precision.target
        looks.append((int(counted(quiet[None]).sum()), narrow))
    return looks[-1][1] and confirmed(looks, len(trials), looks[-1][0], precision)


def test_disturbed_trials_do_not_confirm_an_interval_of_quiet_ones() -> None:
    narrow = trials(*[1.0, 1.001] * 3)
    disturbed = trials(1.0, 1.0, 1.0, probe_s=1.3)
    assert stop_reason([*narrow, *disturbed], 1.0, limits(6, 20)) is None
    assert stop_reason([*narrow, *trials(1.0, 1.0, 1.0)], 1.0, limits(6, 20)) == "precise"


@pytest.mark.parametrize("precision", [limits(3, 5), limits(4, 20), limits(6, 60), limits(4, 4)])
def test_a_case_is_precise_when_looking_after_every_trial_says_so(precision: Precision) -> None:
    rng = random.Random(1)
    seen = set()
    for _ in range(200):
        noise, probes = rng.choice([0.005, 0.02, 0.04]), rng.choice([[1.0], [1.0, 1.3]])
        taken = []
        for _ in range(rng.randrange(1, 40)):
            value = math.exp(rng.gauss(0, noise))
            taken.append(Trial(value, value, 0.01, rng.choice(probes)))
        precise = stop_reason(taken, 1.0, precision) == "precise"
        assert precise == looked_at_every_time(taken, precision)
        seen.add(precise)
    assert seen == {True, False}
