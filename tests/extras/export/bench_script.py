"""How much the ratio of two layers' times scatters: by short sweeps, and by one exported script run as often.

    python -m pytest -s tests/extras/export/bench_script.py

Sweeps and runs of the script take turns, so both meet the same state of the machine. HARNESS_BENCH_TURNS is how often
(6).
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pandas as pd
from rich.console import Console
from rich.table import Table

TURNS = int(os.environ.get("HARNESS_BENCH_TURNS", "6"))
FIRST, SECOND = "attention.fused", "attention.naive"
CHOSEN = ("--case", FIRST, "--case", SECOND)
GRID = (f"impl={FIRST},{SECOND}", "seq_len=512", "d_model=256", "num_heads=4", "threads=1", "--no-plots")


def test_ratios_of_sweeps_and_of_a_script(tmp_path: Path) -> None:
    ratios: dict[str, list[float]] = {"sweeps": [], "runs of one script": []}
    held = 0
    intervals: list[tuple[float, float]] = []
    for turn in range(TURNS):
        run = f"run{turn}"
        _python(tmp_path, "-m", "harness", "sweep", *GRID, f"out={run}")
        times = pd.read_csv(tmp_path / run / "summary.csv").set_index("impl")
        first, second = times.loc[FIRST], times.loc[SECOND]
        ratios["sweeps"].append(first.time_s / second.time_s)
        intervals.append((first.time_lo_s / second.time_hi_s, first.time_hi_s / second.time_lo_s))
        if turn == 0:
            _python(tmp_path, "-m", "harness", "export", run, *CHOSEN, "--format", "script", "-o", "script.py")
        told = re.search(r"^ratio: ([\d.]+)", _python(tmp_path, "script.py"), re.MULTILINE)
        assert told is not None
        ratios["runs of one script"].append(float(told[1]))
    usual = median(ratios["sweeps"])
    held = sum(lo <= usual <= hi for lo, hi in intervals)
    table = Table(title=f"Time of {FIRST} over that of {SECOND}, n = 512, d = 256, one thread", title_justify="left")
    for heading in ("by", "least", "median", "largest", "largest / least"):
        table.add_column(heading, justify="left" if heading == "by" else "right")
    for way, found in ratios.items():
        figures = (min(found), median(found), max(found), max(found) / min(found))
        table.add_row(f"{TURNS} {way}", *(f"{figure:.3f}" for figure in figures))
    Console(width=110).print(table)
    print(f"intervals of sweeps that hold the median ratio: {held} of {TURNS}")


def _python(cwd: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
