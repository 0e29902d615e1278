"""`calibrate` as a user runs it, with a budget of seconds."""

import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from extras.calibrate.conftest import GOOD

from harness.cli.commands import main
from harness.core.config.machine import cpu_model
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome
from harness.extras.calibrate import measure, record

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


@pytest.fixture
def quick_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peaks of one short round: their values do not matter."""
    monkeypatch.setattr(measure, "PEAK_S", 0.01)
    monkeypatch.setattr(measure, "PEAK_TRIALS", 1)
    monkeypatch.setattr(measure, "PEAK_ROUNDS", 1)


@pytest.fixture
def saved_at_first_trial(quick_peaks: None, monkeypatch: pytest.MonkeyPatch) -> list[record.Calibration | None]:
    """Interrupt `calibrate` at the first trial of the noise floor. The list holds what is on disk then."""
    run, saved = Executor.run, []

    def interrupted(self: Executor, purpose: str, *more: object) -> TrialOutcome:
        if purpose == "time":
            saved.append(record.load_calibration(record.PATH)[1] if record.PATH.exists() else None)
            raise KeyboardInterrupt
        return run(self, purpose, *more)

    monkeypatch.setattr(Executor, "run", interrupted)
    return saved


def test_peaks_are_on_disk_before_the_first_trial_of_the_noise_floor(saved_at_first_trial: list) -> None:
    assert main(["calibrate", "impl=rnn.torch", *TINY]) == 130
    (saved,) = saved_at_first_trial
    assert saved.peak_flops_per_s.keys() == {"float32", "bfloat16", "float16", "float64"}
    assert saved.bandwidth["bandwidth_bytes_per_s"] > 0
    assert (saved.noise, saved.clock_s, saved.threads) == (None, None, 1)
    assert record.load_calibration(record.PATH)[1] == saved


def test_an_interrupt_after_the_peaks_says_where_they_are_and_what_to_type(saved_at_first_trial: list, capsys) -> None:
    assert main(["calibrate", "impl=rnn.torch", *TINY]) == 130
    out, err = capsys.readouterr()
    assert "about a minute, on a GPU about 3 minutes" in out
    said = "the peaks are saved in results/calibration.json; repeat the command to measure the noise floor"
    assert err == f"harness: interrupted; {said}\n"


def test_a_complete_calibration_of_this_machine_is_not_replaced_by_peaks_alone(
    saved_at_first_trial: list, capsys: pytest.CaptureFixture
) -> None:
    complete = replace(GOOD, host=platform.node(), cpu_model=cpu_model())
    record.save(complete, record.PATH)
    assert main(["calibrate", "impl=rnn.torch", *TINY]) == 130
    assert saved_at_first_trial == [complete]
    assert record.load_calibration(record.PATH)[1] == complete
    err = capsys.readouterr().err
    assert f"results/calibration.json keeps the complete calibration of {GOOD.date}; repeat the command" in err


@pytest.mark.parametrize("changed", [{"host": "another"}, {"noise": None}])
def test_a_calibration_of_another_machine_or_without_a_noise_floor_is_replaced(
    changed: dict, saved_at_first_trial: list
) -> None:
    record.save(replace(GOOD, **{"host": platform.node(), "cpu_model": cpu_model(), **changed}), record.PATH)
    assert main(["calibrate", "impl=rnn.torch", *TINY]) == 130
    assert record.load_calibration(record.PATH)[1] == saved_at_first_trial[0]
    assert saved_at_first_trial[0].host == platform.node()


def test_a_kill_while_the_noise_is_measured_leaves_peaks_that_a_sweep_attaches(elsewhere: Path, capsys) -> None:
    command = [sys.executable, "-m", "harness", "calibrate", "impl=rnn.torch", *TINY]
    paths = {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(command, env=os.environ | paths, stdout=subprocess.PIPE, text=True) as process:
        assert any(line.startswith("noise: repeat 2 of 3") for line in process.stdout)
        process.kill()
    data, made = record.load_calibration(record.PATH)
    assert (data["noise_floor"], made.noise) == (None, None)

    assert main(["sweep", "impl=rnn.torch", *TINY, "out=run", "--no-plots"]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    assert "not looked for. Noise floor: not measured; type 'python -m harness calibrate'." in screen
    machine = json.loads(Path("run/machine.json").read_text())
    assert (machine["calibration"], machine["calibration_note"]) == (data, None)
    assert "noise floor: not measured" in Path("run/report.html").read_text(encoding="utf-8")
    (of_peak,) = pd.read_csv("run/summary.csv").of_peak
    assert of_peak > 0


def test_where_nothing_can_be_timed_the_peaks_are_kept_without_a_noise_floor(
    elsewhere: Path, quick_peaks: None, capsys
) -> None:
    assert main(["calibrate", "impl=planted:RaisesInConstructor", *TINY]) == 2
    assert "no case could be timed twice: planted:RaisesInConstructor" in capsys.readouterr().err
    assert [path for path in elsewhere.rglob("*") if path.is_file()] == [elsewhere / record.PATH]
    assert record.load_calibration(record.PATH)[1].noise is None


def test_its_help_does_not_wait_for_torch() -> None:
    code = "import sys\nfrom harness.cli.commands import main\n"
    code += "try: main(['calibrate', '--help'])\nexcept SystemExit: pass\n"
    done = subprocess.run([sys.executable, "-c", f"{code}sys.exit('torch' in sys.modules)"], capture_output=True)
    assert done.returncode == 0
