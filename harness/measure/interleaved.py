"""Measure two sides, base and head, at the same time in interleaved turns. Each side has its own processes.

Both sides therefore meet the same machine, and drift affects both alike. Noise only adds time, so the fastest turn of
each side counts. In a trial, likewise, the fastest sample counts (`harness.stats.estimate`). Interleaving gives both
sides the same chances of a quiet moment.

As a test, the same code was measured against itself: twelve cases on two shared cores. The ratios varied by 2.6 % from
block to block. With two whole trials, one after the other, they varied by 9 %.
"""

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.console import Console

from harness.measure.executor import Executor
from harness.measure.fork_client import Turn, TurnTrial, TurnTrialFailed
from harness.stats.paired_verdicts import BlockFailed, MeasuredBlocks, Rules, measure_blocks
from harness.sweep_axes import Case

_T = TypeVar("_T")
_PATTERNS = ("ABBA", "BAAB")


@dataclass(frozen=True)
class Timing:
    """Durations in seconds: `turn_s` of a turn, `block_s` of a block. A block has at least `least_patterns` patterns.

    A pattern is four turns, ABBA or BAAB. Many short blocks tell more than few long ones. In blocks of twice the
    length, the ratio varies just as much, because random properties of each process cause that variation.

    Calls longer than a turn are different. Each turn is then one chance of a quiet moment. If quiet moments are rare,
    the spread of the ratio falls as fast as turns are added. Blocks of such calls have up to `most_patterns` patterns,
    as long as that takes at most `long_block_s`.
    """

    turn_s: float = 0.002
    block_s: float = 0.05
    least_patterns: int = 4
    long_block_s: float = 0.4
    most_patterns: int = 10


@dataclass(frozen=True)
class Side:
    """A case and the executor of its trials. `name` identifies the side in messages."""

    name: str
    case: Case
    executor: Executor


@dataclass(frozen=True)
class Block:
    """The result of a block. `log_ratio` is log(B's fastest / A's fastest). `order` names the side of each turn."""

    log_ratio: float
    order: str
    turns: tuple[Turn, ...]


def take_block(a: Side, b: Side, timing: Timing, rng: random.Random) -> Block:
    """Measure one block with a fresh process of each side. They take turns in the order A B B A or B A A B, repeatedly.

    Raises BlockFailed if a side cannot be measured.
    """
    trials: dict[str, TurnTrial] = {}
    try:
        sides = {"A": a, "B": b}
        for name, side in rng.sample(list(sides.items()), 2):
            trials[name] = _for_side(side, side.executor.turns, side.case, timing.turn_s)
        # Both sides build and warm up at the same time, since nothing is timed yet.
        call_s = sum(_for_side(sides[name], trial.wait_until_warm) for name, trial in trials.items()) / 2
        order = "".join(rng.choice(_PATTERNS) for _ in range(_patterns(call_s, timing)))
        turns = tuple(_take(order, sides, trials))
        for name, trial in trials.items():
            outcome = trial.end()
            if not outcome.ok:
                raise BlockFailed(f"{sides[name].name}: {outcome.status}: {outcome.reason}")
    finally:
        for trial in trials.values():
            trial.abandon()
    fastest = {name: min(turn.min_s for who, turn in zip(order, turns, strict=True) if who == name) for name in "AB"}
    return Block(math.log(fastest["B"] / fastest["A"]), order, turns)


def _take(order: str, sides: Mapping[str, Side], trials: Mapping[str, TurnTrial]) -> Iterator[Turn]:
    """Take all turns. Within a pattern, both sides use the same CPUs and a newly built layer each."""
    for number, name in enumerate(order):
        place, within = divmod(number, 4)
        anew = name not in order[number - within : number]
        yield _for_side(sides[name], trials[name].turn, place, anew)


def _patterns(call_s: float, timing: Timing) -> int:
    if call_s <= timing.turn_s:
        return max(timing.least_patterns, round(timing.block_s / (4 * timing.turn_s)))
    return max(timing.least_patterns, min(timing.most_patterns, round(timing.long_block_s / (4 * call_s))))


def _for_side(side: Side, ask: Callable[..., _T], *arguments: Any) -> _T:
    try:
        return ask(*arguments)
    except TurnTrialFailed as error:
        raise BlockFailed(f"{side.name}: {error}") from error


# Number of rounds after which all fork servers are replaced. All trials of a server share its random memory layout, so
# all blocks of the same two servers would be biased alike.
_ROUNDS_PER_SERVER = 4
# One case in this many is a control: it is also measured against itself.
_CASES_PER_CONTROL = 4


@dataclass(frozen=True, order=True)
class Pair:
    """The two cases of a comparison: is `head` slower or faster than `base`?"""

    base: Case
    head: Case


