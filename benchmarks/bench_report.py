"""How long a run's rows take to be read and summarised, and the whole report to be made, and how much memory.

Of synthetic runs of ten thousand rows to a million, and of a run of usual size. Each is done by a process of its own,
from the start of the interpreter to its end; its memory is the peak resident size, that of its largest helper beside
it. With ten times the rows, by ten times the cases, the time should grow tenfold at most.

    HARNESS_BENCH_MOST_ROWS=1000000    leave larger runs out (a million rows take 1.5 GB of disk, and 90 s to make)
    HARNESS_BENCH_RUN=results/latest   the run of usual size
"""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.synthetic_run import Shape, write_run

MOST_ROWS = int(os.environ.get("HARNESS_BENCH_MOST_ROWS", "1000000"))
USUAL = Path(os.environ.get("HARNESS_BENCH_RUN", "results/latest"))
GROWING = (Shape(20, 500), Shape(200, 500), Shape(2_000, 500))
OTHERS = (Shape(100, 10_000), Shape(20_000, 50), Shape(100_000, 10))
LONGEST_S = 900.0

_SUMMARISE = """
from harness.core.config import compose
from harness.core.results.summarise import summarise_run
summarise_run(run, compose(["precision=strict"]).precision)
"""
_REPORT = """
from harness.study.report.build import build
from harness.study.report.background_plots import BackgroundPlots
with BackgroundPlots() as drawing:
    build(run, drawing)
"""
_PROGRAM = """
import resource, sys
from pathlib import Path
run = Path(sys.argv[1])
{work}
print(*(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
"""


@dataclass(frozen=True)
class Cost:
    """Wall seconds, and MiB of the process and of the largest of its helpers."""

    wall_s: float
    own_mib: float
    helper_mib: float

    def __str__(self) -> str:
        return f"{self.wall_s:7.1f} s   {self.own_mib:6,.0f} + {self.helper_mib:4,.0f} MiB"


def cost(work: str, run: Path) -> Cost | None:
    """What the work costs on this run; None where it takes longer than anybody would wait."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM.format(work=work), run],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        return None
    wall_s = time.monotonic() - began
    own_kib, helper_kib = map(int, done.stdout.split()[-2:])
    return Cost(wall_s, own_kib / 1024, helper_kib / 1024)


def test_growing_runs(tmp_path: Path) -> None:
    print("\ncases × trials       read and summarised                     the whole report")
    before: list[Cost | None] = [None, None]
    for shape in GROWING:
        if shape.cases * shape.trials > MOST_ROWS:
            continue
        run = tmp_path / "run"
        write_run(run, shape)
        costs = [cost(work, run) for work in (_SUMMARISE, _REPORT)]
        print(f"{shape!s:<18}" + "".join(map(_told, costs, before)))
        before = costs
        shutil.rmtree(run)
    print("to be reached at 2,000 × 500: 12 s and 1 GiB; the whole report 20 s and 2 GiB")


def test_other_shapes(tmp_path: Path) -> None:
    print("\ncases × trials       read and summarised")
    for shape in OTHERS:
        if shape.cases * shape.trials > MOST_ROWS:
            continue
        run = tmp_path / "run"
        write_run(run, shape)
        print(f"{shape!s:<18}" + _told(cost(_SUMMARISE, run), None))
        shutil.rmtree(run)


def test_a_run_of_usual_size(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(USUAL, run)
    rows = sum(path.read_bytes().count(b"\n") for path in (run / "rows").glob("*.jsonl"))
    print(f"\n{USUAL}, {rows:,} rows: the whole report {_told(cost(_REPORT, run), None).strip()}")


def _told(found: Cost | None, before: Cost | None) -> str:
    if found is None:
        return f"{f'more than {LONGEST_S:g} s':>38}"
    growth = f"× {found.wall_s / before.wall_s:4.1f}" if before else ""
    return f"{found!s:>32}{growth:>8}"
