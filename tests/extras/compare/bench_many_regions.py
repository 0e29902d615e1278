"""Comparisons of a layer whose parallel regions wait for every thread: forty linear layers with tanh.

    HARNESS_BENCH_ALIKE=10      comparisons of identical code, for each number of threads
    HARNESS_BENCH_PLANTED=5     … and of 10 % and of 5 % more work
    HARNESS_BENCH_THREADS=1,2

Each comparison has six cases, at d = 64 and 128 and n = 128, 256 and 512. It takes one to four minutes on two cores.
The table gives the verdicts, the wall time, the blocks that took over a second, the standard deviation of the log ratio
between blocks of a case, and how much longer calls take after the other side's turn than after their own.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

ALIKE = int(os.environ.get("HARNESS_BENCH_ALIKE", "10"))
PLANTED = int(os.environ.get("HARNESS_BENCH_PLANTED", "5"))
THREADS = os.environ.get("HARNESS_BENCH_THREADS", "1,2").split(",")
RUNS = {"Twin": ALIKE, "TenMore": PLANTED, "FiveMore": PLANTED}
GRID = ("seq_len=128,256,512", "d_model=64,128", "num_heads=4")
TESTS = Path(__file__).parents[2]


def test_comparisons_of_many_parallel_regions(tmp_path: Path) -> None:
    console = Console(width=150, file=sys.stdout)
    table = Table(title="six cases a comparison")
    headings = "threads", "head", "runs", "verdicts", "wall s", "blocks", "over 1 s", "sd of log ratio", "carry-over"
    for heading in headings:
        table.add_column(heading, justify="right")
    for threads in THREADS:
        for head, runs in RUNS.items():
            outs = [tmp_path / f"{head}-{threads}-{number}" for number in range(runs)]
            walls = [_compare(head, threads, out) for out in outs]
            if not outs:
                continue
            said = Counter(verdict for out in outs for verdict in pd.read_csv(out / "comparison.csv").verdict)
            rows = [row for out in outs for row in _blocks(out)]
            took_s = np.array([row["took_s"] for row in rows])
            carried = [log for row in rows for log in carry_over(row["order"], row["min_s"])]
            table.add_row(
                threads,
                head,
                str(runs),
                ", ".join(f"{number} {verdict}" for verdict, number in said.most_common()),
                f"{np.median(walls):.0f} ({min(walls):.0f} to {max(walls):.0f})",
                f"{len(rows)}, {np.median(took_s):.2f} s",
                f"{100 * np.mean(took_s > 1):.1f} %",
                f"{100 * _spread(rows):.1f} %",
                f"{100 * float(np.mean(carried)):+.1f} %",
            )
            console.print(f"{head}, threads={threads}: {dict(said)}, {[round(wall) for wall in walls]} s", markup=False)
    console.print(table)


# Turns come in patterns of four: ABBA or BAAB.
PATTERN = 4


def carry_over(order: str, seconds: list[float]) -> list[float]:
    """How much longer the calls of each side take after the other side's turn than after their own, as log ratios.

    `order` names the side of each turn of a block, and `seconds` its time. The layer is built anew before the first
    turn of a side in a pattern, so only its second turn counts: in ABBA, that of A follows B, and that of B follows B.
    The result is empty if all patterns of the block are the same, or the log ratio of the medians of each side.
    """
    log_ratios = []
    for side in "AB":
        times: dict[bool, list[float]] = {True: [], False: []}
        for at in range(1, len(order)):
            if order[at] == side and side in order[at - at % PATTERN : at]:
                times[order[at - 1] == side].append(seconds[at])
        if times[True] and times[False]:
            log_ratios.append(float(np.log(np.median(times[False]) / np.median(times[True]))))
    return log_ratios


def _compare(head: str, threads: str, out: Path) -> float:
    layers = f"impl=core.run.many_regions:Deep,core.run.many_regions:{head}"
    command = [sys.executable, "-m", "harness", "compare", layers, *GRID, f"threads={threads}", f"out={out}"]
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=TESTS, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=False
    )
    assert (out / "comparison.csv").exists(), done.stderr
    return time.monotonic() - began


def _blocks(out: Path) -> list[dict[str, Any]]:
    lines = (out / "blocks.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "log_ratio" in row]


def _spread(rows: list[dict[str, Any]]) -> float:
    """The standard deviation between blocks of one case: the root of the mean variance."""
    frame = pd.DataFrame(rows)
    return float(np.sqrt(frame.groupby(["base", "head", "control"]).log_ratio.var().mean()))