# Seconds between two lines of progress.
_LINE_EVERY_S = 10.0


class PairScreen:
    """Prints the progress of a comparison of `pairs` pairs on `console`: a line every ten seconds at most.

    They are printed only between blocks.
    """

    def __init__(self, pairs: int, console: Console) -> None:
        self._pairs, self._console = pairs, console
        self._began = self._last = time.monotonic()
        self._round = ""
        self._blocks = 0

    def round(self, stage: str, number: int) -> None:
        """A round begins, in the first measurement or in the second one of the flagged pairs."""
        self._round = f"round {number}" if stage == "first" else f"again, round {number}"

    def block(self, pair: Pair) -> None:
        """A block has been measured."""
        self._blocks += 1
        now = time.monotonic()
        if now - self._last >= _LINE_EVERY_S:
            self._last = now
            pairs = "one pair" if self._pairs == 1 else f"{self._pairs} pairs"
            text = f"{now - self._began:5.0f} s  {self._round}  {self._blocks} blocks of {pairs}  {pair.head}"
            self._console.out(text, highlight=False)


class Sides:
    """The executors of base, head and control (`all`), where the control is a second base. A context manager.

    With `interchangeable`, base and head find the same layers, so either executor can serve either side.
    """

    def __init__(self, base: Executor, head: Executor, interchangeable: bool = False) -> None:
        self.base, self.head, self.control = self.all = base, head, base.twin()
        self.interchangeable = interchangeable

    def __enter__(self) -> "Sides":
        for executor in (self.base, self.head):
            executor.start()
        return self

    def __exit__(self, *raised: object) -> None:
        for executor in self.all:
            executor.drop()

    def renew(self) -> None:
        """Replace all fork servers. All are ready when this returns, so that none starts beside a trial."""
        for executor in self.all:
            executor.drop()
        for executor in self.all:
            executor.start()
        for executor in self.all:
            executor.run("machine")


def controls_among(number: int) -> list[int]:
    """The indices of the controls among `number` cases: one in four, at least one, evenly spread."""
    every = -(-number // max(1, -(-number // _CASES_PER_CONTROL))) if number else 1
    return list(range(0, number, every))


def time_pairs(
    pairs: Sequence[Pair],
    sides: Sides,
    rules: Rules,
    timing: Timing,
    seed: int,
    log: Callable[[dict[str, Any]], object],
    progress: PairScreen,
    limit_s: float = math.inf,
) -> MeasuredBlocks:
    """Measure blocks of all pairs until each is decided, then measure the flagged pairs again.

    Each round includes the controls. The timing ends with the round in which `limit_s` seconds have passed. The first
    measurement may use half of them.
    """
    begin = time.monotonic()
    rng = random.Random(seed)
    position = {"stage": "first", "round": 0}
    # On a shared machine, a trial may be killed through no fault of its own. One failure per case is tolerated.
    failed_once: set[tuple[int, bool]] = set()

    def begin_round(stage: str, number: int) -> None:
        position.update(stage=stage, round=number)
        if number % _ROUNDS_PER_SERVER == 1:
            sides.renew()
        progress.round(stage, number)

    def measure(index: int, control: bool) -> float:
        pair = pairs[index]
        executors = [sides.base, sides.control if control else sides.head]
        if control or sides.interchangeable:
            rng.shuffle(executors)  # random differences between fork servers then favour either side equally
        base = Side("base", pair.base, executors[0])
        other = Side("control" if control else "head", pair.base if control else pair.head, executors[1])
        try:
            block = take_block(base, other, timing, rng)
        except BlockFailed as error:
            log({**_row_header(pair, control), **position, "failure": str(error)})
            sides.renew()  # the failure may have ended the fork server too: the next trials get new ones
            if (index, control) in failed_once:
                raise
            failed_once.add((index, control))
            return measure(index, control)
        log({**_row_header(pair, control), **position, **_row(block)})
        progress.block(pair)
        return block.log_ratio

    def is_over(stage: str) -> bool:
        return time.monotonic() - begin >= (limit_s / 2 if stage == "first" else limit_s)

    return measure_blocks(len(pairs), controls_among(len(pairs)), measure, rules, seed, begin_round, is_over)


def _row_header(pair: Pair, control: bool) -> dict[str, Any]:
    return {"at": round(time.time(), 3), "base": pair.base.key, "head": pair.head.key, "control": control}


def _row(block: Block) -> dict[str, Any]:
    return {
        "log_ratio": round(block.log_ratio, 6),
        "order": block.order,
        "min_s": [turn.min_s for turn in block.turns],
        "mean_s": [turn.mean_s for turn in block.turns],
    }
