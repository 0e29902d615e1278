import pytest

from harness.config import Precision
from harness.stats.estimate import Trial
from harness.stats.stopping import restless, stop_reason

LIMITS = Precision(target=0.05, min_rounds=3, max_rounds=5, trial_s=0.1, timeout_s=9, case_s=10, patience_s=1)


def trials(*values: float, pulse_s: float = 1.0, wall_s: float = 0.1) -> list[Trial]:
    return [Trial([value], wall_s, pulse_s) for value in values]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ([], None),
        (trials(1, 1), None),
        (trials(1, 1, 1.01), "precise"),
        (trials(1, 1, 1.06), None),
        (trials(1, 1, 1.06, 1.01), "precise"),
        (trials(1, 1.2, 1.4, 1.6, 1.8), "max_rounds"),
        (trials(1, 2, wall_s=5.0), "time_limit"),
    ],
)
def test_a_case_stops_when_precise_or_at_a_limit(seen: list[Trial], reason: str | None) -> None:
    assert stop_reason(seen, 1.0, LIMITS) == reason


def test_agreement_of_disturbed_trials_is_no_precision() -> None:
    seen = trials(1.3, 1.3, 1.3, 1.3, pulse_s=1.3)
    assert stop_reason(seen, 1.0, LIMITS) is None
    assert stop_reason(seen, 1.3, LIMITS) == "precise"


def test_a_case_disturbed_in_every_round_has_had_its_rounds_but_no_rest() -> None:
    seen = trials(1.3, 1.3, 1.3, 1.3, 1.3, pulse_s=1.3)
    assert restless(seen, 1.0, LIMITS)
    assert not restless(seen[:4], 1.0, LIMITS)
    assert not restless(seen + trials(1.0, 1.3), 1.0, LIMITS)
