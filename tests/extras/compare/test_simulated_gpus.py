"""`compare` with device=cuda, of two simulated GPUs that differ by a known share."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import pytest
from simulated_cuda.commands import GPU, ONE_THREAD, harness, true_costs

from harness.core.model.sweep_axes import Case

CASE = Case("attention.naive", 32, 16, 2, device="cuda")
GRID = ("impl=attention.naive", "seq_len=32", "d_model=16", "num_heads=2", "batch_size=1", "device=cuda", ONE_THREAD)
# All arrays of a call fit into its cache. In a full one, hot times depend on the blocks that the allocator had left.
ROOMY: dict[str, Any] = {**GPU, "hardware": {**GPU["hardware"], "l2_bytes": 2**18}}
pytestmark = pytest.mark.slow


def test_a_gpu_that_is_a_twentieth_slower_is_found_with_its_true_ratio(tmp_path: Path) -> None:
    slower = {**ROOMY, "slower": 0.05}
    (tmp_path / "head.json").write_text(json.dumps(slower))
    sides = ("side=", f"side=env.HARNESS_SIMULATED_CUDA={tmp_path / 'head.json'}")
    ended = harness("compare", *GRID, *sides, "out=run", cwd=tmp_path, settings=ROOMY)
    assert (ended.status, ended.err) == (1, ""), ended.out
    (row,) = pd.read_csv(tmp_path / "run" / "comparison.csv").itertuples()
    assert (row.verdict, row.control) == ("slower", "held")
    base_s, head_s = (true_costs([CASE], tmp_path, settings)[0]["hot_s"] for settings in (ROOMY, slower))
    assert row.ratio == pytest.approx(head_s / base_s, rel=0.003)
    # The control is the base beside itself.
    blocks = map(json.loads, (tmp_path / "run" / "blocks.jsonl").read_text().splitlines())
    alike = [block["log_ratio"] for block in blocks if block.get("control")]
    assert len(alike) >= 16
    assert abs(median(alike)) < 0.001
