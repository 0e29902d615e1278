"""Noise as machines make it, on two levels: between trials, and between the samples of one.

Each kind gives (repeats, rounds) of what a trial's fastest sample says, as logarithms; `scale` is the spread of
the trials about the fast ones. Every trial has `SAMPLES` samples with normal noise of a third of that.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

SAMPLES = 20
Draw = Callable[[np.random.Generator, tuple[int, int], float], NDArray[np.float64]]


def _fastest_sample(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> NDArray[np.float64]:
    """The least of so many normal samples, by inversion of its distribution."""
    return scale / 3 * ndtri(-np.expm1(-rng.standard_exponential(shape) / SAMPLES))


def normal(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> NDArray[np.float64]:
    return scale * rng.standard_normal(shape) + _fastest_sample(rng, shape, scale)


def log_normal(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> NDArray[np.float64]:
    """A floor, and above it an excess with a long tail: half of it within ±40 % of its median."""
    excess = 2 * scale * np.exp(0.5 * rng.standard_normal(shape))
    return np.log1p(excess + _fastest_sample(rng, shape, scale / 2))


def one_sided(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> NDArray[np.float64]:
    """A floor that no trial is below, and an excess that is exponential twice over."""
    return np.log1p(scale * rng.gamma(2.0, size=shape) + _fastest_sample(rng, shape, scale / 2))


def left_tailed(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> NDArray[np.float64]:
    """A machine that is disturbed most of the time: what is rare is a quiet moment."""
    return -0.8 * scale * rng.gumbel(size=shape) + _fastest_sample(rng, shape, scale)


def bursts(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> NDArray[np.float64]:
    """One trial in four is struck by something ten times as large as the usual noise."""
    struck = rng.random(shape) < 0.25
    return normal(rng, shape, scale) + np.where(struck, rng.exponential(10 * scale, size=shape), 0.0)


def two_humped(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> NDArray[np.float64]:
    """Every second trial pays for page faults, and takes 1.65 times as long."""
    return normal(rng, shape, scale) + np.where(rng.random(shape) < 0.5, 0.5, 0.0)


KINDS: dict[str, Draw] = {
    "normal": normal,
    "log-normal": log_normal,
    "one-sided": one_sided,
    "left-tailed": left_tailed,
    "bursts": bursts,
    "two-humped": two_humped,
}
