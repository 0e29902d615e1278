"""The order of a comparison: rounds of blocks, looks, stopping, and everything flagged measured once more.

It knows neither clocks nor layers: a block comes from whoever is asked for it. So what is simulated, and what is drawn
again from recorded blocks, is decided by the very code that decides in earnest.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.stats.paired.evidence import evidence, is_decided
from harness.stats.paired.multiplicity import discoveries
from harness.stats.paired.rules import Rules


class NoBlock(Exception):
    """A case of which no block can be had; the message says why."""


@dataclass
class Blocks:
    """Log ratios of one case: of the first measurement, and of the second where the first flagged it."""

    first: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    flagged: bool = False
    failure: str | None = None


@dataclass
class Measured:
    """Of all cases and of the controls, each by its number: what was measured."""

    cases: list[Blocks]
    controls: dict[int, Blocks]


# `(case, whether it is the control's block) -> log ratio`; raises NoBlock.
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
    """Measure `cases` cases, and `controls`, some of them, against themselves.

    `between` is called before each round, with "first" or "again" and the round's number from 1: what is flagged in the
    first rounds is measured again, and `between` has new processes made for that.

    `is_over`, asked after each round, may end the first rounds, and the others. What is looked at then is one look more
    and leaves out all later ones, of which there is one at least: there are never more than was paid for.
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
    """The cases whose first blocks say that they are slower or faster."""
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
    """Every open case, and every open control, once a round in a new random order; at a look those decided are closed.

    A control is open as long as it is undecided and any case is open.
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
