"""A command whose reader goes away, or whose output finds no room, ends as it would have, and says what was lost."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rows import usual_lines

from harness.cli.commands import COMMANDS, SafeStream, main
from harness.core.config import compose
from harness.core.results.columns import table

FULL = "harness: standard output cannot be written to (No space left on device): "
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of which only the tables were kept."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(compose([]).record)
    (run / "machine.json").write_text("{}")
    table(usual_lines()).to_csv(run / "summary.csv", index=False)
    return run


def ended(arguments: Sequence[str], stdout: int) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120
    )
    return done.returncode, done.stderr


def notice_of(run: Path, arguments: Sequence[str]) -> str:
    """What a command that reads the run says of it."""
    return f"harness: {run} has no rows/: rebuilt from summary.csv, which holds one line per case\n" * (
        str(run) in arguments
    )


def asked_of(run: Path) -> list[list[str]]:
    at = ["seq_len=9999", "d_model=128", "num_heads=2"]
    typed = [
        ["list"],
        ["--help"],
        ["sweep", "--cfg"],
        ["predict", str(run), *at, "impl=attention.fused"],
        ["recommend", str(run), *at],
        ["export", str(run), "--format", "csv"],
    ]
    return [arguments for arguments in typed if arguments[0] in ("--help", *COMMANDS)]


def test_a_reader_that_has_gone_away_is_no_error_of_any_command(run: Path) -> None:
    for arguments in asked_of(run):
        read, write = os.pipe()
        os.close(read)
        assert ended(arguments, write) == (0, notice_of(run, arguments)), arguments
        os.close(write)


@needs_full
def test_what_finds_no_room_is_said_to_be_standard_output(run: Path) -> None:
    for arguments in asked_of(run):
        with open("/dev/full", "wb") as full:
            status, said = ended(arguments, full.fileno())
        said = said.removeprefix(notice_of(run, arguments))
        assert (status, said[: len(FULL)], said.count("\n")) == (2, FULL, 1), arguments


def test_a_command_may_have_no_standard_output_at_all() -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m harness list >&-"], stderr=subprocess.PIPE, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_gets_worse_is_told_by_the_status_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.commands._carry_out", lambda _: print("slower", flush=True) or 1)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        assert main(["check"]) == 1


@needs_full
@pytest.mark.parametrize("what", ["text", "bytes"])
def test_a_stream_that_fails_once_is_silent_from_then_on(what: str) -> None:
    with open("/dev/full", "w") as full:
        stream = SafeStream(full)
        place, said = (stream, "said") if what == "text" else (stream.buffer, b"said")
        for _ in range(2):
            assert place.write(said) == 4
            place.flush()
        assert stream.lost == "No space left on device"
        full.write("what is left in the buffer fails no more")
