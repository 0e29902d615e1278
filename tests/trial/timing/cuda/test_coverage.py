"""The 95 % interval of a case, made of whole trials on simulated GPUs, contains the true value in 93 to 97 of 100."""

import random

import numpy as np
import pytest
from stats.simulation import coverage
from trial.timing.cuda.simulated_gpu import SimClock, SimGpu
from trial.timing.cuda.test_sample import USUAL, sampled

from harness.config import Precision
from harness.stats.estimate import value_of_trial

# Enough for a distribution. More of them come from it by drawing, since a simulated trial takes 30 ms.
TRIALS = 120


@pytest.fixture(scope="module")
def values_s() -> np.ndarray:
    """The values of trials, each on a GPU whose clock rate at rest and under load is a little different."""
    draw, found = random.Random(0), []
    with pytest.MonkeyPatch.context() as patch:
        for seed in range(TRIALS):
            boost_hz = 1.98e9 * draw.gauss(1.0, 0.01)
            gpu = SimGpu(**USUAL, seed=seed, clock=SimClock(boost_hz, boost_hz * draw.uniform(0.9, 1.0), 10e-3))
            gpu.gauge.is_open = False
            call = gpu.layer(1, 200e-6 * 1.98e9 / boost_hz)
            found.append(value_of_trial(np.array(sampled(gpu, call, patch, 0.01)[0].samples_s), "cuda"))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "target"), [((4, 4), 0.05), ((6, 20), 0.02)], ids=["quick", "standard"])
def test_the_interval_holds_the_true_value_as_often_as_it_says(
    values_s: np.ndarray, rounds: tuple[int, int], target: float
) -> None:
    limits = Precision(target, *rounds, trial_s=0.1, timeout_s=9, case_s=1e9, patience_s=0)

    def trials(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> np.ndarray:
        return rng.choice(np.log(values_s), shape) + rng.normal(0.0, 1e-3, shape)

    assert 0.93 <= coverage(trials, 0.0, limits, 5_000).share <= 0.97
