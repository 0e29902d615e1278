"""One block: a fresh process of each side, given the turn A B B A or B A A B, again and again.

Both so meet the same machine, and what drifts meets both alike. Noise adds: of each side the fastest of all its turns
counts, as of a trial its fastest sample (`harness.stats.estimate`); in turns both have had the same chances of a quiet
moment. The same code measured so against itself, twelve cases on two shared cores, gave ratios that varied by 2.6 %
from block to block; two whole trials, one after the other, gave 9 %.
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
    """A turn is about `turn_s` long, a block about `block_s`, and of so many orders of four turns at least.

    Many short blocks tell more than few long ones: twice as long, the ratio varies as much from block to block, as that
    is a matter of each process's luck. Not so of a call that is longer than a turn: each turn is then one chance of a
    quiet moment, and where these are rare the ratio's spread falls as fast as turns are added. Blocks of such calls
    have up to `most_orders`, as long as that takes no more than `long_block_s`.
    """

    turn_s: float = 0.002
    block_s: float = 0.05
    least_orders: int = 4
    long_block_s: float = 0.4
    most_orders: int = 10


class Turns(Protocol):
    """What a block needs of a runner."""

    def turns(self, case: Case, turn_s: float) -> TurnTrial: ...


@dataclass(frozen=True)
class Side:
    """A case, and the runner of its trials; `name` says in messages which side it is."""

    name: str
    case: Case
    runner: Turns


@dataclass(frozen=True)
class Block:
    """`log_ratio` is log(B's fastest / A's fastest); `order` names the side of each turn."""

    log_ratio: float
    order: str
    turns: tuple[Turn, ...]


def take_block(a: Side, b: Side, timing: Timing, draw: random.Random) -> Block:
    """Measure one block. Raises NoBlock where a side cannot be measured."""
    trials: dict[str, TurnTrial] = {}
    try:
        sides = {"A": a, "B": b}
        for name, side in draw.sample(list(sides.items()), 2):
            trials[name] = _asked(side, partial(side.runner.turns, side.case, timing.turn_s))
        # Both build and warm up at the same time: nothing is timed yet.
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
    """All turns. Both sides have the four turns of an order on the same CPUs, each with a layer built for them."""
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
