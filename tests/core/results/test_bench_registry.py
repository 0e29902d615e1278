"""What the benchmark over the registry leaves is read back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.results.stored_run import read_run_directory
from harness.study.laws.fitted_laws import fit_laws, laws_table

ROOT = Path(__file__).parents[3]
CHOSEN = {
    "HARNESS_BENCH_IMPLS": "rnn.torch,attention.fused,attention.flash_attn",
    "HARNESS_BENCH_SEQ_LENS": "16,32,64",
    "HARNESS_BENCH_CASE": "d_model=16 num_heads=2",
}
QUICK = ("--benchmark-min-rounds=3", "--benchmark-max-time=0.001", "--benchmark-min-time=0.000001")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench") / "layers.json"
    # Among xdist's workers pytest-benchmark measures nothing.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "benchmarks/bench_registry.py", "-rs"]
    done = subprocess.run(
        [*command, f"--benchmark-json={out}", *QUICK],
        cwd=ROOT,
        env={**alone, **CHOSEN},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed, 3 skipped" in done.stdout
    assert "computes on device=cuda alone" in done.stdout
    return out


def test_each_layer_and_length_is_a_case_with_its_exact_facts(file: Path) -> None:
    lines = read_run_directory(file).lines
    assert [(line.impl, line.seq_len) for line in lines] == [
        (impl, n) for impl in ("rnn.torch", "attention.fused") for n in (16, 32, 64)
    ]
    for line in lines:
        assert line.num_heads == (2 if line.impl == "attention.fused" else 1)
        assert line.trials == 1
        assert line.flops == line.flops_claimed
        assert None not in (line.peak_bytes, line.depth, line.ops)


def test_laws_are_found_in_it(file: Path) -> None:
    laws = laws_table(fit_laws(read_run_directory(file).lines))
    of_work = laws[laws.metric == "flops"].set_index("impl")
    # 4nd², and 8nd² + 4n²d at n = 64 and d = 16
    assert of_work.exponent_n["rnn.torch"] == pytest.approx(1.0)
    assert of_work.exponent_n["attention.fused"] == pytest.approx(5 / 3, abs=0.01)
    assert "time" in set(laws.metric)
