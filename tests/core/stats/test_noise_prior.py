"""Intervals that borrow strength from the other cases of a run: narrower than alone, and as often right."""

from statistics import NormalDist

import numpy as np
import pytest
from core.stats.noise import KINDS
from core.stats.population import MACHINES, Disturbance, population

from harness.core.config import Precision, compose
from harness.core.stats.interval import LEVEL, PEEKING_INFLATION, interval_factors, spread
from harness.core.stats.noise_prior import USUAL, NoisePrior, learn


def limits(target: float, min_rounds: int, max_rounds: int) -> Precision:
    return Precision(target, min_rounds, max_rounds, trial_s=0.1, timeout_s=9, case_s=1e9, patience_s=0)


FOUR = limits(0.05, 4, 4)
QUICK, STANDARD = (compose([f"precision={name}"], None).precision for name in ("quick", "standard"))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", KINDS)
def test_95_in_100_intervals_hold_the_truth(kind: str, machine: str) -> None:
    assert 0.93 <= population(KINDS[kind], MACHINES[machine], QUICK).share <= 0.98


@pytest.mark.parametrize("share", [0.4, 0.8])
@pytest.mark.parametrize("precision", [QUICK, STANDARD], ids=["quick", "standard"])
def test_they_do_on_a_machine_that_is_disturbed_in_many_trials(precision: Precision, share: float) -> None:
    assert 0.93 <= population(KINDS["normal"], MACHINES["quiet"], precision, Disturbance(share)).share <= 0.98


