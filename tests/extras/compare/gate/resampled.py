"""Comparisons put together anew from blocks that were recorded: stretches of as many as shared their processes."""

from collections.abc import Sequence

import numpy as np
from extras.compare.gate.recorded import Recorded

from harness.extras.compare.paired_verdicts import TakeBlock


def stretches(recorded: Sequence[Recorded], case: int) -> list[list[float]]:
    """The log ratios of a case, and those of its controls, in stretches of blocks with the same fork servers."""
    found: dict[tuple[int, bool, str, int], list[float]] = {}
    for run, one in enumerate(recorded):
        for control, blocks in ((False, one.blocks[case]), (True, one.controls[case])):
            for block in blocks:
                at = (run, control, block["stage"], block["generation"])
                found.setdefault(at, []).append(block["log_ratio"])
    return list(found.values())


def taking(pools: Sequence[Sequence[Sequence[float]]], effects: Sequence[float], seed: int) -> TakeBlock:
    """Blocks drawn, stretch by stretch, from each case's pool, and its head's made so much slower."""
    rng = np.random.default_rng(seed)
    shifts = np.log1p(effects)
    left: dict[tuple[int, bool], list[float]] = {}

    def take(case: int, control: bool) -> float:
        if not left.get((case, control)):
            left[case, control] = list(pools[case][rng.integers(len(pools[case]))])
        return left[case, control].pop(0) + (0.0 if control else float(shifts[case]))

    return take
