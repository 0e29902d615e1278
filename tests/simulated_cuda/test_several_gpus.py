"""A sweep on several simulated GPUs of one machine, which CUDA numbers in another order than NVML."""

import json
from pathlib import Path

import pytest
from gpu_evidence import guards, runner
from simulated_cuda.commands import NO_PLOTS, STEADY, harness

FIRST, SECOND = "b2000000-0000-4000-8000-000000000002", "a1000000-0000-4000-8000-000000000001"
GPUS = {**STEADY, "nvml": True, "power_limits_w": {FIRST: 500.0, SECOND: 700.0}}
GRID = ("impl=attention.fused", "seq_len=16", "d_model=16", "num_heads=2", "batch_size=1", "threads=1", "out=run")
ONE_ROUND = ("precision.min_rounds=1", "precision.max_rounds=1", "precision.patience_s=0", "precision.trial_s=0.01")


@pytest.mark.slow
def test_shards_measure_on_a_gpu_each_and_the_run_has_the_state_of_both(tmp_path: Path) -> None:
    shards = ("device=cuda", "mode=forward,train", "launcher=processes", "launcher.array_parallelism=2")
    ended = harness("sweep", *GRID, *ONE_ROUND, *shards, NO_PLOTS, cwd=tmp_path, settings=GPUS)
    assert (ended.status, ended.err) == (0, ""), ended.out
    found = {}
    for file in (tmp_path / "run" / "machines").iterdir():
        machine = json.loads(file.read_text())
        ((uuid, state),) = machine["torch"]["gpu_states"].items()
        assert machine["environment"]["CUDA_VISIBLE_DEVICES"] == uuid
        found[uuid] = state["power_limit_w"]
    assert found == {f"GPU-{FIRST}": 500.0, f"GPU-{SECOND}": 700.0}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "its GPUs differ (GPU power limit of GPU-b2000000 700 W and 500 W)" in page
    assert "driver 1.0 (simulated), power limit 700 W, power limit 500 W" in page


def test_a_gpu_has_the_same_properties_in_every_process(tmp_path: Path) -> None:
    found = guards._gpu_here(tmp_path / "card.tmp", runner.environment(rehearse=True))
    assert "clock_rate=1980000" in found["properties"]
