"""The exit status of each command, however the command ends, and output in an encoding that lacks its characters."""

import importlib
import io
import os
import subprocess
import sys

import pytest

from harness.cli import commands
from harness.core.model.errors import UsageError

ENDS = {
    "nothing got worse": (lambda _: 0, 0),
    "something got worse": (lambda _: 1, 1),
    "a usage error": (UsageError("no"), 2),
    "a full disk": (OSError(28, "No space left on device"), 2),
    "an interrupt": (KeyboardInterrupt(), 130),
    **{f"{bug.__name__} of the harness": (bug("bug"), 70) for bug in (ValueError, RecursionError, MemoryError)},
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("command", commands.COMMANDS)
def test_the_status_tells_how_a_command_ended(
    command: str, end: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    outcome, status = ENDS[end]

    def run(options: None) -> int:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome(options)

    entry = commands.COMMANDS[command]
    monkeypatch.setattr(importlib.import_module(entry.module), f"run_{entry.function_name}", run)
    monkeypatch.setattr("harness.cli.parsers.parse_options", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["harness", command])
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as ended:
        commands.run_process()
    assert ended.value.code == status
    assert status in commands.EXIT_STATUSES
    assert ("Traceback" in capsys.readouterr().err) == (status == commands.CRASHED)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("arguments", [[], *([name, "--help"] for name in commands.COMMANDS), ["list"], ["list", "²"]])
def test_a_terminal_that_lacks_a_character_shows_its_code(
    arguments: list[str], encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding=encoding) for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    try:
        status = commands.main(arguments)
    except SystemExit as ended:  # --help
        status = ended.code
    assert status == (0 if arguments[-1:] in (["--help"], ["list"]) else 2)
    assert all(stream.buffer.getvalue().isascii() or encoding != "ascii" for stream in streams.values())


def test_a_printed_law_is_readable_in_ascii() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "harness", "list", "attention.naive"]
    done = subprocess.run(command, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"n\xb2" in done.stdout
