"""Whoever of a sweep's processes is ended, at whatever moment: what going on then leaves, counted.

    HARNESS_BENCH_FAULTS=50     so many of each of the six kinds: about a quarter of a minute each
    HARNESS_BENCH_SEED=0        of the moments
    HARNESS_BENCH_AT_ONCE=2     so many sweeps at a time, each in a directory of its own

A fault is whatever `disturb` calls wrong: a case that is missing or there twice, a round that is timed twice, a row
that is lost, an end without a word, a traceback, a process that remains. There must be none.
"""

import os
import random
import shutil
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults.disturbance import SIGNALS, TARGETS, Blow, Left, disturb, random_blow
from rich.console import Console
from rich.table import Table

EACH = int(os.environ.get("HARNESS_BENCH_FAULTS", "50"))
SEED = int(os.environ.get("HARNESS_BENCH_SEED", "0"))
AT_ONCE = int(os.environ.get("HARNESS_BENCH_AT_ONCE", "1"))


def test_sweeps_go_on_after_any_end(tmp_path: Path) -> None:
    console = Console(width=120, file=sys.stdout)
    table = Table(title=f"{EACH} sweeps of each kind, disturbed once and gone on with; seed {SEED}")
    for heading in ("signal", "to", "sweeps", "arrived", "the disturbed sweep's exit status", "sweeps until done"):
        table.add_column(heading, overflow="fold")
    table.add_column("faults", justify="right")
    faults = []
    for number in SIGNALS:
        for target in TARGETS:
            draw = random.Random(f"{SEED} {number.name} {target}")
            blows = [random_blow(draw, number, target) for _ in range(EACH)]
            places = [tmp_path / f"{number.name}-{target}-{which}" for which in range(EACH)]
            found: list[Left] = []
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for blow, left in zip(blows, pool.map(_disturbed, places, blows), strict=True):
                    found.append(left)
                    for wrong in left.wrong:
                        faults.append(f"{blow}: {wrong}")
                        console.print(faults[-1], markup=False)
            console.print(f"{number.name} to the {target}: {len(found)} sweeps", markup=False)
            table.add_row(
                number.name,
                target,
                str(len(found)),
                str(sum(left.arrived for left in found)),
                _counted([left.ends[0] for left in found]),
                _counted([len(left.ends) for left in found]),
                str(sum(bool(left.wrong) for left in found)),
            )
    console.print(table, markup=False)
    assert faults == []


def _disturbed(here: Path, blow: Blow) -> Left:
    here.mkdir()
    left = disturb(here, [[blow]], mark=str(here))
    shutil.rmtree(here)
    return left


def _counted(numbers: list[int]) -> str:
    return ", ".join(f"{number}: {times} ×" for number, times in sorted(Counter(numbers).items()))
