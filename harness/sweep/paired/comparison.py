"""Compare pairs of cases: verify both sides, measure their facts, then time them in blocks."""

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from harness.case import Case
from harness.catalog import Traits
from harness.config import Precision
from harness.stats.paired.procedure import Measured, NoBlock, measure
from harness.stats.paired.rules import Rules
from harness.sweep.driver import Sweep
from harness.sweep.paired.block import Block, Side, Timing, take_block
from harness.sweep.protocols import Sink, Watcher
from harness.sweep.runner import Runner

# Number of rounds after which all fork servers are replaced. All trials of a server share its random memory layout, so
# all blocks of the same two servers would be biased alike.
_ROUNDS_A_PARENT = 4
# One case in this many is a control: it is also measured against itself.
_CASES_A_CONTROL = 4


@dataclass(frozen=True, order=True)
class Pair:
    """The two cases of a comparison: is `head` slower or faster than `base`?"""

    base: Case
    head: Case


class Progress(Protocol):
    """Receives the progress of the timing."""

    def round(self, stage: str, number: int) -> None: ...
    def block(self, pair: Pair) -> None: ...


class Sides:
    """The runners of base, head and control, where the control is a second base. A context manager.

    With `interchangeable`, base and head find the same layers, so either runner can serve either side.
    """

    def __init__(self, base: Runner, head: Runner, interchangeable: bool = False) -> None:
        self.base, self.head, self.control = base, head, base.twin()
        self.interchangeable = interchangeable

    def __enter__(self) -> "Sides":
        for runner in (self.base, self.head):
            runner.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for runner in self.all:
            runner.drop()

    @property
    def all(self) -> tuple[Runner, Runner, Runner]:
        """The three runners."""
        return self.base, self.head, self.control

    def renew(self) -> None:
        """Replace all fork servers. All are ready when this returns, so that none starts beside a trial."""
        for runner in self.all:
            runner.drop()
        for runner in self.all:
            runner.start()
        for runner in self.all:
            runner.run("machine")


def prepare(
    cases: Iterable[Case],
    traits: Mapping[str, Traits],
    precision: Precision,
    runner: Runner,
    sink: Sink,
    watcher: Watcher,
    seed: int,
) -> set[Case]:
    """Verify the cases of one side and measure their facts. Returns the cases that can be timed."""
    sweep = Sweep(list(dict.fromkeys(cases)), traits, precision, runner, sink, watcher, seed)
    sweep.prepare()
    return sweep.open


def controls_among(number: int) -> list[int]:
    """The indices of the controls among `number` cases: one in four, at least one, evenly spread."""
    every = -(-number // max(1, -(-number // _CASES_A_CONTROL))) if number else 1
    return list(range(0, number, every))


class BlockLog:
    """Writes each block as a line of `blocks.jsonl`, which is on disk before the next block."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a line."""
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close the file. Nothing is lost without this call."""
        self._file.close()


def time_pairs(
    pairs: Sequence[Pair],
    sides: Sides,
    rules: Rules,
    timing: Timing,
    seed: int,
    log: Callable[[Mapping[str, Any]], None],
    progress: Progress,
    limit_s: float = math.inf,
) -> Measured:
    """Measure blocks of all pairs until each is decided, then measure the flagged pairs again. Controls run beside.

    The timing ends with the round in which `limit_s` seconds have passed. The first measurement may use half of them.
    """
    begin = time.monotonic()
    draw = random.Random(seed)
    now = {"stage": "first", "round": 0}
    # On a shared machine, a trial may be killed through no fault of its own. One failure per case is tolerated.
    failed_once: set[tuple[int, bool]] = set()

    def between(stage: str, number: int) -> None:
        now.update(stage=stage, round=number)
        if number % _ROUNDS_A_PARENT == 1:
            sides.renew()
        progress.round(stage, number)

    def take(index: int, control: bool) -> float:
        pair = pairs[index]
        runners = [sides.base, sides.control if control else sides.head]
        if control or sides.interchangeable:
            draw.shuffle(runners)  # random differences between fork servers then favour either side equally
        base = Side("base", pair.base, runners[0])
        other = Side("control" if control else "head", pair.base if control else pair.head, runners[1])
        try:
            block = take_block(base, other, timing, draw)
        except NoBlock as error:
            log({**_which(pair, control), **now, "failure": str(error)})
            sides.renew()  # the failure may have ended the fork server too: the next trials get new ones
            if (index, control) in failed_once:
                raise
            failed_once.add((index, control))
            return take(index, control)
        log({**_which(pair, control), **now, **_row(block)})
        progress.block(pair)
        return block.log_ratio

    def is_over(stage: str) -> bool:
        return time.monotonic() - begin >= (limit_s / 2 if stage == "first" else limit_s)

    return measure(len(pairs), controls_among(len(pairs)), take, rules, seed, between, is_over)


def _which(pair: Pair, control: bool) -> dict[str, Any]:
    return {"at": round(time.time(), 3), "base": pair.base.key, "head": pair.head.key, "control": control}


def _row(block: Block) -> dict[str, Any]:
    return {
        "log_ratio": round(block.log_ratio, 6),
        "order": block.order,
        "min_s": [turn.min_s for turn in block.turns],
        "mean_s": [turn.mean_s for turn in block.turns],
    }
