"""Pictures are drawn beside the rest, and drawn all the same where that is not possible."""

import subprocess
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from rows import usual_lines

from harness.study.analyse import analyse
from harness.study.report.background_plots import BackgroundPlots
from harness.study.report.report_data import Contents

NAMES = {f"{name}.{kind}" for name in ("time", "memory", "speedup") for kind in ("png", "svg")}
# Of these there is a single picture.
FEW = [replace(line, peak_bytes=None) for line in usual_lines() if line.case.impl == "attention.fused"]
ITS_NAMES = {"time.png", "time.svg"}


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_what_was_begun_is_there_when_it_is_finished_and_nothing_remains(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    with BackgroundPlots() as drawing:
        drawing.hand_over("draw", tmp_path / "plots", usual_lines(), {})
        drawing.finish()
    assert names(tmp_path / "plots") == NAMES
    assert {child.pid for child in psutil.Process().children()} <= before


def test_overviews_follow_when_they_are_known(tmp_path: Path) -> None:
    found = Contents(FEW, analyse(FEW)).overviews
    with BackgroundPlots() as drawing:
        drawing.hand_over("draw", tmp_path / "plots", FEW, {})
        drawing.hand_over("draw_overviews", tmp_path / "plots", found)
        drawing.finish()
    assert names(tmp_path / "plots") == ITS_NAMES | {"overview.png", "overview.svg"}


def test_without_a_second_process_everything_is_drawn_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refused)
    with BackgroundPlots() as drawing:
        drawing.hand_over("draw", tmp_path / "plots", FEW, {})
        drawing.finish()
    assert names(tmp_path / "plots") == ITS_NAMES


def test_a_process_that_was_killed_is_made_up_for(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    with BackgroundPlots() as drawing:
        for child in psutil.Process().children():
            if child.pid not in before:
                child.kill()
        drawing.hand_over("draw", tmp_path / "plots", FEW, {})
        drawing.finish()
    assert names(tmp_path / "plots") == ITS_NAMES


def test_what_the_process_could_not_write_is_told_here(tmp_path: Path) -> None:
    (tmp_path / "plots").write_text("a file")
    with BackgroundPlots() as drawing:
        drawing.hand_over("draw", tmp_path / "plots", FEW, {})
        with pytest.raises(FileExistsError):
            drawing.finish()


def test_nothing_begun_is_nothing_to_finish(tmp_path: Path) -> None:
    with BackgroundPlots() as drawing:
        drawing.finish()
    assert list(tmp_path.iterdir()) == []


def test_without_room_to_hand_it_over_everything_is_drawn_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("harness.study.report.background_plots.tempfile.NamedTemporaryFile", full)
    with BackgroundPlots() as drawing:
        drawing.hand_over("draw", tmp_path / "plots", FEW, {})
        drawing.finish()
    assert names(tmp_path / "plots") == ITS_NAMES
