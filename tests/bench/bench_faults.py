"""Whoever of a sweep's processes is ended, at whatever moment: what going on then leaves, counted.

    HARNESS_BENCH_FAULTS=50     so many of each of the six kinds: about a quarter of a minute each
    HARNESS_BENCH_SEED=0        of the moments

A fault is whatever `disturb` calls wrong: a case that is missing or there twice, a round that is timed twice, a row
that is lost, an end without a word, a traceback, a process that remains. There must be none.
"""

import os
import random
import sys
from collections import Counter
from pathlib import Path

from faults.disturbance import SIGNALS, TARGETS, Left, disturb, random_blow
from rich.console import Console
from rich.table import Table

EACH = int(os.environ.get("HARNESS_BENCH_FAULTS", "50"))
SEED = int(os.environ.get("HARNESS_BENCH_SEED", "0"))


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
            found: list[Left] = []
            for which in range(EACH):
                here = tmp_path / f"{number.name}-{target}-{which}"
                here.mkdir()
                blow = random_blow(draw, number, target)
                left = disturb(here, [[blow]], mark=str(here))
                found.append(left)
                for wrong in left.wrong:
                    faults.append(f"{blow}: {wrong}")
                    console.print(faults[-1], markup=False)
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


def _counted(numbers: list[int]) -> str:
    return ", ".join(f"{number}: {times} ×" for number, times in sorted(Counter(numbers).items()))
