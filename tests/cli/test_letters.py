"""Names of modules, classes, files and directories in any letters, from the command line to every file."""

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from harness.cli.commands import main
from harness.core.config import compose
from harness.core.config.hydra_adapter import quoted
from harness.core.layers import layer_lookup
from harness.core.model.errors import UsageError
from harness.core.results.stored_run import read_run_directory
from harness.study.report.provenance import reproduce_command

LAYER = """\
from torch import nn
class Schön(nn.Module):
    def __init__(self, d_model):
        super().__init__()
    def forward(self, x):
        return x * 1.0
class 层(Schön): ...
"""
NAMES = ["mein_modül:Schön", "./größe.py:层", "./zwei wörter/größe.py:Schön"]
SHORT = ["seq_len=8", "d_model=8", "threads=1", "precision.trial_s=0.002", "precision.min_rounds=1"]
SHORT += ["precision.max_rounds=1", "precision.patience_s=0", "memory_limit=512MiB"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "zwei wörter").mkdir()
    for name in ("mein_modül.py", "größe.py", "zwei wörter/größe.py"):
        (tmp_path / name).write_text(LAYER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    yield tmp_path
    sys.modules.pop("mein_modül", None)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("impl=größe:Schön", ["größe:Schön"]),
        ("impl=rnn.elman,./zwei wörter/größe.py:Schön , m:L", ["rnn.elman", "./zwei wörter/größe.py:Schön", "m:L"]),
        ("impl=['./a, b/ö.py:A',größe:B]", ["./a, b/ö.py:A", "größe:B"]),
        ("impl=\"ö:A\",'ü:B'", ["ö:A", "ü:B"]),
        ("impl=层:层", ["层:层"]),
    ],
)
def test_values_are_read_in_any_letters(given: str, values: list[str]) -> None:
    assert list(compose([given]).axes["impl"]) == values


@pytest.mark.parametrize("given", ["a=1", "a=x y", "a=${b}ö", "a='ö'", "a=ö\\,b", "a=\udcffö"])
def test_what_needs_no_quotes_or_has_its_own_syntax_stays(given: str) -> None:
    assert quoted(given) == given


@pytest.mark.parametrize("given", ["points=[{impl:größe.py:X,seq_len:5}]", "a=glob(mö*)", "a={b:ö,c:[ü,1]}"])
def test_quotes_leave_the_structure_as_it_is(given: str) -> None:
    assert "'" in quoted(given)
    read = OverridesParser.create().parse_override(quoted(given)).value()
    plain = OverridesParser.create().parse_override(given.translate(str.maketrans("öüß", "oub"))).value()
    assert type(read) is type(plain)
    assert str(read).replace("'", "").translate(str.maketrans("öüß", "oub")) == str(plain).replace("'", "")


def test_a_key_in_other_letters_is_unknown() -> None:
    with pytest.raises(UsageError, match="unknown key 'größe'"):
        compose(["größe=1"])


@pytest.mark.parametrize("name", ["1ö:A", "ö:1A", "ö:", "ö-ü:A", "ö:A B", "./größe.py:A-B"])
def test_what_is_no_name_in_python_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not of the form"):
        layer_lookup.check_name(name)


def test_a_class_is_found_however_its_letters_are_composed() -> None:
    assert layer_lookup.load_class("./größe.py:Scho\u0308n").__name__ == "Schön"


def test_a_layer_is_measured_reported_and_kept_as_a_baseline(here: Path, capsys: pytest.CaptureFixture) -> None:
    impl = f"impl={','.join(NAMES)}"
    assert main(["sweep", impl, *SHORT, "out=läufe/größe", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in NAMES)
    assert main(["sweep", impl, *SHORT, "out=läufe/größe", "--no-plots"]) == 0
    stored = read_run_directory(Path("läufe/größe"))
    assert {line.impl: line.status for line in stored.lines} == dict.fromkeys(NAMES, "ok")
    again = [word for word in shlex.split(reproduce_command(stored.config)) if word.startswith("impl=")]
    assert list(compose(again).axes["impl"]) == NAMES
    shutil.rmtree("läufe/größe/rows")
    assert main(["report", "läufe/größe", "--no-plots"]) == 0
    assert main(["baseline", "läufe/größe", "-o", "grundlinie-ü.json"]) == 0
    assert len(json.loads(Path("grundlinie-ü.json").read_text(encoding="utf-8"))["cases"]) == len(NAMES)
    assert main(["check", "grundlinie-ü.json", f"impl={NAMES[0]}", "--exact", "memory_limit=512MiB"]) == 0
    assert main(["check", "grundlinie-ü.json", "impl=*gröſe*", "--exact"]) == 2
    capsys.readouterr()
    assert main(["verify", f"impl={NAMES[1]}", "seq_len=8", "d_model=8", "threads=1"]) == 0
    assert NAMES[1] in capsys.readouterr().out
