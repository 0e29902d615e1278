"""Somebody's own module that is slow to import is imported once for all its trials, where that is safe."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.case import Case
from harness.sweep.runner import Runner

LAYER = """
from torch import nn

class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()

    def forward(self, x):
        return x
"""
# Whoever imports it leaves a mark.
MARK = """
import pathlib, time
with open({marks!r}, "a") as marks:
    marks.write("imported\\n")
"""


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**29) as started:
        yield started


def module(directory: Path, name: str, more: str, monkeypatch: pytest.MonkeyPatch) -> Case:
    """A module in the directory that marks its imports; a case of its layer."""
    (directory / f"{name}.py").write_text(MARK.format(marks=str(directory / "marks")) + more + LAYER)
    monkeypatch.setattr(sys, "path", [*sys.path, str(directory)])
    return Case(f"{name}:Layer", 8, 4, 1)


def imports(runner: Runner, case: Case, directory: Path) -> int:
    """How often the module was imported for a description and three trials."""
    assert runner.run("describe", case)["status"] == "ok"
    for _ in range(3):
        outcome = runner.run("time", case)
        assert outcome["status"] == "ok", outcome["reason"]
    return len((directory / "marks").read_text().splitlines())


def test_a_slow_import_is_made_once_to_look_and_once_for_all_trials(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = module(tmp_path, "slow_to_import", "time.sleep(0.3)\nprint('loud')\n", monkeypatch)
    assert imports(runner, case, tmp_path) == 2


def test_a_quick_one_is_each_trials_own(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = module(tmp_path, "quick_to_import", "", monkeypatch)
    assert imports(runner, case, tmp_path) == 4


@pytest.mark.parametrize(
    ("name", "leaves"),
    [
        ("leaves_a_thread", "import threading\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()"),
        ("leaves_a_process", "import subprocess\nsubprocess.Popen(['sleep', '60'])"),
    ],
)
def test_what_an_import_leaves_running_is_not_forked_from(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, leaves: str
) -> None:
    case = module(tmp_path, name, f"time.sleep(0.3)\n{leaves}\n", monkeypatch)
    assert imports(runner, case, tmp_path) == 4


def test_what_it_changes_in_torch_does_not_reach_other_layers(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meddles = "time.sleep(0.3)\nimport torch\ntorch.nn.functional.linear = None\n"
    case = module(tmp_path, "meddles_with_torch", meddles, monkeypatch)
    imports(runner, case, tmp_path)
    assert runner.run("time", Case("attention.packed", 8, 4, 1))["status"] == "ok"
