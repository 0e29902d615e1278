"""`calibrate` with device=cuda, on a simulated GPU of which the peaks are known."""

import json
from pathlib import Path
from typing import Any

import pytest
from simulated_cuda.commands import STEADY, TWO_ROUNDS, harness

PEAKS = {"float64": 1e8, "float32": 5e8, "bfloat16": 1e11, "float16": 1e11}
GPU: dict[str, Any] = {
    **STEADY,
    "flops_per_s": PEAKS,
    "memory_bytes": 2**27,
    "hardware": {"lazy_s": 0.5, "bytes_per_s": 2e8},  # the first call of each kernel takes longer than the budget
}
GRID = ("impl=attention.fused", "seq_len=16", "d_model=16", "num_heads=2", "batch_size=1", "device=cuda")


@pytest.mark.slow
def test_peaks_are_those_of_the_gpu_although_its_kernels_take_half_a_second_to_load(tmp_path: Path) -> None:
    ended = harness("calibrate", *GRID, *TWO_ROUNDS, "out=found.json", cwd=tmp_path, settings=GPU)
    assert (ended.status, ended.err) == (0, ""), ended.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["peak_flops_per_s"] == pytest.approx(PEAKS, rel=0.03)
    assert found["bandwidth_bytes_per_s"] == pytest.approx(2e8, rel=0.03)
