"""`check`: measured again and held against a file. The rules themselves are in tests/study/check."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar
from xml.etree import ElementTree

import planted_regressions as planted
import pytest
from rich.console import Console
from study.check import baselines

from harness.cli.commands import main
from harness.core.config import compose
from harness.core.layers.layer_lookup import Layer
from harness.core.model.case_grid import grid
from harness.study.check.baseline import Baseline, write_baseline
from harness.study.check.check import Remeasurement

GRID = ["seq_len=32,64,128", "d_model=16", "num_heads=2", "threads=1", "memory_limit=512MiB"]
SHORT = ["precision.trial_s=0.002", "precision.min_rounds=2", "precision.max_rounds=2", "precision.patience_s=0"]


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The baseline of a real run of a user's layer and a built-in one."""
    place = tmp_path_factory.mktemp("project")
    planted.rewrite(place, planted.UNCHANGED)
    sys.path.append(str(place))
    run, file = place / "run", place / "baseline.json"
    config = compose([f"impl={planted.IMPL},rnn.elman", *GRID, *SHORT, f"out={run}"])
    measured = Remeasurement(config, place, Console(file=StringIO()), timed=True)
    with measured.session:
        measured.take(list(grid(config.axes, lambda impl: impl != "rnn.elman")), run)
    assert main(["baseline", str(run), "-o", str(file)]) == 0
    yield file
    sys.path.remove(str(place))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, baseline: Path) -> Path:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    planted.rewrite(baseline.parent, planted.UNCHANGED)
    return tmp_path


def test_unchanged_code_passes_timed_and_all(baseline: Path, capsys: pytest.CaptureFixture) -> None:
    # So short a trial says little of time: whatever it says, a law that is not determined is not judged.
    status = main(["check", str(baseline), "seq_len=32,64", *SHORT])
    out = capsys.readouterr().out
    assert status == 0, out
    assert "2 of its 3 cases were chosen" in out
    assert list(Path().iterdir()) == []


def test_unchanged_facts_laws_and_claims_pass(baseline: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["check", str(baseline), "--exact", "--json", "found.json"]) == 0
    assert "passed." in capsys.readouterr().out
    found = json.loads(Path("found.json").read_text())["outcomes"]
    assert {one["verdict"] for one in found} == {"passed"}
    quantities = {one["quantity"] for one in found}
    assert {"flops", "depth", "peak memory", "exponent of memory in n", "claim of work"} <= quantities
    assert not any("time" in quantity for quantity in quantities)


def test_a_regression_is_1_and_everywhere_to_be_read(
    baseline: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    planted.rewrite(baseline.parent, planted.LOST_KERNEL)
    files = ["--junit", "found.xml", "--markdown", "found.md"]
    assert main(["check", str(baseline), "--exact", "impl=layer_*", "seq_len=64", *files, "out=kept"]) == 1
    said = "fused kernel lost: flash before, math now"
    assert said in " ".join(capsys.readouterr().out.split())
    assert said in Path("summary.md").read_text()
    assert said in Path("found.md").read_text()
    failures = ElementTree.parse("found.xml").getroot().findall(".//failure")
    assert any(said in failure.attrib["message"] for failure in failures)
    assert main(["baseline", "kept"]) == 0  # what was measured is a run


def test_what_cannot_be_measured_is_3_and_so_is_a_layer_that_is_gone(
    baseline: Path, capsys: pytest.CaptureFixture
) -> None:
    planted.rewrite(baseline.parent, planted.RAISES)
    file = Path("b.json")
    file.write_text(baseline.read_text().replace("rnn.elman", "rnn.ellman"))
    assert main(["check", str(file), "--exact", "seq_len=32", "--json", "found.json"]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "no such luck" in said
    assert "unknown impl 'rnn.ellman'; did you mean 'rnn.elman'?" in said
    found = json.loads(Path("found.json").read_text())["outcomes"]
    assert {one["subject"].split()[0]: one["verdict"] for one in found} == {
        planted.IMPL: "unmeasured",
        "rnn.ellman": "unmeasured",
    }


def test_the_cases_of_hydras_grammar_are_chosen(baseline: Path, capsys: pytest.CaptureFixture) -> None:
    arguments = ["impl=glob(rnn.*)", "seq_len=range(32,65,32)", "--json", "found.json", "--exact"]
    assert main(["check", str(baseline), *arguments]) == 0
    subjects = {one["subject"] for one in json.loads(Path("found.json").read_text())["outcomes"]}
    assert subjects == {"rnn.elman n=32 d=16 h=1", "rnn.elman n=64 d=16 h=1"}


class Pretender:
    """Measures nothing: gives the baselines that the test has, one after the other."""

    found: ClassVar[list[Baseline]] = []

    def __init__(self, config: object, scratch: Path, console: object, timed: bool) -> None:
        self.first, self.second, self.timed = scratch / "first", scratch / "second", timed
        self.session = nullcontext(SimpleNamespace(described=SimpleNamespace(within=lambda impl, env: Layer())))

    def take(self, cases: object, out: Path) -> Baseline:
        return self.found.pop(0)


STEEPER = baselines.baseline(laws={baselines.MEMORY: baselines.law(1.0), baselines.TIME: baselines.law(1.9, 1.8, 2.0)})


@pytest.mark.parametrize(
    ("found", "status", "times"),
    [
        ([baselines.baseline()], 0, 1),
        ([STEEPER, baselines.baseline()], 0, 2),
        ([STEEPER, STEEPER], 1, 2),
    ],
)
def test_time_that_seems_to_grow_faster_is_measured_a_second_time(
    found: list[Baseline], status: int, times: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("harness.cli.gates.Remeasurement", Pretender)
    monkeypatch.setattr(Pretender, "found", list(found))
    write_baseline(baselines.baseline(), Path("b.json"))
    assert main(["check", "b.json"]) == status
    assert len(found) - len(Pretender.found) == times
    assert ("exponent of time in n 1.60 (1.50 to 1.70) → 1.90 (1.80 to 2.00)" in capsys.readouterr().out) == (
        status == 1
    )
