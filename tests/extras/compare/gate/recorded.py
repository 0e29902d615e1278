"""Real comparisons, kept as files, to be resampled and judged by several rules."""

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.core.run.executor import Executor
from harness.extras.compare.interleaved import ComparisonScreen, Pair, PairTimer, Sides
from harness.extras.compare.paired_evidence import Rules
from harness.extras.compare.paired_verdicts import MeasuredBlocks, controls_of, verdicts_of
from harness.study.check.check_rules import Verdict

SLOWER = Verdict.WORSE.time
ALARMS = (SLOWER, Verdict.BETTER.time)
# The smallest planted share that must be called slower.
MUST_BE_FOUND = 0.05
RULES = Rules(generation=int(os.environ.get("HARNESS_BENCH_GENERATION", Rules.generation)))


@dataclass(frozen=True)
class Recorded:
    """One comparison: of each pair its planted effect, its verdict and its blocks (rows of `blocks.jsonl`)."""

    kind: str
    effects: list[float]
    verdicts: list[str]
    held: bool
    wall_s: float
    blocks: list[list[dict[str, Any]]]
    controls: list[list[dict[str, Any]]]


def record(kind: str, pairs: Sequence[Pair], effects: Sequence[float], seed: int, into: Path) -> Recorded:
    """Run one comparison, and append it to a file.

    Its blocks are kept in a file beside that one as they are measured. A comparison that was interrupted continues
    after them.
    """
    blocks = into.with_name(f"blocks-{kind}-{seed}.jsonl")
    rows = list(_complete_rows(blocks))

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        with blocks.open("a") as file:
            file.write(json.dumps(row) + "\n")

    screen = ComparisonScreen([pair.head.key for pair in pairs], RULES, math.inf, Console(quiet=True))
    with Sides(_runner(), _runner()) as sides:
        measured = PairTimer(pairs, sides, RULES, seed, keep, screen, past=list(rows)).time_pairs()
    comparison = _recorded(kind, pairs, effects, measured, rows, wall_s=rows[-1]["used_s"])
    with into.open("a") as file:
        file.write(json.dumps(vars(comparison)) + "\n")
    return comparison


def _complete_rows(blocks: Path) -> Iterator[dict[str, Any]]:
    """The blocks of an interrupted comparison. The last line may be cut off, and is removed then."""
    if not blocks.exists():
        return
    complete, newline, _ = blocks.read_text().rpartition("\n")
    blocks.write_text(complete + newline)
    for line in complete.splitlines():
        yield json.loads(line)


def _runner() -> Executor:
    return Executor(seed=0, trial_s=0.1, timeout_s=60, memory_limit=None)


def _recorded(
    kind: str,
    pairs: Sequence[Pair],
    effects: Sequence[float],
    measured: MeasuredBlocks,
    rows: list[dict[str, Any]],
    wall_s: float,
) -> Recorded:
    def of(pair: Pair, control: bool) -> list[dict[str, Any]]:
        keys = ("stage", "round", "generation", "log_ratio", "order", "min_s", "mean_s")
        mine = [row for row in rows if row["base"] == pair.base.key and row["control"] == control]
        return [{key: row[key] for key in keys} for row in mine if control or row["head"] == pair.head.key]

    return Recorded(
        kind,
        list(effects),
        [verdict.verdict.time for verdict in verdicts_of(measured, RULES)],
        all(control.held for control in controls_of(measured, RULES)),
        round(wall_s, 2),
        [of(pair, False) for pair in pairs],
        [of(pair, True) for pair in pairs],
    )


def wrong_verdicts(runs: Iterable[Recorded]) -> list[str]:
    """A line for each verdict that a gate must not give: an alarm on identical code, or 5 % or more not called slower.

    What it says of smaller planted shares is not judged: they are no larger than the threshold.
    """
    lines = []
    for number, run in enumerate(runs, 1):
        for case, (verdict, effect) in enumerate(zip(run.verdicts, run.effects, strict=True), 1):
            alarm = effect == 0 and verdict in ALARMS
            missed = round(effect, 3) >= MUST_BE_FOUND and verdict != SLOWER
            if alarm or missed:
                lines.append(f"{run.kind} {number}, case {case}: {verdict}, planted {effect:+.1%}")
    return lines


def read(path: Path) -> Iterator[Recorded]:
    """The comparisons of a file."""
    if path.exists():
        for line in path.read_text().splitlines():
            yield Recorded(**json.loads(line))
