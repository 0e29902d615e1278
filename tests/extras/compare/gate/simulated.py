"""Blocks of identical code on machines whose noise is made up: two levels, bursts, drift.

Each kind gives what every turn of a block took, as logarithms, (orders, 4), for both sides alike but for who has the
turn. A run is of some fork servers, each with a random effect on both sides: noise on two levels.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from harness.extras.compare.paired_evidence import Rules
from harness.extras.compare.paired_verdicts import TakeBlock

Floats = NDArray[np.float64]
# The orders of a block's four turns; the blocks of a case that share their fork servers.
ORDERS = 8
BLOCKS_A_PARENT = Rules().generation
_A = np.array([[True, False, False, True], [False, True, True, False]])


def two_levels(rng: np.random.Generator) -> Floats:
    """A turn is slow, by two thirds, as long as a neighbour is at work: for some turns in a row."""
    slow = np.cumsum(rng.random(4 * ORDERS) < 0.15) % 2 == rng.integers(2)
    return (np.log(5 / 3) * slow + 0.02 * rng.standard_exponential(4 * ORDERS)).reshape(ORDERS, 4)


def bursts(rng: np.random.Generator) -> Floats:
    """One turn in five is struck by something ten times as large as the usual noise."""
    struck = rng.random((ORDERS, 4)) < 0.2
    return 0.02 * rng.standard_exponential((ORDERS, 4)) + struck * rng.exponential(0.2, (ORDERS, 4))


def drifts(rng: np.random.Generator) -> Floats:
    """The machine gets slower and faster as it goes, by a few per cent a turn."""
    walk = np.cumsum(0.03 * rng.standard_normal(4 * ORDERS))
    return walk.reshape(ORDERS, 4) + 0.01 * rng.standard_exponential((ORDERS, 4))


KINDS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "two levels": two_levels,
    "bursts": bursts,
    "drifts": drifts,
}


def taking(kind: str, effects: list[float], seed: int, parent: float = 0.005, process: float = 0.01) -> TakeBlock:
    """Blocks of cases whose heads are so much slower. `parent` and `process`: by how much the luck of each varies, as

    a standard deviation of the logarithm.
    """
    rng = np.random.default_rng(seed)
    shifts = np.log1p(effects)
    taken: dict[tuple[int, bool], int] = {}
    luck: dict[tuple[int, bool], float] = {}

    def take(case: int, control: bool) -> float:
        key = (case, control)
        if taken.get(key, 0) % BLOCKS_A_PARENT == 0:
            luck[key] = parent * (rng.standard_normal() - rng.standard_normal())
        taken[key] = taken.get(key, 0) + 1
        logs = KINDS[kind](rng)
        of_a = _A[rng.integers(2, size=ORDERS)]
        ratio = logs[~of_a].min() - logs[of_a].min()
        own = process * (rng.standard_normal() - rng.standard_normal())
        return float(ratio + own + luck[key] + (0.0 if control else shifts[case]))

    return take
