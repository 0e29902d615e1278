"""The procedure of a comparison: rounds of blocks, looks, stopping, and a second measurement of every flagged case.

The procedure knows neither clocks nor layers, because the caller supplies the blocks. Simulations and resampling of
recorded blocks therefore run the same code as real comparisons.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.stats.paired.evidence import evidence, is_decided
from harness.stats.paired.multiplicity import discoveries
from harness.stats.paired.rules import Rules


class NoBlock(Exception):
    """No block of this case can be measured. The message gives the reason."""


@dataclass
class Blocks:
    """Log ratios of one case: from the first measurement, and from the second if the first flagged the case."""

    first: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    flagged: bool = False
    failure: str | None = None


@dataclass
class Measured:
    """The blocks of all cases and of the controls, by case number."""

    cases: list[Blocks]
    controls: dict[int, Blocks]


# `(case, whether the block is of the control) -> log ratio`; raises NoBlock.
TakeBlock = Callable[[int, bool], float]


def measure(
    cases: int,
    controls: Sequence[int],
    take: TakeBlock,
    rules: Rules,
    seed: int = 0,
    between: Callable[[str, int], None] = lambda stage, number: None,
    is_over: Callable[[str], bool] = lambda stage: False,
) -> Measured:
    """Measure a number of cases, and the cases in `controls` against themselves.

    Before each round, `between` is called with the stage, "first" or "again", and the round's number from 1. Flagged
    cases are measured again in the second stage, for which `between` is to start new processes.

    After each round, `is_over` is called with the stage and may end it. Stopping early adds one unplanned look but
    skips at least one planned look. The number of looks therefore never exceeds that of the correction.
    """
    draw = random.Random(seed)
    measured = Measured([Blocks() for _ in range(cases)], {case: Blocks() for case in controls})
    _rounds(measured, range(cases), "first", take, rules, draw, between, is_over)
    for case in flagged(measured, rules):
        measured.cases[case].flagged = True
    again = [case for case, blocks in enumerate(measured.cases) if blocks.flagged]
    if again:
        _rounds(measured, again, "again", take, rules.again, draw, between, is_over)
    return measured


def flagged(measured: Measured, rules: Rules) -> list[int]:
    """The cases that are slower or faster by their first blocks."""
    found = [evidence(blocks.first, rules) for blocks in measured.cases]
    slower = discoveries([one.slower for one in found], rules.alpha)
    faster = discoveries([one.faster for one in found], rules.alpha)
    return [case for case in range(len(found)) if slower[case] or faster[case]]


def _rounds(
    measured: Measured,
    cases: Sequence[int],
    stage: str,
    take: TakeBlock,
    rules: Rules,
    draw: random.Random,
    between: Callable[[str, int], None],
    is_over: Callable[[str], bool],
) -> None:
    """Measure every open case and control once per round, in a new random order. Close decided ones at each look.

    A control is open while it is undecided and any case is open.
    """
    blocks = {(case, False): measured.cases[case] for case in cases}
    blocks |= {(case, True): of_control for case, of_control in measured.controls.items()}
    waiting = [key for key, one in blocks.items() if one.failure is None]
    for number in range(1, rules.most_blocks + 1):
        if all(control for _, control in waiting) or (number > 1 and is_over(stage)):
            return
        between(stage, number)
        for key in draw.sample(waiting, len(waiting)):
            try:
                getattr(blocks[key], stage).append(take(*key))
            except NoBlock as error:
                blocks[key].failure = str(error)
        waiting = [key for key in waiting if blocks[key].failure is None]
        if number in rules.looks:
            waiting = [
                key
                for key in waiting
                if not is_decided(
                    evidence(getattr(blocks[key], stage), rules), len(measured.controls if key[1] else cases), rules
                )
            ]
