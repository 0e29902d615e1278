"""Rows and machines that another program wrote: what does not fit is named, and costs nothing else."""

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from attention_run import make_run
from rows import measured

from harness.cli.commands import main
from harness.core.model.sweep_axes import Case
from harness.core.results.stored_run import read_run_directory

GOOD = Case("attention.fused", 1024, 64, 2)
LARGEST = 2**63 - 1
BEYOND_FLOATS = 10**400
DEEP = "[" * 50_000 + "]" * 50_000
CASES: dict[str, dict[str, Any]] = {
    "an option with a path": {"options": "../x=16"},
    "an option with a space": {"options": "a b"},
    "an option without a value": {"options": "x="},
    "a length beyond floats": {"seq_len": BEYOND_FLOATS},
    "a width beyond floats": {"d_model": BEYOND_FLOATS},
    "threads beyond floats": {"threads": BEYOND_FLOATS},
    "a truth value as a length": {"seq_len": True},
    "padding that is no number": {"padding_fraction": math.nan, "mask": "padding"},
    "more padding than tokens": {"padding_fraction": 2.0, "mask": "padding"},
}
FACTS: dict[str, dict[str, Any]] = {
    "claims 50,000 deep": {"claims": DEEP},
    "claims 1,900 deep": {"claims": "[" * 1900 + "]" * 1900},
    "a claim with brackets": {"claims": json.dumps({"work": "(" * 50_000 + "n"})},
    "a claim of 5,000 digits": {"claims": json.dumps({"work": "9" * 5000 + "n"})},
    "a claim that is a number": {"claims": f'{{"work": {"9" * 5000}}}'},
    "own axes 50,000 deep": {"own_axes": DEEP},
    "an own axis beyond floats": {"own_axes": f'{{"window": ["w", {BEYOND_FLOATS}]}}'},
    "an infinite own axis": {"own_axes": '{"window": ["w", 1e999]}'},
    "block sizes that are no JSON": {"block_sizes": "{", "page_fault_s": 1e-7},
    "block sizes without a number of blocks": {"block_sizes": "[[1]]", "page_fault_s": 1e-7},
    "block sizes as texts": {"block_sizes": '[["1", "2"]]', "page_fault_s": 1e-7},
}
# These are read, and must be survived.
READ: dict[str, dict[str, Any]] = {
    "FLOPs": {"flops": LARGEST},
    "all facts": dict.fromkeys(("flops", "peak_bytes", "min_bytes", "depth"), LARGEST),
    "a claim of 400 digits": {"claims": json.dumps({"work": "9" * 400 + "nd²"})},
}
COMMANDS = {
    "report": ["report", "--no-plots"],
    "status": ["status"],
    "baseline": ["baseline", "-o", "baseline.json"],
    "predict": ["predict", "seq_len=700"],
    "recommend": ["recommend", "seq_len=700"],
}


def add(run: Path, case: dict[str, Any], facts: dict[str, Any]) -> None:
    """Add the rows of a case that is like `GOOD` but for these axes and facts."""
    rows = measured(GOOD, 1e-3, 100)
    (path,) = (run / "rows").iterdir()
    with path.open("a") as file:
        for row in rows:
            row["case"] |= case
            row["key"] = " ".join(f"{name}={value}" for name, value in row["case"].items())
            row |= facts if row["purpose"] == "facts" else {}
            file.write(json.dumps({"schema": 2, "host": "elsewhere", **row}) + "\n")


