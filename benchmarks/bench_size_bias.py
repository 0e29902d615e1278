"""Whether long calls look dearer or cheaper than short ones: the exponent of a layer whose cost is proportional to n.

HARNESS_BENCH_REPEATS=8    sweeps of n = 64 … 2048, with the default precision
"""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

REPEATS = int(os.environ.get("HARNESS_BENCH_REPEATS", "8"))
LENGTHS = (64, 128, 256, 512, 1024, 2048)
_TESTS = Path(__file__).parents[1] / "tests"


def test_size_bias(tmp_path: Path) -> None:
    logs = np.array([_log_times(tmp_path / str(repeat)) for repeat in range(REPEATS)])
    per_token = logs - np.log(LENGTHS)
    slopes = np.polyfit(np.log2(LENGTHS), per_token.T, 1)[0]
    error = slopes.std(ddof=1) / np.sqrt(REPEATS)
    print(
        f"\n{REPEATS} sweeps: a doubling of n changes the time of a token by {100 * slopes.mean():+.2f} %, "
        f"± {196 * error:.2f} %"
    )
    for n, shift in zip(LENGTHS, per_token.mean(axis=0) - per_token.mean(), strict=True):
        print(f"n = {n:5}: {100 * shift:+.2f} % from the mean of all n")


def _log_times(out: Path) -> np.ndarray:
    axes = [f"seq_len={','.join(map(str, LENGTHS))}", "d_model=8", "num_heads=1"]
    command = [
        sys.executable,
        "-m",
        "harness",
        "sweep",
        "impl=known_cost.layers:MultipliesForEachToken",
        *axes,
        f"out={out}",
    ]
    paths = os.pathsep.join([str(_TESTS), str(_TESTS.parent), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": paths})
    with (out / "summary.csv").open() as file:
        times = {int(row["seq_len"]): float(row["time_s"]) for row in csv.DictReader(file)}
    return np.log([times[n] for n in LENGTHS])
