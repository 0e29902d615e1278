"""A user's module that is slow to import is imported once for all its trials, if that is safe."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.run.fork_client import Runtime

pytestmark = pytest.mark.usefixtures("forked_servers")
LAYER = """
from torch import nn

class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()

    def forward(self, x):
        return x
"""
# Each import of the module leaves a mark.
MARK = """
import pathlib, time
with open({marks!r}, "a") as marks:
    marks.write("imported\\n")
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the modules."""
    return tmp_path_factory.mktemp("modules")


@pytest.fixture(scope="module")
def runner(directory: Path) -> Iterator[Executor]:
    path = [*sys.path, str(directory)]
    with Executor(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**29, runtime=Runtime(path=path)) as started:
        yield started


def module(directory: Path, name: str, more: str) -> Case:
    """Write a module that marks its imports, and return a case of its layer."""
    marks = str(directory / f"{name}.marks")
    (directory / f"{name}.py").write_text(MARK.format(marks=marks) + more + LAYER)
    return Case(f"{name}:Layer", 8, 4, 1)


def imports(runner: Executor, case: Case, directory: Path) -> int:
    """The number of imports of the module for a description and three trials."""
    assert runner.run("describe", case).status == "ok"
    for _ in range(3):
        outcome = runner.run("time", case)
        assert outcome.status == "ok", outcome.reason
    return len((directory / f"{case.impl.partition(':')[0]}.marks").read_text().splitlines())


def test_a_slow_import_is_made_once_to_look_and_once_for_all_trials(runner: Executor, directory: Path) -> None:
    case = module(directory, "slow_to_import", "time.sleep(0.3)\nprint('loud')\n")
    assert imports(runner, case, directory) == 2


def test_a_quick_one_is_each_trials_own(runner: Executor, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.core.run.executor._SLOW_IMPORT_S", 30)  # a busy machine imports nothing quickly
    case = module(directory, "quick_to_import", "")
    assert imports(runner, case, directory) == 4


@pytest.mark.parametrize(
    ("name", "leaves"),
    [
        ("leaves_a_thread", "import threading\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()"),
        ("leaves_a_process", "import subprocess\nsubprocess.Popen(['sleep', '60'])"),
    ],
)
def test_what_an_import_leaves_running_is_not_forked_from(
    runner: Executor, directory: Path, name: str, leaves: str
) -> None:
    case = module(directory, name, f"time.sleep(0.3)\n{leaves}\n")
    assert imports(runner, case, directory) == 4


def test_what_it_changes_in_torch_does_not_reach_other_layers(runner: Executor, directory: Path) -> None:
    meddles = "time.sleep(0.3)\nimport torch\ntorch.nn.functional.linear = None\n"
    case = module(directory, "meddles_with_torch", meddles)
    imports(runner, case, directory)
    assert runner.run("time", Case("attention.packed", 8, 4, 1)).status == "ok"
