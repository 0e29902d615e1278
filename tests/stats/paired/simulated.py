"""Blocks as machines spoil them: kinds of noise in log(B's time / A's time), symmetric as a random order makes it."""

from collections.abc import Callable

import numpy as np

# `(generator, number of the block, state of the case) -> log ratio`; the state lives as long as the case is measured.
Noise = Callable[[np.random.Generator, int, dict[str, float]], float]


def quiet(rng: np.random.Generator, number: int, state: dict[str, float]) -> float:
    """One per cent, normal."""
    return 0.01 * rng.standard_normal()


def two_level(rng: np.random.Generator, number: int, state: dict[str, float]) -> float:
    """Now and then one side has a slow process, by a tenth, throughout its block."""
    base, head = rng.random() < 0.15, rng.random() < 0.15
    return quiet(rng, number, state) + 0.1 * (head - base)


def bursty(rng: np.random.Generator, number: int, state: dict[str, float]) -> float:
    """One block in ten meets something ten times as large as the rest."""
    return quiet(rng, number, state) * (10 if rng.random() < 0.1 else 1)


def heavy_tailed(rng: np.random.Generator, number: int, state: dict[str, float]) -> float:
    """Student's t of two degrees of freedom: its variance is infinite."""
    return 0.01 * rng.standard_t(2)


def drifting(rng: np.random.Generator, number: int, state: dict[str, float]) -> float:
    """Blocks are like those before them: a correlation of a half from one to the next."""
    state["drift"] = 0.5 * state.get("drift", 0.0) + 0.01 * rng.standard_normal()
    return state["drift"]


def of_parents(rng: np.random.Generator, number: int, state: dict[str, float]) -> float:
    """Four blocks in a row are of the same parents, whose luck they share: half a per cent, as was measured."""
    if number % 4 == 1:
        state["luck"] = 0.005 * rng.standard_normal()
    return quiet(rng, number, state) + state["luck"]


KINDS: dict[str, Noise] = {
    "two-level": two_level,
    "bursty": bursty,
    "heavy-tailed": heavy_tailed,
    "drifting": drifting,
    "of parents": of_parents,
}


class Machine:
    """Blocks of cases whose true ratios are `ratios`; a control's is 1. To be given to `measure`."""

    def __init__(self, ratios: list[float], noise: Noise, seed: int) -> None:
        self._logs = [float(np.log(ratio)) for ratio in ratios]
        self._noise = noise
        self._rng = np.random.default_rng(seed)
        self._taken: dict[tuple[int, bool], int] = {}
        self._states: dict[tuple[int, bool], dict[str, float]] = {}

    def take(self, case: int, control: bool) -> float:
        key = case, control
        number = self._taken[key] = self._taken.get(key, 0) + 1
        noise = self._noise(self._rng, number, self._states.setdefault(key, {}))
        return noise if control else self._logs[case] + noise
