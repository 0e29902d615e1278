"""A plan of shards that is huge, or no file at all."""

from pathlib import Path

import pytest
from core.faults.test_endless_files import FAULTS, run, whole  # noqa: F401  # fixtures

from harness.cli.commands import main


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_of_shards_is_refused_in_one_line(fault: str, run: Path, capsys: pytest.CaptureFixture) -> None:  # noqa: F811
    (run / "shards").mkdir()
    FAULTS[fault](run / "shards" / "plan.json")
    assert main(["status", "run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "plan.json" in line
