"""Where a run comes from."""

import json
from pathlib import Path

import yaml

from harness.core.config import compose
from harness.core.results.stored_run import StoredRun, read_run_directory
from harness.study.report.provenance import calibration, changed_settings, provenance_facts, provenance_of


def make(path: Path, machine: str | None) -> StoredRun:
    (path / "rows").mkdir(parents=True)
    (path / "config.yaml").write_text(compose(["seed=3"]).record)
    if machine is not None:
        (path / "machine.json").write_text(machine)
    return read_run_directory(path)


def test_a_run_knows_its_name_command_and_machine(tmp_path: Path) -> None:
    found = provenance_of(make(tmp_path / "run", json.dumps({"host": "vm"})))
    assert (found.name, found.command, found.machine) == ("run", "python -m harness sweep seed=3", {"host": "vm"})
    assert found.changed == {"seed": "3"}
    assert found.target == 0.05, "of precision=quick"


def test_each_option_of_layers_is_a_setting_with_its_values() -> None:
    options = "options=[page_size=16+window=64,page_size=16+window=256,window=64]"
    found = changed_settings(yaml.safe_load(compose(["impl=rnn.torch", options]).record))
    assert found == {"impl": "rnn.torch", "page_size": "16, default", "window": "64, 256"}


def test_a_link_has_the_name_of_its_run(tmp_path: Path) -> None:
    make(tmp_path / "run", None)
    (tmp_path / "latest").symlink_to("run")
    assert provenance_of(read_run_directory(tmp_path / "latest")).name == "run"


def test_a_run_without_a_machine_has_none(tmp_path: Path) -> None:
    assert provenance_of(make(tmp_path / "run", None)).machine == {}


def test_what_is_not_known_of_a_machine_is_not_told() -> None:
    assert provenance_facts({}) == {}
    assert provenance_facts({"cpu": None, "torch": {"version": "2.6.0", "gpu": None}, "memory_bytes": 2**33}) == {
        "memory": "8.00 GiB",
        "torch": "2.6.0",
    }


def test_a_gpu_is_told_with_its_driver_and_power_limit() -> None:
    gpu = {"gpu": "H100", "gpu_states": {"GPU-1": {"driver": "570.86", "power_limit_w": 700.0}}}
    assert provenance_facts({"torch": gpu}) == {"GPU": "H100", "GPU settings": "driver 570.86, power limit 700 W"}


def test_calibration_says_its_verdict_and_advice_or_why_there_is_none() -> None:
    made = {"verdict": "usable with care", "advice": [{"level": "care", "text": "Close the browser."}]}
    assert calibration({"calibration": made}) == ["Calibration: usable with care.", "Close the browser."]
    assert calibration({"calibration": None, "calibration_note": "there is none"}) == ["Not calibrated: there is none."]
    assert calibration({}) == []
