"""The file, and which runs it belongs to."""

import json
import math
from pathlib import Path

import pytest

from harness.core.model.errors import UsageError
from harness.extras.calibrate import record

HERE = {"host": "bench", "cpu": {"model": "A Processor"}, "torch": {"version": "2.9.1", "gpu": None}}


@pytest.fixture
def saved(calibration, tmp_path: Path) -> Path:
    path = tmp_path / "results" / "calibration.json"
    record.save(calibration, path)
    return path


def attached(path: Path, machine: dict = HERE, threads=(2,), devices=("cpu",)) -> dict:
    return record.attachment(machine, threads, devices, path)


def test_what_was_saved_is_read_back(saved: Path, calibration, spoilt) -> None:
    assert record.load_calibration(saved)[1] == calibration
    bare = spoilt(governors=None, steal_share=None, lo=None, hi=None, failures=("x: oom: y",), bandwidth={})
    record.save(bare, saved)
    assert record.load_calibration(saved)[1] == bare
    assert [path.name for path in saved.parent.iterdir()] == ["calibration.json"]


def test_what_later_commands_read_stands_at_the_top_with_its_unit(saved: Path) -> None:
    data = json.loads(saved.read_text())
    assert data["noise_floor"] == 0.021
    assert data["clock_s"] == 3.1e-8
    assert data["peak_flops_per_s"]["float32"] == 1.5e11
    assert data["bandwidth_bytes_per_s"] == 2.5e10
    assert (data["verdict"], data["advice"], data["schema"]) == ("fit", [], record.SCHEMA)


def test_peaks_without_a_noise_floor_are_read_back_and_attached(saved: Path, spoilt) -> None:
    peaks = spoilt(clock_s=None, noise_between_repeats=None, noise_by_case={}, disturbed_share=None, noise=None)
    record.save(peaks, saved)
    data, made = record.load_calibration(saved)
    assert made == peaks
    assert (data["noise_floor"], data["verdict"], data["schema"]) == (None, "usable with care", record.SCHEMA)
    assert attached(saved) == {"calibration": data, "calibration_note": None}


def test_no_number_that_is_none_gets_into_the_file(spoilt, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        record.save(spoilt(floor=math.inf), tmp_path / "c.json")


def test_a_run_on_the_same_machine_gets_it(saved: Path) -> None:
    expected = {"calibration": json.loads(saved.read_text()), "calibration_note": None}
    assert attached(saved) == expected
    assert attached(saved, threads=(1, 2), devices=("cuda", "cpu")) == expected


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ({"machine": {**HERE, "host": "laptop"}}, "of another host: bench, here laptop"),
        ({"machine": {**HERE, "cpu": {"model": "Another"}}}, "of another processor: A Processor, here Another"),
        ({"machine": {**HERE, "torch": {"version": "2.10.0", "gpu": None}}}, "of another torch: 2.9.1, here 2.10.0"),
        ({"threads": (1, 4)}, "for threads=2"),
        ({"devices": ("cuda",)}, "for device=cpu"),
    ],
)
def test_a_run_elsewhere_gets_the_reason_instead(saved: Path, run: dict, why: str) -> None:
    found = attached(saved, **run)
    assert found["calibration"] is None
    assert why in found["calibration_note"]


def test_for_a_gpu_it_must_be_the_same_gpu(spoilt, tmp_path: Path) -> None:
    record.save(spoilt(device="cuda", gpu="A"), path := tmp_path / "c.json")
    for gpu, note in (("A", None), ("B", f"{path} is of another GPU: A, here B")):
        machine = {**HERE, "torch": {"version": "2.9.1", "gpu": gpu}}
        assert attached(path, machine, devices=("cuda",))["calibration_note"] == note


def test_for_a_gpu_its_power_limit_and_driver_must_be_the_same(spoilt, tmp_path: Path) -> None:
    state = {"index": 1, "name": "A", "driver": "570.86", "power_limit_w": 700.0}
    record.save(spoilt(device="cuda:1", gpu="A", gpu_state=state), path := tmp_path / "c.json")
    for limit_w, note in ((700.0, None), (500.0, f"{path} is of a GPU in another state: GPU power limit 700 W before")):
        torch = {"version": "2.9.1", "gpu": "B", "gpu_states": {"GPU-1": {**state, "power_limit_w": limit_w}}}
        found = attached(path, {**HERE, "torch": torch}, devices=("cuda:1",))["calibration_note"]
        assert found is None if note is None else found.startswith(note)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is not JSON"),
        ("[]", "not a calibration"),
        ('{"kind": "calibration", "schema": 99}', "a calibration of schema 99"),
        ('{"kind": "calibration", "schema": "1"}', "a calibration of schema '1', not 1: make it anew"),
        ('{"kind": "calibration", "schema": 1}', "date is missing"),
    ],
)
def test_a_file_that_is_none_is_no_run_s_trouble_but_a_reader_s(saved: Path, text: str, why: str) -> None:
    saved.write_text(text)
    assert why in attached(saved)["calibration_note"]
    with pytest.raises(UsageError, match=why):
        record.load_calibration(saved)


def test_without_a_file_the_note_says_how_to_make_one(tmp_path: Path) -> None:
    assert "python -m harness calibrate" in attached(tmp_path / "absent.json")["calibration_note"]


def test_it_takes_an_older_ones_place_and_nothing_elses(saved: Path, tmp_path: Path) -> None:
    record.check_calibration_path(saved)
    record.check_calibration_path(tmp_path / "new" / "c.json")
    (tmp_path / "mine.json").write_text('{"mine": 1}')
    for out, why in (("mine.json", "another file"), ("mine.json/c.json", "a file"), ("results", "is a directory")):
        with pytest.raises(UsageError, match=why):
            record.check_calibration_path(tmp_path / out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.json", "results"]
