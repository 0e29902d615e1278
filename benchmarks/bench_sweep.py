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
    counted = [row for row in rows if row["purpose"] == "facts"]
    facts = sum(row["wall_s"] for row in counted)
    accuracy = sum(row["accuracy_s"] for row in counted if row["status"] == "ok")
    stops = Counter(pd.read_csv(tmp_path / "run" / "summary.csv").stop_reason)
    print(f"\nwall time {wall:.1f} s (to be reached: at most 90)")
    print(f"inside sampling {sampling:.1f} s, {100 * sampling / wall:.0f} % (to be reached: at least 60 %)")
    print(f"warm-up calls {warm_up:.1f} s, facts {facts:.1f} s, {len(timed)} timed trials, stops {dict(stops)}")
    print(f"errors against float64 {accuracy:.1f} s, {100 * accuracy / wall:.0f} % (to be reached: at most 10 %)")
    print(
        f"a trial's own cost beyond samples and warm-up: median {1e3 * statistics.median(own):.1f} ms, "
        f"mean {1e3 * statistics.mean(own):.1f} ms (to be reached: at most 30); "
        f"warm-up beside it: median {1e3 * statistics.median(row['warmup_s'] for row in timed):.1f} ms"
    )


_REPEATS = Path(__file__).parents[1] / "tests" / "own_layer" / "repeats.py"
# As many cases of the same average cost, each verified by itself: lengths, an own axis, and an option without a letter.
_AXES = {
    "16 lengths": ("seq_len=" + ",".join(map(str, range(16, 257, 16))), "layer.times=8"),
    "16 values of an own axis": ("seq_len=128", "layer.times=" + ",".join(map(str, range(1, 17)))),
    "16 values of an option": ("seq_len=128", "layer.times=1", "layer.rounds=" + ",".join(map(str, range(1, 17)))),
}
_QUICK = ("precision.trial_s=0.01", "precision.min_rounds=2", "precision.max_rounds=2", "precision.patience_s=0")


def test_an_axis_of_its_own_adds_little_to_the_wall_time(tmp_path: Path) -> None:
    walls: dict[str, list[float]] = {name: [] for name in _AXES}
    for again in range(3):
        for name, axes in _AXES.items():
            out = tmp_path / f"{name}{again}"
            command = ["sweep", f"impl={_REPEATS}:Repeats", "d_model=128", "num_heads=1", "threads=1", "--no-plots"]
            began = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "harness", *command, *_QUICK, *axes, f"out={out}"], capture_output=True
            )
            walls[name].append(time.monotonic() - began)
            assert done.returncode == 0, done.stderr.decode()
            rows = [json.loads(line) for path in (out / "rows").iterdir() for line in path.read_text().splitlines()]
            trials = Counter(row["purpose"] for row in rows)
            seconds = {one: sum(row["wall_s"] for row in rows if row["purpose"] == one) for one in trials}
            parts = ", ".join(f"{number} {one} {seconds[one]:.1f} s" for one, number in trials.items())
            print(f"{name}: {walls[name][-1]:.1f} s: {parts}")
    medians = {name: statistics.median(found) for name, found in walls.items()}
    lengths, own, option = medians.values()
    print(f"own axis over lengths {own / lengths:.3f}, over an option {own / option:.3f} (to be reached: at most 1.05)")
