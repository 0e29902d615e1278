"""Exports of damaged runs: each does what it can, or refuses in one line."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from attention_run import make_run
from cli.test_damaged_runs import DAMAGES, not_finite, read_damaged
from extras.export.exports import VIEWERS, WHOLE_RUN, strict

from harness.cli.commands import main

READERS = [["export", "--format", name, "-o", "exported"] for name in (*WHOLE_RUN, *VIEWERS)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_format_of_a_damaged_run_is_written_or_refused_in_a_line(
    damage: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    read_damaged(make_run(tmp_path / "run"), damage, READERS, capsys)


@pytest.mark.parametrize("format", ["pytest-benchmark", "github-action-benchmark"])
def test_an_export_of_a_damaged_run_is_json_without_nan(format: str, tmp_path: Path) -> None:
    run, out = make_run(tmp_path / "run"), tmp_path / "exported"
    not_finite(run)
    assert main(["export", str(run), "--format", format, "-o", str(out)]) == 0
    assert strict(out.read_bytes())


def test_the_machine_of_an_export_is_json_without_nan(tmp_path: Path) -> None:
    run, out = make_run(tmp_path / "run"), tmp_path / "exported"
    (run / "machine.json").write_text(json.dumps({"cpu": {"threads": math.nan}}))
    assert main(["export", str(run), "--format", "pytest-benchmark", "-o", str(out)]) == 0
    assert json.loads(out.read_text(), parse_constant=pytest.fail)["machine_info"]["cpu"]["count"] is None
