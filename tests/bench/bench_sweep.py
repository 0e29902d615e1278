"""The default sweep as a user runs it: wall time, share of it inside sampling, and what a trial costs by itself."""

import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd


def test_default_sweep(tmp_path: Path) -> None:
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "harness", "sweep", f"out={tmp_path / 'run'}"], check=True)
    wall = time.monotonic() - began
    rows = [
        json.loads(line) for path in (tmp_path / "run" / "rows").iterdir() for line in path.read_text().splitlines()
    ]
    timed = [row for row in rows if row["purpose"] == "time" and row["status"] == "ok"]
    sampling = sum(row["sampling_s"] for row in timed)
    warm_up = sum(row["warmup_s"] for row in timed)
    own = [row["wall_s"] - row["sampling_s"] - row["warmup_s"] for row in timed]
    facts = sum(row["wall_s"] for row in rows if row["purpose"] == "facts")
    stops = Counter(pd.read_csv(tmp_path / "run" / "summary.csv").stop_reason)
    print(f"\nwall time {wall:.1f} s (to be reached: at most 90)")
    print(f"inside sampling {sampling:.1f} s, {100 * sampling / wall:.0f} % (to be reached: at least 60 %)")
    print(f"warm-up calls {warm_up:.1f} s, facts {facts:.1f} s, {len(timed)} timed trials, stops {dict(stops)}")
    print(
        f"a trial's own cost beyond samples and warm-up: median {1e3 * statistics.median(own):.1f} ms, "
        f"mean {1e3 * statistics.mean(own):.1f} ms (to be reached: at most 30); "
        f"warm-up beside it: median {1e3 * statistics.median(row['warmup_s'] for row in timed):.1f} ms"
    )
