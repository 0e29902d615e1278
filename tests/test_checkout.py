"""Two checkouts, one of them installed: all processes of a command use the code of the one that runs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.config.machine import describe_machine
from harness.core.model.background_process import PLACE, search_path
from harness.core.model.errors import UsageError
from harness.core.run.executor import Executor
from harness.core.run.fork_client import Runtime
from harness.study.report.background_plots import start_interpreter

TINY = ["impl=rnn.elman", "seq_len=8", "d_model=8", "threads=1", "precision.trial_s=0.01", "precision.patience_s=0"]
SWEEP = ["sweep", "--no-plots", *TINY, "precision.min_rounds=1", "precision.max_rounds=1"]
# As an installed script has it, whose directory comes first and not the current one.
SCRIPT = ["-P", "-c", "import sys; from harness.cli.commands import main; sys.exit(main())"]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second checkout, whose trials say where their layers are, and with one more registered layer."""
    root = tmp_path_factory.mktemp("other").resolve()
    for name in ("harness", "impls", "conf"):
        shutil.copytree(PLACE / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PLACE / "pyproject.toml", root)
    describe = root / "harness" / "core" / "trial" / "trial_kinds.py"
    text = describe.read_text()
    marked = text.replace('"version": torch', '"layers": __import__("impls").__file__, "version": torch')
    assert marked != text
    describe.write_text(marked)
    with (root / "impls" / "registry.py").open("a") as registry:
        registry.write(
            '\nIMPLS["rnn.other"] = __import__("dataclasses").replace(IMPLS["rnn.elman"], name="rnn.other")\n'
        )
    return root


def swept(cwd: Path, *command: str) -> dict:
    """What a sweep in the directory `cwd` says of its machine, in an environment where `PLACE` is installed."""
    run = cwd / "run"
    shutil.rmtree(run, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, *command, "out=run"],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(PLACE)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(next(run.glob("machines/*.json"), run / "machine.json").read_text())


def is_all_of(machine: dict, checkout: Path) -> None:
    assert machine["project"] == str(checkout)


def test_trials_use_the_checkout_that_runs_and_not_the_one_installed(other: Path) -> None:
    machine = swept(other, "-m", "harness", *SWEEP)
    is_all_of(machine, other)
    assert machine["torch"]["layers"] == str(other / "impls" / "__init__.py")


@pytest.mark.parametrize("launcher", [[], ["launcher=processes"]], ids=["here", "in shards"])
def test_another_checkout_in_the_current_directory_is_not_used_by_an_installed_script(
    other: Path, launcher: list[str]
) -> None:
    machine = swept(other, *SCRIPT, *SWEEP, *launcher)
    is_all_of(machine, PLACE)
    assert "layers" not in machine["torch"]


def test_the_registered_layers_are_those_of_the_checkout_that_runs(other: Path) -> None:
    command = [sys.executable, "-m", "harness", "list"]
    env = {**os.environ, "PYTHONPATH": str(PLACE)}
    listed = [
        subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True).stdout for cwd in (other, PLACE)
    ]
    assert ["rnn.other" in text for text in listed] == [True, False]


@pytest.mark.parametrize("of_layers", [False, True])
def test_a_trial_uses_this_harness_where_another_checkout_comes_first_on_the_search_path(
    of_layers: bool, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the search path of this process, or on a separate one for layers."""
    path = [str(other), *sys.path]
    if not of_layers:
        monkeypatch.setattr(sys, "path", path)
    given = path if of_layers else None
    with Executor(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**29, runtime=Runtime(path=given)) as runner:
        assert runner.run("machine").values["harness"] == str(PLACE)


def test_helper_processes_use_this_harness_where_another_checkout_comes_first(
    other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "where.py").write_text("import harness\ndef say():\n    print(harness.__file__)\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(other), *sys.path])
    helper = start_interpreter("from where import say; say()", subprocess.PIPE)
    assert helper is not None
    assert Path(helper.communicate()[0].decode().strip()) == PLACE / "harness" / "__init__.py"


def test_a_trial_with_another_harness_is_an_error(other: Path) -> None:
    with pytest.raises(UsageError, match=f"trials use the harness in {other}, and this process the one in {PLACE}"):
        describe_machine({"status": "ok", "harness": str(other)})


def test_the_search_path_stays_as_it_is_where_this_checkout_comes_first(other: Path) -> None:
    path = ["/usr/lib/python3", str(PLACE), str(other)]
    assert search_path(path) == path


def test_this_checkout_comes_before_another_and_after_all_else(other: Path, tmp_path: Path) -> None:
    users = tmp_path / "users"
    (users / "tests").mkdir(parents=True)
    assert search_path([str(users), str(other), "/x"]) == [str(users), str(PLACE), str(other), "/x"]
    assert search_path([str(users)]) == [str(users), str(PLACE)]
