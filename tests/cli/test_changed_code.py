"""`sweep out=RUN` where somebody's own layer is no longer what was measured there."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.test_going_on import TINY, files, rows

import impls
from harness.cli.commands import main
from harness.core.run.scheduler import Scheduler

OWN = """\
from beside import FACTOR
from torch import nn

class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()

    def forward(self, x):
        return x * FACTOR
"""


def sweep_of_own_layer(where: Path, code: str, *more: str) -> int:
    """The current `mine.py` beside a built-in layer."""
    (where / "mine.py").write_text(code)
    asked = ["impl=mine:Layer,rnn.elman", "seq_len=8,16", *TINY[1:], *more]
    return main(["sweep", *asked])


@pytest.fixture
def measured_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a run of a layer in `mine.py`, which takes a number from `beside.py`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside.py").write_text("FACTOR = 1.0\n")
    assert sweep_of_own_layer(tmp_path, OWN) == 0
    return tmp_path


@pytest.mark.parametrize("file", ["mine.py", "beside.py"])
def test_a_layer_whose_code_has_changed_is_refused_by_name_and_file(
    file: str, measured_own: Path, capsys: pytest.CaptureFixture
) -> None:
    before = files()
    own = OWN
    if file == "mine.py":
        own += "# another\n"
    else:
        (measured_own / file).write_text("FACTOR = 2.0\n")
    capsys.readouterr()
    assert sweep_of_own_layer(measured_own, own) == 2
    assert capsys.readouterr().err == (
        f"harness: out=run has rows of other code (changed since: mine:Layer in {file}): "
        "name another, or give --fresh to set it aside\n"
    )
    assert files() == before


def test_code_that_has_not_changed_is_gone_on_with_wherever_it_was_moved_to(
    measured_own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows()
    monkeypatch.chdir(measured_own.rename(measured_own.with_name("moved")))
    assert sweep_of_own_layer(Path.cwd(), OWN) == 0
    assert rows() == before


def test_a_run_that_does_not_know_its_layers_code_is_gone_on_with(measured_own: Path) -> None:
    machine = json.loads(Path("run/machine.json").read_text())
    assert list(machine.pop("layers")) == ["mine:Layer", "rnn.elman"]
    Path("run/machine.json").write_text(json.dumps(machine))
    assert sweep_of_own_layer(measured_own, OWN + "# another\n") == 0


def test_a_layer_that_had_no_numbers_is_put_right_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside.py").write_text("FACTOR = 1.0\n")
    assert sweep_of_own_layer(tmp_path, OWN.replace("FACTOR", "FUCTOR")) == 2  # nothing can be described
    bad = OWN.replace("x * FACTOR", "x.no_such_thing")
    assert sweep_of_own_layer(tmp_path, bad) == 3
    capsys.readouterr()
    assert sweep_of_own_layer(tmp_path, bad) == 3
    said = capsys.readouterr().out
    assert "run: continued; 4 of 4 cases have rows" in said
    assert "of these ended without a time: 2 error; retry=error takes them again" in said
    assert sweep_of_own_layer(tmp_path, OWN) == 2
    assert "give --fresh to set it aside, or take them again with retry=error\n" in capsys.readouterr().err
    assert sweep_of_own_layer(tmp_path, OWN, "retry=error") == 0
    assert "retry=error takes" not in capsys.readouterr().out
    assert sweep_of_own_layer(tmp_path, OWN) == 0  # and now it is this code that it has rows of
    assert sweep_of_own_layer(tmp_path, bad) == 2


def saved_anew(number: int, file: Path, call: Callable) -> Callable:
    """`call`, whose call of this `number` begins with another code saved to `file`."""
    calls = []

    def saves(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == number:
            file.write_text(file.read_text() + "# another\n")
        return call(*arguments)

    return saves


STOPPED = (
    "harness: {file} changed while {impl} was measured. All rows before are kept: to continue, put the former code "
    "back and repeat the command with 'out=run'; to measure the new code, name another out=\n"
)


@pytest.mark.parametrize("file", ["mine.py", "beside.py"])
def test_a_sweep_stops_when_other_code_is_saved_and_continues_with_the_former_code(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside.py").write_text("FACTOR = 1.0\n")
    (tmp_path / "mine.py").write_text(OWN)
    former = (tmp_path / file).read_text()
    with monkeypatch.context() as patched:
        patched.setattr(Scheduler, "_time", saved_anew(2, tmp_path / file, Scheduler._time))
        asked = ["sweep", "impl=mine:Layer", "seq_len=8,16", *TINY[1:]]
        assert main(asked) == 2
    assert capsys.readouterr().err == STOPPED.format(file=file, impl="mine:Layer")
    before = rows()
    assert [row["purpose"] for row in before].count("time") == 1
    assert main(asked) == 2
    assert "has rows of other code" in capsys.readouterr().err
    (tmp_path / file).write_text(former)
    assert main(asked) == 0
    assert rows()[: len(before)] == before


def test_a_sweep_of_a_built_in_layer_stops_when_a_file_of_them_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(*impls.__path__, tmp_path / "impls")
    monkeypatch.setattr(impls, "__path__", [str(tmp_path / "impls")])
    changed = tmp_path / "impls" / "rnn" / "minimal.py"
    monkeypatch.setattr(Scheduler, "_time", saved_anew(1, changed, Scheduler._time))
    assert main(["sweep", "seq_len=8,16", *TINY]) == 2
    assert capsys.readouterr().err == STOPPED.format(file="impls/rnn/minimal.py", impl="rnn.elman")