@pytest.mark.parametrize("cases", [1, 3, 12, 24])
@pytest.mark.parametrize("machine", ["noisy", "quiet"])
def test_they_do_with_few_cases(cases: int, machine: str) -> None:
    held = population(KINDS["normal"], MACHINES[machine], QUICK, cases=cases, runs=960 // cases)
    assert 0.93 <= held.share <= 0.98


def test_a_single_case_of_three_trials_far_apart_has_an_interval_of_a_plausible_width() -> None:
    found = np.array([1.0]), np.array([3]), np.array([1e-3])  # the third trial takes 2.7 times as long as the first
    down, up = with_prior(learn(*found), *found)[:, 0]
    assert 0.1 < up < down < 2.5 < alone(*found[:2])[0, 0]


def test_with_four_trials_the_interval_is_half_as_wide_as_alone() -> None:
    noise, machine = KINDS["normal"], MACHINES["noisy"]
    borrowed, alone = population(noise, machine, FOUR), population(noise, machine, FOUR, alone=True)
    assert borrowed.width < 0.55 * alone.width
    assert borrowed.share > 0.93


def alone(spreads: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Distances down and up of the intervals from each case's own trials (2, cases)."""
    factors = np.array([interval_factors(number) for number in numbers.tolist()]).T
    return np.where(numbers == 1, np.inf, PEEKING_INFLATION * factors * np.maximum(spreads, 1e-300))


def with_prior(prior: NoisePrior, spreads: np.ndarray, numbers: np.ndarray, times_s: np.ndarray) -> np.ndarray:
    return prior.log_distances(spreads, numbers, times_s, alone(spreads, numbers))


def run(sigmas: np.ndarray, number: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spreads, numbers of trials and times of cases with these standard deviations."""
    logs = np.sort(np.random.default_rng(seed).standard_normal((len(sigmas), number)) * sigmas[:, None], axis=1)
    return spread(logs), np.full(len(sigmas), number), np.geomspace(1e-4, 1e-1, len(sigmas))


def test_the_level_and_the_slope_of_the_noise_are_found() -> None:
    times = np.geomspace(1e-4, 1e-1, 400)
    prior = learn(*run(0.1 * (times / times.mean()) ** -0.2))
    assert prior.slope == pytest.approx(-0.2, abs=0.05)
    assert np.exp(prior.log_sigma(np.array([times.mean()])))[0] == pytest.approx(0.1, rel=0.15)


def test_the_more_cases_the_less_the_usual_noise_counts() -> None:
    priors = [learn(*run(np.full(cases, 0.01))) for cases in (1, 4, 16, 64)]
    scales = [prior.scale for prior in priors]
    assert scales == sorted(scales, reverse=True)
    assert priors[0].level > priors[-1].level == pytest.approx(np.log(0.01), abs=0.15)


def test_cases_of_one_trial_teach_nothing() -> None:
    spreads, numbers, times_s = run(np.full(20, 0.1))
    numbers[5:] = 1
    assert learn(spreads, numbers, times_s) == learn(spreads[:5], numbers[:5], times_s[:5])
    assert learn(spreads, np.ones(20, dtype=int), times_s) == USUAL


def test_a_case_far_noisier_than_expected_has_the_interval_of_a_usual_machine() -> None:
    prior = NoisePrior(level=np.log(0.01), slope=0.0, middle=0.0, scale=0.3)
    far = np.array([0.2]), np.array([4]), np.array([1.0])
    assert with_prior(prior, *far).tolist() == with_prior(USUAL, *far).tolist()


def test_the_interval_grows_with_the_spread_without_a_jump() -> None:
    prior = NoisePrior(level=np.log(0.01), slope=0.0, middle=0.0, scale=0.3)
    spreads = np.geomspace(1e-5, 1.0, 400)
    down, up = with_prior(prior, spreads, np.full(400, 4), np.ones(400))
    assert (np.diff(np.log(down + up)) < 0.15).all()
    assert (np.diff(np.log(down + up)) > -0.02).all()


def test_a_case_whose_trials_agree_by_chance_does_not_get_a_tiny_interval() -> None:
    prior = NoisePrior(level=np.log(0.1), slope=0.0, middle=0.0, scale=0.3)
    lucky = np.array([0.001]), np.array([4]), np.array([1.0])
    assert with_prior(prior, *lucky)[0][0] > 10 * alone(*lucky[:2])[0][0]


def test_of_three_cases_in_a_hundred_that_are_ten_times_as_noisy_nine_in_ten_hold_the_truth() -> None:
    rng, held = np.random.default_rng(0), []
    for _ in range(60):
        noisy = np.arange(96) < 3
        sigmas = np.where(noisy, 0.2, 0.02)
        logs = np.sort(rng.standard_normal((96, 4)) * sigmas[:, None], axis=1)
        of_run = logs[:, 2] - logs[:, 0], np.full(96, 4), np.exp(logs[:, 0])
        prior = learn(*of_run)
        down, up = with_prior(prior, *of_run)
        error = logs[:, 0] - NormalDist().inv_cdf(LEVEL) * sigmas
        held += ((error - down <= 0) & (error + up >= 0))[noisy].tolist()
    assert np.mean(held) >= 0.88


def test_a_run_whose_cases_have_nothing_in_common_leaves_intervals_nearly_as_they_are() -> None:
    sigmas = np.exp(2.5 * np.random.default_rng(1).standard_normal(200))
    found = run(sigmas, number=8)
    prior = learn(*found)
    ratio = with_prior(prior, *found) / alone(*found[:2])
    assert np.median(ratio[0]) == pytest.approx(1.0, abs=0.15)


def test_a_single_trial_has_no_interval_with_a_prior_either() -> None:
    prior = NoisePrior(level=np.log(0.1), slope=0.0, middle=0.0, scale=0.3)
    down, up = with_prior(prior, np.array([0.0, 0.1]), np.array([1, 4]), np.array([1.0, 1.0]))
    assert np.isinf([down[0], up[0]]).all()
    assert np.isfinite([down[1], up[1]]).all()


def test_trials_that_all_agree_have_an_interval_nevertheless() -> None:
    prior = NoisePrior(level=np.log(0.1), slope=0.0, middle=0.0, scale=0.3)
    down, up = with_prior(prior, np.array([0.0]), np.array([4]), np.array([1.0]))
    assert 0 < up[0] < down[0] < 0.5


def test_the_noise_is_learnt_from_ten_thousand_cases() -> None:
    prior = learn(*run(np.full(10_000, 0.1)))
    assert np.exp(prior.level) == pytest.approx(0.1, rel=0.1)


def test_cases_of_many_trials_borrow_nothing() -> None:
    prior = NoisePrior(level=np.log(0.1), slope=0.0, middle=0.0, scale=0.3)
    own = np.array([[0.01, 0.01], [0.02, 0.02]])
    found = prior.log_distances(np.array([0.1, 0.1]), np.array([20, 21]), np.array([1.0, 1.0]), own)
    assert found[:, 1].tolist() == [0.01, 0.02]
    assert (found[:, 0] != own[:, 0]).all()
