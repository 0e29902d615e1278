"""`bisect` as it is used, in repositories of eight commits. How it decides is tested in tests/stats."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.commands import main
from harness.gate import bisect as bisection
from tests.cli.test_compare import LAYER

TINY = ["impl=bisected_layer:Layer", "seq_len=32", "d_model=16", "num_heads=2", "threads=1", "memory_limit=512MiB"]


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def commit(text: str, subject: str) -> None:
    Path("bisected_layer.py").write_text(text)
    git("add", "bisected_layer.py")
    git("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--allow-empty", "-m", subject)


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setattr(sys, "path", list(sys.path))
    git("init", "-b", "main")


@pytest.mark.slow
def test_a_change_of_flops_is_found_without_a_clock(capsys: pytest.CaptureFixture) -> None:
    for number in range(8):
        text = "import not_installed\n" if number == 3 else ""
        commit(text + LAYER.format(products=4 if number < 5 else 6), f"commit {number}")
    command = ["bisect", "HEAD~7..HEAD", *TINY, "out=found"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "FLOPs change from" in out, err
    assert "(commit 5)." in out
    rows = Path("found/bisect.jsonl").read_text()
    assert "blocks" not in rows
    assert main(command) == 0
    assert Path("found/bisect.jsonl").read_text() == rows
    assert main([*command, "threshold=0.1"]) == 2
    assert "is another search" in capsys.readouterr().err
    assert len(git("worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_identical_commits_have_no_difference(capsys: pytest.CaptureFixture) -> None:
    for number in range(3):
        commit(LAYER.format(products=4), f"commit {number}")
    assert main(["bisect", "HEAD~2..HEAD", *TINY, "threshold=0.3", "out=found"]) == 0
    assert "no difference of 30 % to look for" in capsys.readouterr().out


@pytest.mark.slow
def test_an_end_that_does_not_import_is_3(capsys: pytest.CaptureFixture) -> None:
    commit("import not_installed\n", "broken")
    commit(LAYER.format(products=4), "whole")
    assert main(["bisect", "HEAD~1..HEAD", *TINY, "out=found"]) == 3
    assert "not measurable: " in capsys.readouterr().out


def test_several_sizes_are_an_error(capsys: pytest.CaptureFixture) -> None:
    assert main(["bisect", "HEAD~2..HEAD", *TINY, "batch_size=1,2"]) == 2
    assert "bisect takes one case: give one value of batch_size" in capsys.readouterr().err


@pytest.mark.slow
def test_a_slower_commit_is_found_by_time_and_an_interrupted_search_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for number in range(5):
        commit(LAYER.format(products=4 if number < 3 else 12), f"commit {number}")
    command = ["bisect", "HEAD~4..HEAD", *TINY, "--time", "out=found"]
    with monkeypatch.context() as patched:
        take, taken = bisection.take_block, []

        def interrupted(*arguments: object) -> object:
            if len(taken) == 5:
                raise KeyboardInterrupt
            taken.append(arguments)
            return take(*arguments)

        patched.setattr(bisection, "take_block", interrupted)
        assert main(command) == 130
    assert "repeat the command with 'out=found' to continue" in capsys.readouterr().err
    before = Path("found/bisect.jsonl").read_text()
    status = main(command)
    out, err = capsys.readouterr()
    assert status == 0, out + err
    assert "The time changes by +" in out
    assert "(commit 3)." in out
    assert "Side by side" in out
    assert Path("found/bisect.jsonl").read_text().startswith(before)
