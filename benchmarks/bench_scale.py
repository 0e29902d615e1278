"""What the driver itself costs a case, of a hundred cases to ten thousand, and how much memory: of a no-op layer.

Each sweep is a process of its own. Its own cost is the wall time from the first trial to the end of the last round less
the trials themselves: choosing, judging, writing each row to disk. Before it comes what a sweep costs before its first
trial, which includes its imports; and then the same command again, on the finished run: how long until it knows that
nothing is missing. Rows go to memory where there is a tmpfs: how long a disk takes to have a row is no matter of the
driver's. The report is not in it: `bench_report.py` measures that. To be reached: a cost per case at 10,000 like that
at 100, of which what does not grow with the cases is a part, and less than 500 MiB.

    HARNESS_BENCH_SCALE=100,1000,10000      sweeps of which trials are only pretended
    HARNESS_BENCH_SCALE_REAL=100,1000       … and are real: a tenth of a second or two a case
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

TESTS = Path(__file__).resolve().parents[1] / "tests"
MEMORY = Path("/dev/shm")
SIZES = {
    "pretended": os.environ.get("HARNESS_BENCH_SCALE", "100,1000,10000"),
    "real": os.environ.get("HARNESS_BENCH_SCALE_REAL", "100,1000"),
}
HEADINGS = (
    *("cases", "trials", "before the\nfirst trial", "wall time\nin all", "own cost\na case", "over that\nof the first"),
    *("peak\nmemory", "nothing missing:\nknown after", "peak\nmemory"),
)


@dataclass(frozen=True)
class Cost:
    """What a process has said of its sweep: seconds, and MiB."""

    wall_s: float
    first_s: float
    inside_s: float
    trials: int
    peak_mib: float

    def own_s(self, cases: int) -> float:
        """The driver's own seconds a case, from its first trial on."""
        return (self.wall_s - self.first_s - self.inside_s) / cases


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else tmp_path) as name:
        yield Path(name)


@pytest.mark.parametrize("trials", SIZES)
def test_scale(trials: str, scratch: Path) -> None:
    console, table = Console(width=120), Table(*HEADINGS, title=f"{trials} trials")
    first: float | None = None
    for cases in map(int, SIZES[trials].split(",")):
        out = scratch / f"{cases}"
        done, again = (_swept(cases, trials, out) for _ in range(2))
        assert again.trials == 0
        own_s = done.own_s(cases)
        first = first or own_s
        table.add_row(
            *(f"{cases:,}", f"{done.trials:,}", f"{done.first_s:.1f} s", f"{done.wall_s:.1f} s"),
            *(f"{1e3 * own_s:.2f} ms", f"× {own_s / first:.2f}", f"{done.peak_mib:.0f} MiB"),
            *(f"{again.wall_s:.1f} s", f"{again.peak_mib:.0f} MiB"),
        )
        print(f"{cases:,} cases done", flush=True)
    console.print(table)


def _swept(cases: int, trials: str, out: Path) -> Cost:
    command = [sys.executable, "-m", "bench.scale_process", f"{cases}", trials, f"{out}"]
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    done = subprocess.run(command, env=environment, cwd=out.parent, check=True, stdout=subprocess.PIPE, text=True)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert said.pop("status") == 0
    return Cost(**said)
