"""`bisect` as it is used, in repositories of eight commits. How it decides is tested in `test_change_position.py`."""

import itertools
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from extras.compare.repositories import LAYER, enter, git, worktrees

from harness.cli.commands import main
from harness.core.model.errors import UsageError
from harness.extras.commits import bisect as bisection
from harness.extras.commits import change_position
from harness.extras.compare import interleaved
from harness.extras.compare.compared_sides import Log
from harness.extras.compare.interleaved import Block, Side, Sides
from harness.extras.compare.paired_evidence import Rules

pytestmark = pytest.mark.usefixtures("forked_servers")
TINY = ["impl=bisected_layer:Layer", "seq_len=32", "d_model=16", "num_heads=2", "threads=1", "memory_limit=512MiB"]


def commit(text: str, subject: str) -> None:
    Path("bisected_layer.py").write_text(text)
    git("add", "bisected_layer.py")
    git("commit", "--allow-empty", "-m", subject)


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)
    git("init", "-b", "main")


@pytest.fixture
def few_short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time little: three times the work is as plain, and a threshold of a third is far from the noise."""
    monkeypatch.setattr(interleaved, "TURN_S", 0.001)
    monkeypatch.setattr(interleaved, "BLOCK_S", 0.016)
    monkeypatch.setattr(bisection, "_CONTROL", (3,))
    monkeypatch.setattr(bisection, "_ENDS", (6,))
    monkeypatch.setattr(change_position, "_CONFIRMING", 4)


@pytest.mark.slow
def test_a_change_of_flops_is_found_without_a_clock(capsys: pytest.CaptureFixture) -> None:
    for number in range(8):
        text = "import not_installed\n" if number == 3 else ""
        commit(text + LAYER.format(products=4 if number < 5 else 6), f"commit {number}")
    command = ["bisect", "HEAD~7..HEAD", *TINY, "out=found"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "FLOPs: from" in out, err
    assert "(commit 5)." in out
    rows = Path("found/bisect.jsonl").read_text()
    assert "blocks" not in rows
    assert main(command) == 0
    assert Path("found/bisect.jsonl").read_text() == rows
    assert main([*command, "threshold=0.1"]) == 2
    assert "is another search" in capsys.readouterr().err
    assert worktrees() == 1


@pytest.mark.slow
@pytest.mark.usefixtures("few_short_blocks")
def test_identical_commits_have_no_difference(capsys: pytest.CaptureFixture) -> None:
    for number in range(3):
        commit(LAYER.format(products=4), f"commit {number}")
    layer = Path("bisected_layer.py")
    layer.write_text(layer.read_text() + "\n")
    assert main(["bisect", "HEAD~2..HEAD", *TINY, "threshold=0.3", "out=found"]) == 0
    out, err = capsys.readouterr()
    assert "no difference of 30 % to look for" in out
    assert err == "harness: the working tree has uncommitted changes: they are not measured\n"


@pytest.mark.slow
def test_a_commit_that_lacks_the_layer_is_skipped_and_as_an_end_it_is_3(capsys: pytest.CaptureFixture) -> None:
    commit(LAYER.format(products=4), "first")
    git("mv", "bisected_layer.py", "moved.py")
    git("commit", "-m", "moved away")
    git("mv", "moved.py", "bisected_layer.py")
    git("commit", "-m", "moved back")
    commit(LAYER.format(products=6), "more")
    assert main(["bisect", "HEAD~3..HEAD", *TINY, "out=found"]) == 0
    out = capsys.readouterr().out
    assert "(moved away): the commit lacks the layer" in out
    assert "(more)." in out
    assert "ModuleNotFoundError" not in Path("found/bisect.jsonl").read_text()
    assert main(["bisect", "HEAD~2..HEAD", *TINY, "out=end"]) == 3
    assert "(moved away): the commit lacks the layer: name another end of the range" in capsys.readouterr().out


@pytest.mark.parametrize("row", ["not json", "[]", '{"key": "facts 1"}', '{"key": "blocks 1 2 0", "log_ratio": 0.1}'])
def test_a_damaged_row_is_named_with_its_file_and_line(tmp_path: Path, row: str) -> None:
    path = tmp_path / "bisect.jsonl"
    path.write_text(f'{{"settings": {{}}, "machine": {{}}}}\n{row}\n')
    with pytest.raises(UsageError, match=r"bisect\.jsonl, line 2: .* name a new directory"):
        Log(path, bisection._is_row).read()


@pytest.mark.slow
def test_an_end_that_does_not_import_is_3(capsys: pytest.CaptureFixture) -> None:
    commit("import not_installed\n", "broken")
    commit(LAYER.format(products=4), "whole")
    assert main(["bisect", "HEAD~1..HEAD", *TINY, "out=found"]) == 3
    assert "not measurable: " in capsys.readouterr().out


def test_a_misused_command_ends_with_one_sentence(capsys: pytest.CaptureFixture) -> None:
    for number in range(3):
        commit(LAYER.format(products=4 + number), f"commit {number}")
    git("branch", "other", "HEAD~1")
    commit(LAYER.format(products=4), "a commit that other lacks")
    subprocess.run(["git", "clone", "--depth", "1", Path.cwd().as_uri(), "shallow"], check=True, capture_output=True)
    Path("notes").mkdir()
    Path("notes/kept.txt").write_text("mine")
    for span, more, sentence in (
        ("HEAD", [], "'HEAD' is not of the form GOOD..BAD, such as v1.0..main"),
        ("HEAD...main", [], "'HEAD...main' is not of the form GOOD..BAD"),
        ("v9..HEAD", [], "v9: git knows no such commit"),
        ("HEAD..other", [], "the first parents of other do not lead back to HEAD"),
        ("HEAD..HEAD", [], "the first parents of HEAD do not lead back to HEAD"),
        ("HEAD~1..HEAD", ["batch_size=1,2"], "bisect takes one case: give one value of batch_size"),
        ("HEAD~1..HEAD", ["impl=attention.naive"], "bisect needs a layer of this repository, as module:Class"),
        ("HEAD~1..HEAD", ["out=notes"], "notes"),
    ):
        assert main(["bisect", span, *(one for one in TINY if not more or more[0][:5] != one[:5]), *more]) == 2, span
        out, err = capsys.readouterr()
        assert sentence in err
        assert (out, err.count("\n")) == ("", 1)
    os.chdir("shallow")
    assert main(["bisect", "HEAD~2..HEAD", *TINY]) == 2
    assert "HEAD~2: git knows no such commit (a shallow clone may lack it" in capsys.readouterr().err


@pytest.mark.slow
def test_a_layer_of_an_installed_package_is_an_error(capsys: pytest.CaptureFixture) -> None:
    for number in range(2):
        commit(LAYER.format(products=4), f"commit {number}")
    assert main(["bisect", "HEAD~1..HEAD", "impl=torch.nn:Identity", *TINY[1:]]) == 2
    err = capsys.readouterr().err
    assert "impl 'torch.nn:Identity' is from " in err
    assert "which is not of this repository: it would be the same at all commits" in err
    assert worktrees() == 1


def plant(monkeypatch: pytest.MonkeyPatch, log_ratio: Callable[[int, int], float]) -> None:
    """Let each block return a log ratio that depends on the numbers of its commits."""
    numbers = {line[:10]: -at for at, line in enumerate(git("rev-list", "HEAD").splitlines())}

    def take(a: Side, b: Side, rng: random.Random) -> Block:
        return Block(log_ratio(numbers[a.name], numbers[b.name]) + rng.gauss(0.0, 0.005), "", ())

    monkeypatch.setattr(bisection, "take_block", take)
    monkeypatch.setattr(Sides, "renew", lambda sides: time.sleep(0.01))  # less time than new fork servers take


@pytest.mark.slow
def test_what_a_search_says_of_planted_times(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    for number in range(12):
        commit(LAYER.format(products=4), f"commit {number}")

    def search(*more: str) -> tuple[int, str]:
        status = main(["bisect", "HEAD~11..HEAD", *TINY, *more])
        return status, " ".join(capsys.readouterr().out.split())

    plant(monkeypatch, lambda a, b: 0.1 * (b >= -4) - 0.1 * (a >= -4))
    status, out = search("out=step")
    assert status == 0
    assert re.search(r"The time changes by \+\d+\.\d % .* at \w+ \(commit 7\)\.", out)
    assert re.search(r"Side by side with the commit before, the change is \+(9|10|11)\.", out)

    plant(monkeypatch, lambda a, b: 0.1 * ((b >= -8) + (b >= -2)))
    status, out = search("out=two")
    assert status == 0
    assert "The time changes at more than one commit. The likeliest two are " in out
    span = re.search(r"Search a shorter range next, such as (\w+\.\.\w+)\.", out)
    assert span is not None
    assert main(["bisect", span[1], *TINY, "out=shorter"]) == 0
    assert re.search(
        r"The time changes by \+(9|10|11)\.\d % .* \(commit 3\)\.", " ".join(capsys.readouterr().out.split())
    )

    plant(monkeypatch, lambda a, b: 0.1)
    status, out = search("out=biased")
    assert status == 3
    assert "undecided: the first commit, measured against itself, came out +10." in out
    assert "when the machine is quiet" in out

    noise = itertools.cycle([0.4] * Rules().generation + [-0.4] * Rules().generation)
    plant(monkeypatch, lambda a, b: next(noise))
    status, out = search("out=noisy")
    assert status == 3
    assert "between both ends neither shows nor excludes a difference of 3 %. Repeat the command with a new out=" in out

    noise = itertools.cycle([0.1] * Rules().generation + [-0.1] * Rules().generation)
    plant(monkeypatch, lambda a, b: 0.05 * (b >= -4) + next(noise) * (b == 0))  # unclear after 12 generations
    status, out = search("out=unclear")
    assert status == 0
    assert "(commit 7)." in out

    plant(monkeypatch, lambda a, b: 0.1 * (b >= -4))
    status, out = search("out=hurried", "minutes=0.0001")
    assert status == 3
    assert "the time was up before both ends were compared. Repeat the command with minutes=0.0002 out=hurried" in out
    assert search("out=hurried", "minutes=1")[0] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("few_short_blocks")
def test_a_slower_commit_is_found_by_time_and_an_interrupted_search_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for number in range(5):
        commit(LAYER.format(products=4 if number < 3 else 12), f"commit {number}")
    command = ["bisect", "HEAD~4..HEAD", *TINY, "--time", "threshold=0.5", "out=found"]
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


def test_the_environment_cannot_vary(capsys: pytest.CaptureFixture) -> None:
    assert main(["bisect", "HEAD~1..HEAD", f"env={sys.prefix}", *TINY]) == 2
    assert f"env={sys.prefix}: bisect compares commits in its own environment: leave env out" in capsys.readouterr().err
