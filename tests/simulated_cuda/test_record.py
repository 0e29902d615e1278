"""Whole commands on simulated GPUs that cost what a record says: one of an older GPU, and those of real GPUs."""

import math
from pathlib import Path

import pandas as pd
import pytest
from core.trial.timing.cuda.gpus import OLDER, write_record
from core.trial.timing.cuda.records import read, recorded_files
from core.trial.timing.cuda.simulated_gpu import STALLED, SimClock, SimGpu
from simulated_cuda.commands import NO_PLOTS, ONE_THREAD, STEADY, TWO_ROUNDS, harness, true_costs
from simulated_cuda.process import HARDWARE, Settings

from harness.core.model.sweep_axes import Case

CASE = Case("rnn.elman", 32, 16, 1, device="cuda")
GRID = ("impl=rnn.elman", "seq_len=32", "d_model=16", "num_heads=1", "batch_size=1", "device=cuda", ONE_THREAD)


@pytest.fixture(scope="module")
def of_older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the recorder writes of an older GPU."""
    gpu, path = SimGpu(**OLDER, depth=600, clock=SimClock(1.41e9, 1.38e9)), tmp_path_factory.mktemp("record") / "older"
    write_record(gpu, path)
    return path


def test_a_gpu_has_the_recorded_costs_but_the_slow_memory_that_a_cpu_can_compute_for(of_older: Path) -> None:
    gpu = Settings(record=str(of_older), spread=0.0).made()
    assert gpu.depth == pytest.approx(600, abs=3)
    assert (gpu.tick_s, gpu.clock.boost_hz) == pytest.approx((1.024e-6, 1.41e9), rel=0.01)
    assert (gpu.l2.size, gpu.bytes_per_s) == (HARDWARE["l2_bytes"], HARDWARE["bytes_per_s"])
    changed = Settings(record=str(of_older), hardware={"depth": 7}, clock={"boost_hz": 1e9}, spread=0.0).made()
    assert (changed.depth, changed.clock.boost_hz) == (7, 1e9)


@pytest.mark.parametrize("name", ["older", *recorded_files()])
def test_a_sweep_has_true_times_whatever_launches_and_events_cost(of_older: Path, name: str, tmp_path: Path) -> None:
    path = recorded_files().get(name, of_older)
    settings, recorded = {**STEADY, "record": str(path)}, read(path)
    ended = harness("sweep", *GRID, *TWO_ROUNDS, NO_PLOTS, "out=run", cwd=tmp_path, settings=settings)
    assert (ended.status, ended.err) == (0, ""), ended.out
    (row,) = pd.read_csv(tmp_path / "run" / "summary.csv").itertuples()
    (true,) = true_costs([CASE], tmp_path, settings)
    assert row.time_s == pytest.approx(true["cold_s"], rel=0.01)
    assert row.hot_gpu_s == pytest.approx(true["hot_s"], rel=0.01)
    # Jitter and stalls only add to it. A call has few stalls, so their number may be far from its mean.
    usual_s, stalls = true["launches"] * recorded["launch_s"], STALLED * true["launches"]
    scatter = 1 + 3 * recorded["jitter"] / math.sqrt(true["launches"])  # of the mean of so many launches
    most_s = scatter * usual_s * math.exp(recorded["jitter"] ** 2 / 2) + recorded["stall_s"] * (
        stalls + math.sqrt(stalls)
    )
    assert usual_s < row.host_s < most_s
