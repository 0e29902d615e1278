"""A random walk over the table of faults: small sweeps are disturbed, continued, and checked after every sweep.

    HARNESS_BENCH_FAULTS=500    the number of faults: half an hour on two cores, two walks at a time
    HARNESS_BENCH_MINUTES=30    … or go on for so long
    HARNESS_BENCH_SEED=0        draws the faults, the layers and the moments
    HARNESS_BENCH_AT_ONCE=2     walks at a time, each in a directory of its own
    HARNESS_BENCH_STEP=17       repeat this walk of the seed alone

A walk deals one to three faults to each of four sweeps of one run, and then sweeps without any until the run is done.
What must hold after every sweep is in `faults.invariants`. A seed repeats faults, and moments nearly.
"""

import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from core.faults.walk import Walk, random_walk
from rich.console import Console
from rich.table import Table

SEED = os.environ.get("HARNESS_BENCH_SEED", "0")
AT_ONCE = int(os.environ.get("HARNESS_BENCH_AT_ONCE", "1"))
MINUTES = float(os.environ.get("HARNESS_BENCH_MINUTES", "inf"))
FAULTS = int(os.environ.get("HARNESS_BENCH_FAULTS", "50" if math.inf == MINUTES else str(sys.maxsize)))
STEP = os.environ.get("HARNESS_BENCH_STEP")


@dataclass
class Kind:
    """What came of all faults of one kind."""

    dealt: int = 0
    arrived: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    until_done: Counter[int] = field(default_factory=Counter)
    violations: int = 0


def test_every_case_is_finished_or_says_why_whatever_happens(tmp_path: Path) -> None:
    console = Console(width=140, file=sys.stdout)
    kinds: dict[str, Kind] = {}
    violations = []
    dealt = sweeps = walks = 0
    for step, walked in _walks(tmp_path):
        dealt, sweeps, walks = dealt + walked.dealt, sweeps + len(walked.sweeps), walks + 1
        _count(walked, kinds)
        for wrong in walked.wrong:
            violations.append(f"seed {SEED} step {step}: {wrong}")
            console.print(violations[-1], markup=False, soft_wrap=True)
        console.print(f"step {step}: {dealt} faults dealt, {len(violations)} violations", markup=False)
    console.print(_table(kinds, f"{dealt} faults, {sweeps} sweeps of {walks} runs; seed {SEED}"), markup=False)
    assert violations == []


def _walks(here: Path) -> Iterator[tuple[int, Walk]]:
    """Walks, as they end, until enough faults were dealt or the time is up."""
    end = time.monotonic() + 60 * MINUTES
    steps = iter([int(STEP)]) if STEP else count()
    dealt = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running: dict[Future[Walk], int] = {}
        while True:
            while len(running) < AT_ONCE and dealt < FAULTS and time.monotonic() < end:
                step = next(steps, None)
                if step is None:
                    break
                running[pool.submit(_walk, here / str(step), f"{SEED} {step}")] = step
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                dealt += done.result().dealt
                yield running.pop(done), done.result()


def _walk(here: Path, seed: str) -> Walk:
    walked = random_walk(here, seed)
    shutil.rmtree(here)
    return walked


def _count(walked: Walk, kinds: dict[str, Kind]) -> None:
    for swept in walked.sweeps:
        end = "none" if swept.end is None else str(swept.end)
        for fault in swept.dealt:
            kind = kinds.setdefault(fault.kind, Kind())
            kind.dealt += 1
            kind.violations += bool(swept.wrong)
            if fault.name in swept.arrived:
                kind.arrived += 1
                kind.ends[end] += 1
                kind.until_done[walked.until_done] += 1
    last = walked.sweeps[-1]
    for name in [*["hostile layers"] * len(walked.layers), *["little memory"] * walked.memory_limited]:
        kind = kinds.setdefault(name, Kind())
        kind.dealt += 1
        kind.arrived += 1
        kind.ends[str(last.end)] += 1
        kind.until_done[walked.until_done] += 1
        kind.violations += bool(last.wrong)


def _table(kinds: dict[str, Kind], title: str) -> Table:
    table = Table(title=title)
    for heading in ("kind of fault", "dealt", "arrived", "exit status of the disturbed sweep", "sweeps until done"):
        table.add_column(heading, overflow="fold")
    table.add_column("sweeps with a violation", justify="right")
    for name, kind in sorted(kinds.items()):
        numbers = (_counted(kind.ends), _counted(kind.until_done), str(kind.violations))
        table.add_row(name, str(kind.dealt), str(kind.arrived), *numbers)
    return table


def _counted(numbers: Counter) -> str:
    return ", ".join(f"{number}: {times} ×" for number, times in sorted(numbers.items()))
