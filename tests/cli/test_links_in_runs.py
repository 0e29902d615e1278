"""Commands replace links inside a run, and write nothing where such links lead."""

from pathlib import Path

import pytest
from attention_run import make_run

from harness.cli.commands import main
from harness.core.model.errors import UsageError
from harness.core.results.run_directory import LOCK, locked


@pytest.mark.parametrize("linked", [["plots"], ["plots/overview.png", "report.md"]])
def test_report_overwrites_nothing_behind_a_link(linked: list[str], tmp_path: Path) -> None:
    run, mine = make_run(tmp_path / "run"), tmp_path / "mine"
    mine.mkdir()
    for name in ("overview.png", "time.svg", "report.md"):
        (mine / name).write_text("mine")
    links = [run / name for name in linked]
    for link in links:
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(mine if link.name == "plots" else mine / link.name)
    assert main(["report", str(run)]) == 0
    assert {file.read_text() for file in mine.iterdir()} == {"mine"}
    assert not any(link.is_symlink() for link in links)
    assert (run / "plots" / "overview.png").stat().st_size > 1000


def test_a_lock_is_not_written_behind_a_link(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / LOCK).symlink_to(mine)
    with pytest.raises(UsageError), locked(tmp_path):
        pass
    assert mine.read_text() == "mine"
