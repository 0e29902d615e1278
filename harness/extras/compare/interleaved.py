"""Measure two sides, base and head, at the same time in interleaved turns. Each side has its own processes.

Both sides therefore meet the same machine, and drift affects both alike. Noise mostly adds time, so the fastest turn of
each side counts. Both sides have equally many turns, and interleaving gives them the same chances of a quiet moment.

As a test, the same code was measured against itself: twelve cases on two shared cores. The ratios varied by 2.6 % from
block to block. With two whole trials, one after the other, they varied by 9 %.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.core.model.formatting import duration
from harness.core.model.sweep_axes import Case
from harness.core.results.row import StoredRow
from harness.core.run.executor import Executor
from harness.core.run.progress import PLAIN_LINE_S, REDRAW_S, LiveOnTerminal
from harness.study.laws.roofline import MOST_THREADS_AFTER, THREADS_RUN_ON
from harness.study.report.document import grouped

from .paired_evidence import Rules, ratio_text
from .paired_verdicts import BlockFailed, Host, MeasuredBlocks, Standing, measure_blocks
from .turn_trial import Turn, TurnTrial, TurnTrialFailed, begin_turns

_T = TypeVar("_T")
_PATTERNS = ("ABBA", "BAAB")
_TURNS_OF_PATTERN = 4
# If a call is longer than a turn, each turn is a call to warm up and a sample; both sides' first turns in a pattern
# begin with a call of the layer built anew.
_CALLS_OF_LONG_PATTERN = 10
# Durations in seconds of a turn, and of the turns of a block. Many short blocks tell more than few long ones. In blocks
# of twice the length, the ratio varies just as much, because random properties of each process cause that variation.
TURN_S, BLOCK_S = 0.002, 0.05
# Calls longer than a turn are different. Each turn is then one chance of a quiet moment. If quiet moments are rare, the
# spread of the ratio falls as fast as turns are added. Blocks of such calls last up to this many seconds.
_LONG_BLOCK_S = 0.3
_LEAST_PATTERNS, _MOST_PATTERNS = 3, 10


@dataclass(frozen=True)
class Side:
    """A case and the executor of its trials. `name` identifies the side in messages."""

    name: str
    case: Case
    executor: Executor


@dataclass(frozen=True)
class Block:
    """The result of a block. `log_ratio` is log(B's fastest / A's fastest). `order` names the side of each turn.

    `threads_after` is the result column of this name, by the name of the side.
    """

    log_ratio: float
    order: str
    turns: tuple[Turn, ...]
    threads_after: Mapping[str, float] = field(default_factory=dict)


def take_block(a: Side, b: Side, rng: random.Random) -> Block:
    """Measure one block with a fresh process of each side. They take turns in the order A B B A or B A A B, repeatedly.

    Only one side runs at any time, from its first import to its last call. The other one is stopped, with all threads.

    Raises BlockFailed if a side cannot be measured.
    """
    trials: dict[str, TurnTrial] = {}
    try:
        sides = {"A": a, "B": b}
        call_s = 0.0
        for name, side in rng.sample(list(sides.items()), 2):
            trials[name] = _for_side(side, begin_turns, side.executor, side.case, TURN_S)
            call_s += _for_side(side, trials[name].wait_until_warm) / 2
        order = "".join(rng.choice(_PATTERNS) for _ in range(_patterns(call_s)))
        turns = tuple(_take(order, sides, trials))
        threads_after = {}
        for name, trial in trials.items():
            outcome = trial.end()
            if not outcome.ok:
                raise BlockFailed(f"{sides[name].name}: {outcome.status}: {outcome.reason}")
            threads_after[sides[name].name] = outcome.values.get("threads_after") or 0.0
    finally:
        for trial in trials.values():
            trial.abandon()
    fastest = {name: min(turn.min_s for who, turn in zip(order, turns, strict=True) if who == name) for name in "AB"}
    return Block(math.log(fastest["B"] / fastest["A"]), order, turns, threads_after)


def _take(order: str, sides: Mapping[str, Side], trials: Mapping[str, TurnTrial]) -> Iterator[Turn]:
    """Take all turns. Within a pattern, both sides use the same CPUs and a newly built layer each."""
    for number, name in enumerate(order):
        place, within = divmod(number, _TURNS_OF_PATTERN)
        anew = name not in order[number - within : number]
        yield _for_side(sides[name], trials[name].turn, place, anew)


def _patterns(call_s: float) -> int:
    if call_s <= TURN_S:
        return round(BLOCK_S / (_TURNS_OF_PATTERN * TURN_S))
    patterns = round(_LONG_BLOCK_S / (_CALLS_OF_LONG_PATTERN * call_s))
    return max(_LEAST_PATTERNS, min(_MOST_PATTERNS, patterns))


def _for_side(side: Side, ask: Callable[..., _T], *arguments: Any) -> _T:
    try:
        return ask(*arguments)
    except TurnTrialFailed as error:
        # A case that fits into memory once may not fit twice.
        twice = "; both sides are in memory at once: compare smaller sizes" if error.outcome.status == "oom" else ""
        raise BlockFailed(f"{side.name}: {error}{twice}") from error


class ComparisonScreen(LiveOnTerminal):
    """Show the progress of a comparison of the pairs with these labels: how far each open one is from a decision.

    A context manager: it removes the live table at its end. Elsewhere than on a terminal, it prints a line every ten
    seconds at most. The first of these after each look is followed by a line for each open pair.
    """

    def __init__(self, labels: Sequence[str], rules: Rules, limit_s: float, console: Console) -> None:
        self._shown = Live(console=console, auto_refresh=False, transient=True)
        super().__init__(console, self._shown)
        self._labels, self._threshold, self._limit_s = labels, rules.threshold, limit_s
        self._last_drawn = time.monotonic()
        self._used_s = 0.0
        self._round = ""
        self._standing: Standing | None = None
        self._is_after_look = False

    def round(self, stage: str, number: int) -> None:
        """A round begins, in the first measurement or in the second one of the flagged pairs."""
        self._round = f"round {number}" if stage == "first" else f"again, round {number}"

    def block(self, used_s: float) -> None:
        """A block has been measured. The comparison has used this much time."""
        self._used_s = used_s
        now = time.monotonic()
        if now - self._last_drawn < (REDRAW_S if self._console.is_terminal else PLAIN_LINE_S):
            return
        self._last_drawn = now
        if self._console.is_terminal:
            self._shown.update(self._table(), refresh=True)
            return
        self._console.out(self._line())
        for label, ratio, blocks in self._open_pairs() if self._is_after_look else ():
            self._console.out(f"         {label}: {ratio} after {blocks}")
        self._is_after_look = False

    def end_round(self, standing: Standing, is_look: bool) -> None:
        """A round has ended. After a look, the rules may have closed some pairs."""
        self._standing = standing
        self._is_after_look |= is_look

    def _line(self) -> str:
        parts = [f"{self._used_s:5.0f} s", self._round]
        if self._standing:
            parts.append(f"{self._standing.decided} of {self._standing.cases} pairs decided")
            parts += [f"{self._standing.given_up} given up"] if self._standing.given_up else []
        if math.isfinite(self._limit_s):
            parts.append(f"at most {duration(max(0.0, self._limit_s - self._used_s))} left")
        return "  ".join(filter(None, parts))

    def _open_pairs(self) -> list[tuple[str, str, str]]:
        """The label, the ratio with its interval, and the number of blocks of each open pair."""
        evidence = self._standing.evidence() if self._standing else {}
        return [(self._labels[at], ratio_text(of_pair), f"{of_pair.blocks} blocks") for at, of_pair in evidence.items()]

    def _table(self) -> Group:
        rows, most = self._open_pairs(), max(1, self._console.height - 4)
        table = Table.grid(padding=(0, 2))
        for row in rows[:most]:
            table.add_row(*map(Text, row))
        limit = 1 + self._threshold
        more = f"… and {len(rows) - most} more; " if len(rows) > most else ""
        below = f"{more}equivalent between ×{1 / limit:.3f} and ×{limit:.3f}, faster or slower beyond"
        return Group(Text(self._line()), table, Text(below if rows else ""))


# One case in this many is a control: it is also measured against itself.
_CASES_PER_CONTROL = 4


class Pair(NamedTuple):
    """The two cases of a comparison: is `head` slower or faster than `base`?"""

    base: Case
    head: Case


class Sides:
    """The executors of base, head and control, all different ones in `all`. A context manager.

    The control is a second base, by default a twin. With `interchangeable`, base and head find the same layers. Either
    executor can then serve either side, and the head's is the control's, too.
    """

    def __init__(
        self, base: Executor, head: Executor, interchangeable: bool = False, control: Executor | None = None
    ) -> None:
        self.base, self.head, self.control = base, head, head if interchangeable else control or base.twin()
        self.all = (base, head) if interchangeable else (base, head, self.control)
        self.interchangeable = interchangeable

    def __enter__(self) -> "Sides":
        for executor in (self.base, self.head):
            executor.start()
        return self

    def __exit__(self, *raised: object) -> None:
        for executor in self.all:
            executor.drop()

    def renew(self) -> None:
        """Replace all fork servers."""
        renew_servers(self.all)


def renew_servers(executors: Sequence[Executor]) -> None:
    """Replace the fork servers. All are ready when this returns, so that none starts beside a trial."""
    for executor in executors:
        executor.drop()
    for executor in executors:
        executor.start()
    for executor in executors:
        executor.run("machine")


def controls_among(number: int) -> list[int]:
    """The indices of the controls among `number` cases: one in four, at least one, evenly spread."""
    every = -(-number // max(1, -(-number // _CASES_PER_CONTROL))) if number else 1
    return list(range(0, number, every))


# The first measurement may use this share of the time. The second one has fewer cases, and needs fewer blocks of each.
_FIRST_SHARE = 0.6


@dataclass
class PairTimer(Host):
    """Takes the blocks of a comparison, or reads them from past rows, and counts the time that they have used.

    `past` are rows that `log` received from an interrupted timer with the same arguments: the comparison continues
    after them. All decisions depend on the blocks and on the times in their rows. A comparison that continues therefore
    decides as it did before, until it has used up its past rows.
    """

    pairs: Sequence[Pair]
    sides: Sides
    rules: Rules
    seed: int
    log: Callable[[StoredRow], object]
    screen: ComparisonScreen
    limit_s: float = math.inf
    past: Iterable[StoredRow] = ()
    stage: str = "first"
    round: int = 0
    # On a shared machine, a trial may be killed through no fault of its own. One failure per case is tolerated.
    failed_once: set[tuple[int, bool]] = field(default_factory=set)
    # `Block.threads_after` of the blocks of each pair, by the name of the side.
    threads_after: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    # Fork servers are replaced before the next block that is measured.
    needs_servers: bool = True
    generation: int = 0  # the number of replacements
    # The time used until the end of the last block: in all, in blocks, and the numbers of blocks and generations.
    used_s: float = 0.0
    in_blocks_s: float = 0.0
    blocks: int = 0
    generations: int = 0
    resumed_at: float | None = None  # on the clock, less the time used before

    def time_pairs(self) -> MeasuredBlocks:
        """Measure blocks of all pairs until each is decided or hopeless, then measure the flagged pairs again.

        Each round includes the controls. The timing ends with the round in which `limit_s` seconds have passed.
        """
        self._past = grouped(self.past, _key)
        cases = len(self.pairs)
        return measure_blocks(cases, controls_among(cases), self.take, self.rules, self.seed, self)

    def begin_round(self, stage: str, number: int) -> None:
        self.stage, self.round = stage, number
        if (number - 1) % self.rules.generation == 0:
            self.needs_servers = True
            self.generations += 1
        self.screen.round(stage, number)

    def generations_left(self, stage: str, number: int) -> float:
        left_s = (_FIRST_SHARE if stage == "first" else 1.0) * self.limit_s - self.used_s
        if left_s <= 0:
            return 0.0
        if not self.blocks:
            return math.inf
        blocks_s = self.rules.generation * number * self.in_blocks_s / self.blocks
        return left_s / (blocks_s + (self.used_s - self.in_blocks_s) / self.generations)

    def end_round(self, stage: str, standing: Standing) -> None:
        rules = self.rules if stage == "first" else self.rules.again
        self.screen.end_round(standing, self.round in [look * rules.generation for look in rules.looks])

    def take(self, index: int, control: bool) -> float:
        """The log ratio of a block.

        Raises BlockFailed if the case has failed twice, and if the threads of one side work on after its calls.
        """
        pair = self.pairs[index]
        about = {"base": pair.base.key, "head": pair.head.key, "control": control}
        about |= {"stage": self.stage, "round": self.round}
        rng = random.Random(f"{self.seed} {index} {control} {self.stage} {self.round}")
        rows = iter(self._past.pop(_key(about), ()))
        while True:
            row = next(rows, None) or self._measure(index, control, about, rng)
            self.used_s, self.generation = row["used_s"], row["generation"]
            if "failure" not in row:
                self.in_blocks_s += row["took_s"]
                self.blocks += 1
                self.screen.block(self.used_s)
                if not control:
                    self._check_threads(index, row.get("threads_after", {}))
                return float(row["log_ratio"])
            if (index, control) in self.failed_once:
                raise BlockFailed(row["failure"])
            self.failed_once.add((index, control))

    def _check_threads(self, index: int, threads_after: Mapping[str, float]) -> None:
        """Raise BlockFailed for threads that work on, unless both sides are one layer with such threads."""
        for name, share in threads_after.items():
            self.threads_after[index, name].append(share)
        shares = {name: self.threads_after[index, name] for name in threads_after}
        run_on = [name for name, of in shares.items() if len(of) >= _LEAST_SHARES and median(of) > MOST_THREADS_AFTER]
        pair = self.pairs[index]
        if run_on and (len(run_on) == 1 or pair.base.impl != pair.head.impl):
            raise BlockFailed(f"{' and '.join(run_on)}: {THREADS_RUN_ON}, so the time is too short")

    def _measure(self, index: int, control: bool, about: StoredRow, rng: random.Random) -> StoredRow:
        """Measure a block and log its row."""
        pair = self.pairs[index]
        if self.resumed_at is None:
            self.resumed_at = time.monotonic() - self.used_s
        if self.needs_servers:
            self.sides.renew()
            self.needs_servers = False
            self.generation += 1
        executors = [self.sides.base, self.sides.control if control else self.sides.head]
        generation, within = divmod(self.round - 1, self.rules.generation)
        if control or self.sides.interchangeable:
            # Random differences between fork servers then favour either side equally …
            random.Random(f"{self.seed} {index} {control} {self.stage} {generation}").shuffle(executors)
        if self.sides.interchangeable and within % 2:
            executors.reverse()  # … and mostly cancel within a generation. With `ref=` they cannot, nor in its control.
        base = Side("base", pair.base, executors[0])
        other = Side("control" if control else "head", pair.base if control else pair.head, executors[1])
        began = time.monotonic()
        try:
            result = _row(take_block(base, other, rng))
        except BlockFailed as error:
            result = {"failure": str(error)}
            self.needs_servers = True  # the failure may have ended the fork server too
        now = time.monotonic()
        times = {"used_s": round(now - self.resumed_at, 3), "took_s": round(now - began, 3)}
        row = {"at": round(time.time(), 3), **about, "generation": self.generation, **times, **result}
        self.log(row)
        return row


# `threads_after` of so many blocks tells whether threads work on.
_LEAST_SHARES = 3
# These values identify a block among the rows of a comparison.
_KEY = ("base", "head", "control", "stage", "round")
_key = itemgetter(*_KEY)


def is_block_row(row: StoredRow) -> bool:
    """Whether a stored row has all that continuing a comparison needs."""
    results = ("failure",) if "failure" in row else ("log_ratio", "order", "min_s")
    return row.keys() >= {*_KEY, "generation", "used_s", "took_s", *results}


def _row(block: Block) -> StoredRow:
    return {
        "log_ratio": round(block.log_ratio, 6),
        "order": block.order,
        "min_s": [turn.min_s for turn in block.turns],
        "mean_s": [turn.mean_s for turn in block.turns],
        "threads_after": dict(block.threads_after),
    }
