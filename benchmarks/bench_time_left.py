"""How well a sweep knows how long it takes: the dry run's time and the time left, against what happened.

    .venv/bin/python benchmarks/bench_time_left.py [default|ladder|PAPER …]

Without arguments: the default sweep and every paper at scale=cpu. Each sweep writes to a temporary directory. A figure
is the expected total time over the actual one, at the beginning (`--dry-run`), and when a tenth, a quarter, a half and
three quarters of the time have passed.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
MOMENTS = (0.1, 0.25, 0.5, 0.75)
_DURATION = r"(\d+(?:\.\d+)?) (s|min|h)"
_LINE = re.compile(rf"^ *(\d+) s  \[.*?  {_DURATION} left")


def options(name: str) -> list[str]:
    """The overrides of a sweep by its name."""
    if name == "default":
        return []
    return ["preset=ladder"] if name == "ladder" else [f"paper={name}", "scale=cpu"]


def sweep(*arguments: str) -> tuple[str, float]:
    """What the command prints, and the seconds that it took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "harness", "sweep", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)
    return done.stdout, time.monotonic() - began


def expected_s(said: str) -> float:
    """The expected time in the output of a dry run."""
    found = re.search(rf"Expected time: {_DURATION}", said)
    if found is None:
        raise SystemExit(f"no expected time in: {said}")
    return float(found[1]) * UNITS[found[2]]


def totals(said: str) -> list[tuple[float, float]]:
    """The seconds passed, and the total time expected then, for each line of progress."""
    found = (_LINE.match(line) for line in said.splitlines())
    return [(float(one[1]), float(one[1]) + float(one[2]) * UNITS[one[3]]) for one in found if one]


def main(names: list[str]) -> None:
    """Print a row for each sweep."""
    table = Table("sweep", "expected", "took", "ratio", *(f"at {100 * moment:.0f} %" for moment in MOMENTS))
    for name in names or ["default", *sorted(path.stem for path in (ROOT / "conf/paper").glob("*.yaml"))]:
        with tempfile.TemporaryDirectory() as directory:
            expected = expected_s(sweep("--dry-run", *options(name))[0])
            said, took_s = sweep(*options(name), f"out={directory}/run")
        lines = totals(said)
        ratios = []
        for moment in MOMENTS:
            _, total = min(lines, key=lambda line: abs(line[0] - moment * took_s))
            ratios.append(f"{total / took_s:.2f}")
        table.add_row(name, f"{expected:.0f} s", f"{took_s:.0f} s", f"{expected / took_s:.2f}", *ratios)
        Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
