"""A sweep disturbed at random moments and then gone on with, and whether what it leaves is what it would have left."""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import psutil
from faults.driver import CASES, GRID, IMPLS, LENGTHS, ROUNDS, ROWS, Driver, becomes_true, lines_of, nothing_remains

SIGNALS, TARGETS = (signal.SIGKILL, signal.SIGTERM), ("driver", "parent", "trial")
# How a sweep may end that was disturbed: done; told in a line why not; some case is killed; interrupted; killed.
ENDS = (0, 2, 3, 130, -signal.SIGKILL, -signal.SIGTERM)
# Some of these moments come before the first row or after the last one, where a sweep starts, reports and ends.
_LONG_S, _SHORT_S = 2.0, 0.15
# A sweep that is disturbed no more comes to its end at once; another one or two, where a moment came too late.
_MOST_RUNS = 8


@dataclass(frozen=True)
class Blow:
    """A signal to one of a sweep's processes, so many seconds after so many rows more than at the blow before."""

    number: signal.Signals
    target: str
    rows: int
    delay_s: float


def random_blow(draw: random.Random, number: signal.Signals, target: str, most_rows: int = ROWS) -> Blow:
    """One at any moment up to so many rows."""
    rows = draw.randrange(most_rows + 1)
    return Blow(number, target, rows, draw.uniform(0, _SHORT_S if 0 < rows < ROWS else _LONG_S))


@dataclass
class Left:
    """What came of one run directory: how its sweeps ended, how many signals arrived, and what is wrong with it."""

    ends: list[int] = field(default_factory=list)
    arrived: int = 0
    wrong: list[str] = field(default_factory=list)


def disturb(cwd: Path, sweeps: Sequence[Sequence[Blow]], mark: str) -> Left:
    """Sweep in `cwd` until it is done: the first sweeps each with some blows in turn, the others without any."""
    left = Left()
    kept: dict[Path, bytes] = {}
    for blows in [*sweeps, *[()] * _MOST_RUNS]:
        with Driver(cwd, *GRID, "retry=killed,error", mark=mark) as driver:
            left.arrived += sum([_deal(driver, blow) for blow in blows])
            left.ends.append(driver.ended())
            _look_at_the_end(left, driver, mark)
        _look_at_the_rows(left, cwd / "run", kept)
        if not blows and left.ends[-1] == 0:
            left.wrong += _wrong_at_last(cwd / "run")
            return left
    left.wrong.append("it never comes to its end")
    return left


def _deal(driver: Driver, blow: Blow) -> bool:
    """Whether the target was there at that moment, or soon after it, before the sweep had ended."""
    run = driver.cwd / "run"
    enough = min(len(lines_of(run)) + blow.rows, ROWS)
    becomes_true(lambda: not driver.runs() or len(lines_of(run)) >= enough)
    time.sleep(blow.delay_s)
    becomes_true(lambda: not driver.runs() or driver.target(blow.target) is not None)
    process = driver.target(blow.target)
    try:
        if process is not None:
            process.send_signal(blow.number)
    except psutil.NoSuchProcess:
        return False
    return process is not None


def _look_at_the_end(left: Left, driver: Driver, mark: str) -> None:
    if left.ends[-1] not in ENDS:
        left.wrong.append(f"it ended with {left.ends[-1]}")
    if "Traceback" in driver.err or "Exception" in driver.err:
        left.wrong.append(driver.err)
    if left.ends[-1] == 2 and driver.err.count("\n") != 1:
        left.wrong.append(f"no line, or several, tell why it ended: {driver.err}")
    if not nothing_remains(mark):
        left.wrong.append("a process remains")


def _look_at_the_rows(left: Left, run: Path, kept: dict[Path, bytes]) -> None:
    """What earlier sweeps have written is there, to the byte."""
    left.wrong += [f"{path.name} is not what it was" for path, was in kept.items() if path.read_bytes() != was]
    kept.update({path: path.read_bytes() for path in (run / "rows").glob("*.jsonl")})


def _wrong_at_last(run: Path) -> list[str]:
    """What is not as if the sweep had never been disturbed."""
    summary = pd.read_csv(run / "summary.csv")
    found = Counter(zip(summary.impl, summary.seq_len, strict=True))
    wanted = {(impl, length) for impl in IMPLS for length in LENGTHS}
    wrong = [f"{name} is missing" for name in wanted - found.keys()]
    wrong += [f"{name} is none of the grid" for name in found.keys() - wanted]
    wrong += [f"{name} is there {times} times" for name, times in found.items() if times > 1]
    wrong += [f"{row.impl} n={row.seq_len} is {row.status}" for row in summary.itertuples() if row.status != "ok"]
    rows = [json.loads(line) for line in lines_of(run)]
    timed = Counter((row["key"], row["round"]) for row in rows if (row["purpose"], row["status"]) == ("time", "ok"))
    wrong += [f"round {number} of {key} was timed {times} times" for (key, number), times in timed.items() if times > 1]
    if len(timed) != CASES * ROUNDS:
        wrong.append(f"{len(timed)} rounds were timed, and not {CASES * ROUNDS}")
    facts = Counter(row["key"] for row in rows if (row["purpose"], row["status"]) == ("facts", "ok"))
    return wrong + [f"the facts of {key} were taken {times} times" for key, times in facts.items() if times > 1]
