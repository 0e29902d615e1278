"""Blocks as machines spoil them: kinds of noise in log(B's time / A's time), symmetric as a random order makes it."""

from collections.abc import Callable

import numpy as np

from harness.extras.compare.paired_evidence import Rules
from harness.extras.compare.paired_verdicts import Host

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


def parents(luck: float, block: float = 0.011, together: int = Rules().generation) -> Noise:
    """Some blocks in a row share their fork servers, and so the memory layout, which is worth `luck` either way."""

    def noise(rng: np.random.Generator, number: int, state: dict[str, float]) -> float:
        if (number - 1) % together == 0:
            state["luck"] = luck * rng.standard_normal()
        return block * rng.standard_normal() + state["luck"]

    return noise


KINDS: dict[str, Noise] = {
    "two-level": two_level,
    "bursty": bursty,
    "heavy-tailed": heavy_tailed,
    "drifting": drifting,
    "parents 0.5 %": parents(0.005),
    "parents 1 %": parents(0.01),
    "parents 1.5 %": parents(0.015),
    "parents 1 %, blocks 3 %": parents(0.01, 0.03),
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


BLOCK_S = 0.3


class Clock(Host):
    """The time of a comparison: new fork servers, after some rounds `together`, take `servers_s`."""

    def __init__(
        self, machine: Machine, limit_s: float, rules: Rules, together: int | None = None, servers_s: float = 2.9
    ) -> None:
        self._machine, self._limit_s, self._rules, self._servers_s = machine, limit_s, rules, servers_s
        self._together = together or rules.generation
        self.used_s = 0.0

    def take(self, case: int, control: bool) -> float:
        self.used_s += BLOCK_S
        return self._machine.take(case, control)

    def begin_round(self, stage: str, number: int) -> None:
        if (number - 1) % self._together == 0:
            self.used_s += self._servers_s

    def generations_left(self, stage: str, number: int) -> float:
        left = (0.6 if stage == "first" else 1.0) * self._limit_s - self.used_s
        return left / self._rules.generation / (self._servers_s / self._together + number * BLOCK_S)
