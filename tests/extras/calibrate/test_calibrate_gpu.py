"""`calibrate` with device=cuda, on a simulated GPU of which the peaks are known."""

import json
from pathlib import Path
from typing import Any

import pytest
from simulated_cuda.commands import ONE_THREAD, STEADY, TWO_ROUNDS, harness, on_simulated_gpu

from harness.core.model.gpus import borrowed_because

PEAKS = {"float64": 1e8, "float32": 5e8, "bfloat16": 1e11, "float16": 1e11}
GPU: dict[str, Any] = {
    **STEADY,
    "flops_per_s": PEAKS,
    "memory_bytes": 2**27,
    "hardware": {"lazy_s": 0.5, "bytes_per_s": 2e8},  # the first call of each kernel takes longer than the budget
}
POWER_CAP = {"sustained_hz": 0.75 * 1.98e9, "tau_s": 0.05}
GRID = ("impl=attention.fused", "seq_len=16", "d_model=16", "num_heads=2", "batch_size=1", "device=cuda", ONE_THREAD)


@pytest.mark.slow
def test_peaks_are_those_of_the_gpu_although_its_kernels_take_half_a_second_to_load(tmp_path: Path) -> None:
    ended = harness("calibrate", *GRID, *TWO_ROUNDS, "out=found.json", cwd=tmp_path, settings=GPU)
    assert (ended.status, ended.err) == (0, ""), ended.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["peak_flops_per_s"] == pytest.approx(PEAKS, rel=0.03)
    assert found["bandwidth_bytes_per_s"] == pytest.approx(2e8, rel=0.03)
    # This clock does not fall under load.
    assert found["sustained_flops_per_s"] == pytest.approx(PEAKS, rel=0.03)
    assert found["bandwidth"]["sustained_bytes_per_s"] == pytest.approx(2e8, rel=0.03)
    assert ended.out.count("sustained") == len(PEAKS) + 1
    out = " ".join(ended.out.split())
    assert "The GPU's clock rate is not locked" in out
    # Without NVML, its highest rate is unknown.
    assert ("sudo nvidia-smi -lgc MHZ" in out) == (borrowed_because() is None)


TAKE_PEAKS = """
import json
from harness.core.model.sweep_axes import Case
from harness.core.trial.peak_rates import take_bandwidth, take_flops
case = Case("attention.fused", 1, 1, 1, dtype="bfloat16", device="cuda")
flops = take_flops(case, 0.2, None, with_sustained=True)
print(json.dumps({**flops, **take_bandwidth(case, 0.05, None, with_sustained=True)}))
"""


@pytest.mark.slow
def test_a_sustained_peak_is_that_under_the_power_cap_and_memory_keeps_its_rate(tmp_path: Path) -> None:
    capped = {**GPU, "spread": 0.0, "clock": POWER_CAP}
    ended = on_simulated_gpu("-c", TAKE_PEAKS, cwd=tmp_path, settings=capped)
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    assert found["sustained_flops_per_s"] == pytest.approx(0.75 * PEAKS["bfloat16"], rel=0.03)
    assert found["sustained_bytes_per_s"] == pytest.approx(2e8, rel=0.03)
