"""The 95 % interval of a case, made of whole trials on simulated GPUs, contains the true value in 93 to 97 of 100.

The true value comes from the known costs of the GPUs, not from the trials.
"""

import math

import numpy as np
import pytest
from core.stats.simulation import coverage
from core.trial.timing.cuda.gpus import USUAL
from core.trial.timing.cuda.simulated_gpu import SimClock, SimGpu
from core.trial.timing.cuda.test_sample import sampled
from scipy.special import ndtri

from harness.core.config import Precision
from harness.core.stats.estimate import value_of_trial
from harness.core.stats.interval import LEVEL

# The clock rate of a trial's GPU: normal, with this mean in hertz and this spread as a share.
RATE_HZ, SPREAD = 1.98e9, 0.01
CYCLES = 200e-6 * RATE_HZ
# At equal steps of probability. More values are drawn between them, since a simulated trial takes 30 ms.
TRIALS = 120
DRAWS = 5_000
STEPS = (np.arange(TRIALS) + 0.5) / TRIALS
QUICK, STANDARD = (
    Precision(target, *rounds, trial_s=0.1, timeout_s=9, case_s=1e9, patience_s=0)
    for target, rounds in ((0.05, (4, 4)), (0.02, (6, 20)))
)
pytestmark = pytest.mark.slow


def rate_hz(probability: float) -> float:
    """The clock rate that so large a share of the GPUs does not exceed."""
    return RATE_HZ * (1 + SPREAD * float(ndtri(probability)))


# What an interval is of: the time that so small a share of the trials is below. Those are the trials of fast GPUs.
TRUE_S = CYCLES / rate_hz(1 - LEVEL) + USUAL["gap_s"]


def simulate_trials() -> np.ndarray:
    """The values of trials in seconds, each on a GPU with a clock rate of its own, ascending."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for seed, step in enumerate(STEPS):
            gpu = SimGpu(**USUAL, seed=seed, clock=SimClock(rate_hz(1 - step)))
            gpu.gauge.is_open = False
            call = gpu.layer(1, CYCLES / gpu.clock.boost_hz)
            found.append(value_of_trial(np.array(sampled(gpu, call, patch, 0.01)[0].samples_s), "cuda"))
    return np.array(found)


@pytest.fixture(scope="module")
def values_s() -> np.ndarray:
    return simulate_trials()


def share_held(values_s: np.ndarray, limits: Precision) -> float:
    def trials(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> np.ndarray:
        return np.interp(rng.random(shape), STEPS, np.log(values_s))

    return coverage(trials, 0.0, limits, DRAWS, truth=math.log(TRUE_S)).share


@pytest.mark.parametrize("limits", [QUICK, STANDARD], ids=["quick", "standard"])
def test_the_interval_holds_the_true_value_as_often_as_it_says(values_s: np.ndarray, limits: Precision) -> None:
    assert 0.93 <= share_held(values_s, limits) <= 0.97


def test_times_that_include_the_cost_of_their_events_would_be_held_less_often(values_s: np.ndarray) -> None:
    assert share_held(values_s + USUAL["event_s"], STANDARD) < 0.93
