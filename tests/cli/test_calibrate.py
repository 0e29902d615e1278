"""`calibrate` as a user runs it, with a budget of seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.calibration import record
from harness.cli.commands import main

TINY = ["seq_len=16", "d_model=16", "num_heads=2", "precision.trial_s=0.01", "precision.max_rounds=2"]
TINY += ["precision.min_rounds=2", "precision.patience_s=0.1", "memory_limit=512MiB", "threads=1"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_saved_and_goes_with_later_sweeps_of_the_same_threads(elsewhere: Path, capsys) -> None:
    assert main(["calibrate", "impl=rnn.torch,attention.fused", *TINY]) == 0
    out = capsys.readouterr().out
    assert "noise floor, precision=quick, changed" in " ".join(out.split())
    assert "results/calibration.json: took" in out
    made = record.load_calibration(elsewhere / "results" / "calibration.json")[1]
    assert made.noise.ratios == 2 * 3 * 3
    assert made.noise.floor > 0
    assert 0 < made.clock_s < 1e-3
    assert set(made.peak_flops_per_s) == {"float32", "bfloat16", "float16", "float64"}
    assert made.bandwidth["bandwidth_bytes_per_s"] > 0
    assert (made.threads, made.device, made.failures) == (1, "cpu", ())

    assert main(["sweep", "impl=rnn.torch", *TINY, "out=same", "--no-plots"]) == 0
    machine = json.loads(Path("same/machine.json").read_text())
    assert machine["calibration"]["noise_floor"] == made.noise.floor
    assert machine["calibration_note"] is None


def test_where_nothing_can_be_timed_there_is_no_calibration(elsewhere: Path, capsys) -> None:
    assert main(["calibrate", "impl=planted:RaisesInConstructor", *TINY]) == 2
    assert "no case could be timed twice: planted:RaisesInConstructor" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []


def test_its_help_does_not_wait_for_torch() -> None:
    code = "import sys\nfrom harness.cli.commands import main\n"
    code += "try: main(['calibrate', '--help'])\nexcept SystemExit: pass\n"
    done = subprocess.run([sys.executable, "-c", f"{code}sys.exit('torch' in sys.modules)"], capture_output=True)
    assert done.returncode == 0
