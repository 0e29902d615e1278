"""The 95 % interval contains the true value in 93 to 97 of 100 cases, with the stopping rule at work."""

import pytest
from core.stats.noise import KINDS
from core.stats.simulation import coverage

from harness.core.config import Precision


def limits(target: float, min_rounds: int, max_rounds: int) -> Precision:
    return Precision(target, min_rounds, max_rounds, trial_s=0.1, timeout_s=9, case_s=1e9, patience_s=0)


STANDARD, STRICT, QUICK = limits(0.02, 6, 20), limits(0.01, 10, 60), limits(0.05, 4, 4)


@pytest.mark.parametrize("scale", [0.25, 1.0, 2.0], ids="noise {} of the target".format)
@pytest.mark.parametrize("precision", [STANDARD, STRICT], ids=["standard", "strict"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_measurement_that_stops_when_it_is_precise(kind: str, precision: Precision, scale: float) -> None:
    assert 0.93 <= coverage(KINDS[kind], scale * precision.target, precision, 5_000).share <= 0.97


@pytest.mark.parametrize("kind", ["normal", "log-normal", "bursts"])
def test_a_measurement_of_four_trials(kind: str) -> None:
    assert 0.93 <= coverage(KINDS[kind], QUICK.target, QUICK, 5_000).share <= 0.97


def test_four_trials_cannot_know_of_a_fast_hump_that_none_of_them_saw() -> None:
    held = coverage(KINDS["two-humped"], 0.01, QUICK, 5_000).share
    assert 0.95 - 0.5**4 - 0.02 <= held < 0.93


def test_without_payment_for_peeking_the_interval_would_hold_less(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, scale = KINDS["normal"], 2 * STRICT.target
    paid = coverage(noise, scale, STRICT, 5_000)
    monkeypatch.setattr("harness.core.stats.estimate.CONFIRMATION", 0.0)
    unpaid = coverage(noise, scale, STRICT, 5_000)
    assert unpaid.share < 0.925 < paid.share
    assert unpaid.trials < paid.trials
