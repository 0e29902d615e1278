"""All cases of a run on synthetic noise: each stops as in a sweep, and all are estimated together."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from core.stats.noise import Draw
from core.stats.simulation import stops_after
from numpy.typing import NDArray

from harness.core.config import Precision
from harness.core.stats import noise_prior
from harness.core.stats.estimate import counted, trial_statistics
from harness.core.stats.interval import LEVEL

Floats = NDArray[np.float64]
# The log of how noisy each case is, from the log of its time (cases,).
Spreads = Callable[[np.random.Generator, Floats], Floats]


def noisy(rng: np.random.Generator, log_times: Floats) -> Floats:
    """A machine that is disturbed all the time: all cases are about as noisy."""
    return np.log(0.19) - 0.21 * (log_times + 5) + 0.13 * rng.standard_normal(len(log_times))


def quiet(rng: np.random.Generator, log_times: Floats) -> Floats:
    """A quiet machine: some cases depend on page faults, and most do not."""
    return np.log(0.03) + 0.85 * rng.standard_normal(len(log_times))


def mixed(rng: np.random.Generator, log_times: Floats) -> Floats:
    """Every fifth case is ten times as noisy as the others."""
    many = rng.random(len(log_times)) < 0.2
    return np.where(many, np.log(0.2), np.log(0.02)) + 0.3 * rng.standard_normal(len(log_times))


MACHINES: dict[str, Spreads] = {"noisy": noisy, "quiet": quiet, "mixed": mixed}


@dataclass(frozen=True)
class Held:
    """The share of intervals that contain the true value, their median log width, and the trials a case."""

    share: float
    width: float
    trials: float


@dataclass(frozen=True)
class Disturbance:
    """A share of the trials that are slower by a fifth on average. The probe tells nine in ten rightly."""

    share: float

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, NDArray[np.bool_]]:
        """The logs added to the trials, and which of these count as quiet."""
        disturbed = rng.random(shape) < self.share
        told = (rng.random(shape) < 0.9) | (self.share == 0)
        return disturbed * rng.exponential(0.2, size=shape), np.where(told, ~disturbed, disturbed)


def population(
    draw: Draw,
    machine: Spreads,
    precision: Precision,
    disturbance: Disturbance | None = None,
    cases: int = 96,
    runs: int = 10,
    alone: bool = False,
) -> Held:
    """Measure `runs` runs of so many cases. With `alone`, each interval is from the trials of its case only."""
    rng = np.random.default_rng(0)
    disturbance = disturbance or Disturbance(0.0)
    held, widths, trials = [], [], []
    for _ in range(runs):
        log_times = rng.uniform(-9, -1, cases)
        scales = np.exp(machine(rng, log_times))
        drawn = [_case(draw, float(scale), disturbance, rng, precision) for scale in scales]
        found = [
            trial_statistics(values_s, values_s, quiet[None])
            for (logs, quiet, _), at in zip(drawn, log_times, strict=True)
            for values_s in [np.exp(logs[None] + at)]
        ]
        spreads, numbers, times_s = (
            np.concatenate([getattr(one, name) for one in found]) for name in ("spreads", "numbers", "time_s")
        )
        down, up = ends = np.concatenate([one.own_distances for one in found], axis=1)
        if not alone:
            down, up = noise_prior.learn(spreads, numbers, times_s).log_distances(spreads, numbers, times_s, ends)
        error = np.log(times_s) - log_times - np.array([truth for *_, truth in drawn])
        held.append((error - down <= 0) & (error + up >= 0))
        widths.append(down + up)
        trials += [len(logs) for logs, *_ in drawn]
    return Held(float(np.mean(held)), float(np.median(widths)), float(np.mean(trials)))


def _case(
    draw: Draw, scale: float, disturbance: Disturbance, rng: np.random.Generator, precision: Precision
) -> tuple[Floats, NDArray[np.bool_], float]:
    """The log values of a case's trials, which were quiet, and the low quantile of such trials in the long run."""
    logs = draw(rng, (1, precision.max_rounds), scale)[0]
    added, quiet = disturbance.draw(rng, logs.shape)
    number = stops_after(logs + added, quiet, precision)
    logs, quiet = (logs + added)[:number], quiet[:number]
    many = draw(rng, (1, 2_000), scale)[0]
    added, calm = disturbance.draw(rng, many.shape)
    alike = calm if counted(quiet[None])[0].sum() < number or quiet.all() else np.ones_like(calm)
    return logs, quiet, float(np.quantile((many + added)[alike], LEVEL))
