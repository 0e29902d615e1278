"""One block: a fresh process of each side. They take turns in the order A B B A or B A A B, repeatedly.

Both sides therefore meet the same machine, and drift affects both alike. Noise only adds time, so the fastest turn of
each side counts. In a trial, likewise, the fastest sample counts (`harness.stats.estimate`). Interleaving gives both
sides the same chances of a quiet moment.

As a test, the same code was measured against itself: twelve cases on two shared cores. The ratios varied by 2.6 % from
block to block. With two whole trials, one after the other, they varied by 9 %.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from harness.case import Case
from harness.stats.paired.procedure import NoBlock
from harness.sweep.turn_trial import Turn, TurnTrial, TurnTrialFailed

_T = TypeVar("_T")
_ORDERS = ("ABBA", "BAAB")


@dataclass(frozen=True)
class Timing:
    """Durations in seconds: `turn_s` of a turn, `block_s` of a block. A block has at least `least_orders` orders.

    An order is four turns. Many short blocks tell more than few long ones. In blocks of twice the length, the ratio
    varies just as much, because random properties of each process cause that variation.

    Calls longer than a turn are different. Each turn is then one chance of a quiet moment. If quiet moments are rare,
    the spread of the ratio falls as fast as turns are added. Blocks of such calls have up to `most_orders` orders, as
    long as that takes at most `long_block_s`.
    """

    turn_s: float = 0.002
    block_s: float = 0.05
    least_orders: int = 4
    long_block_s: float = 0.4
    most_orders: int = 10


class Turns(Protocol):
    """The part of a runner that a block needs."""

    def turns(self, case: Case, turn_s: float) -> TurnTrial: ...


@dataclass(frozen=True)
class Side:
    """A case and the runner of its trials. `name` identifies the side in messages."""

    name: str
    case: Case
    runner: Turns


@dataclass(frozen=True)
class Block:
    """The result of a block. `log_ratio` is log(B's fastest / A's fastest). `order` names the side of each turn."""

    log_ratio: float
    order: str
    turns: tuple[Turn, ...]


def take_block(a: Side, b: Side, timing: Timing, draw: random.Random) -> Block:
    """Measure one block. Raises NoBlock if a side cannot be measured."""
    trials: dict[str, TurnTrial] = {}
    try:
        sides = {"A": a, "B": b}
        for name, side in draw.sample(list(sides.items()), 2):
            trials[name] = _asked(side, partial(side.runner.turns, side.case, timing.turn_s))
        # Both sides build and warm up at the same time, since nothing is timed yet.
        call_s = sum(_asked(sides[name], trial.wait_until_warm) for name, trial in trials.items()) / 2
        order = "".join(draw.choice(_ORDERS) for _ in range(_orders(call_s, timing)))
        turns = tuple(_take(order, sides, trials))
        for name, trial in trials.items():
            _ended(sides[name], trial)
    finally:
        for trial in trials.values():
            trial.abandon()
    fastest = {name: min(turn.min_s for who, turn in zip(order, turns, strict=True) if who == name) for name in "AB"}
    return Block(math.log(fastest["B"] / fastest["A"]), order, turns)


def _take(order: str, sides: Mapping[str, Side], trials: Mapping[str, TurnTrial]) -> Iterator[Turn]:
    """Take all turns. Within an order of four turns, both sides use the same CPUs and a newly built layer each."""
    for number, name in enumerate(order):
        place, within = divmod(number, 4)
        anew = name not in order[number - within : number]
        yield _asked(sides[name], partial(trials[name].turn, place, anew))


def _orders(call_s: float, timing: Timing) -> int:
    if call_s <= timing.turn_s:
        return max(timing.least_orders, round(timing.block_s / (4 * timing.turn_s)))
    return max(timing.least_orders, min(timing.most_orders, round(timing.long_block_s / (4 * call_s))))


def _asked(side: Side, ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except TurnTrialFailed as error:
        raise NoBlock(f"{side.name}: {error.outcome['status']}: {error.outcome['reason']}") from error


def _ended(side: Side, trial: TurnTrial) -> None:
    outcome = trial.end()
    if outcome["status"] != "ok":
        raise NoBlock(f"{side.name}: {outcome['status']}: {outcome['reason']}")