def carry_out(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> dict[str, str]:
    """What each command says on the run; each must succeed."""
    monkeypatch.chdir(run.parent)
    said = {}
    for name, (command, *options) in COMMANDS.items():
        assert (name, main([command, str(run), *options])) == (name, 0)
        said[name] = capsys.readouterr().err
    return said


@pytest.mark.parametrize("what", [*CASES, *FACTS])
def test_a_row_that_does_not_fit_is_named_and_costs_no_other(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    run = make_run(tmp_path / "run")
    add(run, CASES.get(what, {"impl": "./own.py:Layer"}), FACTS.get(what, {}))
    said = carry_out(run, monkeypatch, capsys)
    left_out = 5 if what in CASES else 1  # the rows of a case, or those of its facts
    assert len(re.findall(r"\.jsonl:\d+: .*, left out", said["report"])) == left_out
    assert "rows/0001-" in said["report"]


@pytest.mark.parametrize("what", READ)
def test_extreme_facts_are_reported(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    run = make_run(tmp_path / "run")
    add(run, {"impl": "./own.py:Layer"}, READ[what])
    assert "left out" not in carry_out(run, monkeypatch, capsys)["report"]


def test_a_layer_whose_file_name_is_mathematics_is_drawn(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    add(run, {"impl": r"./a$\frac$.py:Layer"}, {})
    assert main(["report", str(run)]) == 0
    assert r"$\frac$" in (run / "plots" / "time.svg").read_text(encoding="utf-8")
    assert "n^{" not in (run / "plots" / "overview.svg").read_text(encoding="utf-8")


CALIBRATION: dict[str, Any] = {
    "advice": [],
    "noise_floor": 0.02,
    "bandwidth": {"bandwidth_bytes_per_s": 1e10, "cache_bytes": 2**25},
    "peak_flops_per_s": {"float32": 1e12},
    "device": "cpu",
    "threads": 1,
    "best_probe_s": 1e-4,
}
SPOILT: dict[str, dict[str, Any]] = {
    "bandwidth": {"bandwidth": {"bandwidth_bytes_per_s": "fast"}},
    "no bandwidth": {"bandwidth": "fast"},
    "peak": {"peak_flops_per_s": {"float32": "fast"}},
    "peak beyond floats": {"peak_flops_per_s": {"float32": BEYOND_FLOATS}},
    "noise": {"noise_floor": "low"},
    "probe": {"best_probe_s": "short"},
    "advice": {"advice": ["text"]},
}


@pytest.mark.parametrize("what", [None, *SPOILT])
def test_a_calibration_with_texts_for_numbers_is_left_out(
    what: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    run = make_run(tmp_path / "run")
    machine = json.loads((run / "machine.json").read_text())
    made = {**CALIBRATION, **SPOILT.get(what or "", {})}
    (run / "machine.json").write_text(json.dumps({**machine, "calibration": made}))
    said = carry_out(run, monkeypatch, capsys)["report"]
    assert ("machine.json: calibration: " in said) == (what is not None)
    assert ("left out" in said) == (what is not None)


MACHINE: dict[str, Any] = {
    "host": "vm",
    "memory_bytes": 2**34,
    "cpu": {"model": "a CPU", "threads": 4, "usable": 2},
    "torch": {"version": "2.13.0", "gpu_states": {"GPU-1": {"index": 0, "power_limit_w": 700}}},
    "libraries": {"numpy": "2.0", "scipy": None},
}
STRANGE_MACHINES: dict[str, tuple[dict[str, Any], str]] = {
    "memory as text": ({"memory_bytes": "much"}, "memory_bytes is the text 'much', not a valid integer"),
    "memory beyond all": ({"memory_bytes": 10**400}, "memory_bytes is "),
    "not finite": ({"cpu": {"threads": math.nan}}, "cpu: threads is nan, not a valid integer"),
    "threads as text": ({"cpu": {"threads": "two"}}, "cpu: threads is the text 'two', not a valid integer"),
    "no part": ({"torch": "2.13.0"}, "torch is the text '2.13.0', not"),
    "no text": ({"python": 3.11}, "python is 3.11, not a valid string"),
    "state": ({"torch": {"gpu_states": {"GPU-1": {"index": [[]]}}}}, "torch: gpu_states: GPU-1: index is a list"),
    "long": ({"kernel": "x" * 10_000}, "kernel is the text 'xxx"),
    "libraries": ({"libraries": {"numpy": {}}}, "libraries: numpy is an object, not a valid string"),
}


@pytest.mark.parametrize("what", STRANGE_MACHINES)
def test_an_entry_of_the_machine_that_does_not_fit_is_named_and_costs_no_other(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    spoilt, sentence = STRANGE_MACHINES[what]
    run = make_run(tmp_path / "run")
    (run / "machine.json").write_text(json.dumps({**MACHINE, **spoilt}))
    said = carry_out(run, monkeypatch, capsys)["report"]
    assert said.count(", left out") == 1
    assert f"machine.json: {sentence}" in said
    assert {**MACHINE, **read_run_directory(run).machine} == MACHINE  # nothing else was lost or changed


def test_unreadable_files_of_several_machines_are_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "machines").mkdir()
    (run / "machines" / "n1.json").write_text(json.dumps({"host": "n1", "memory_bytes": "much"}))
    (run / "machines" / "n2.json").write_text("[1]")
    stored = read_run_directory(run)
    assert stored.machine["host"] == "n1"
    first, second = stored.notices[-2:]
    assert first.endswith("n1.json: memory_bytes is the text 'much', not a valid integer, left out")
    assert second.endswith("n2.json: cannot be read, the machine is not known")


def test_the_suggested_command_survives_a_directory_that_begins_with_a_dash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    make_run(tmp_path / "-dash")
    monkeypatch.chdir(tmp_path)
    assert main(["report", "--no-plots", "./-dash"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    command = said.partition("Next: python -m harness ")[2]
    assert main(shlex.split(command)) == 0
