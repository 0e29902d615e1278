"""What is kept of a part: its state, its command, all that it printed and all that it measured, in one folder."""

import csv
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpu_evidence.parts import Part

NOT_BEGUN, RUNNING, DONE, OUT_OF_TIME, FAILED = "not begun", "running", "done", "out of time", "failed"


@dataclass
class State:
    """How far a part has come. `seconds` is the time of all attempts. A part that was killed is still `running`."""

    status: str = NOT_BEGUN
    seconds: float = 0.0
    attempts: int = 0
    reason: str = ""
    process: int | None = None


class PartFolder:
    """The folder of one part below that of all runs."""

    def __init__(self, part: Part, runs: Path) -> None:
        self.part, self.runs, self.path = part, runs, runs / part.name
        self.output, self.evidence = self.path / "output.txt", self.path / part.evidence
        self._state = self.path / "state.json"
        self.state = State(**read_json(self._state))
        self._printed_before = self._evidence_before = 0

    def save(self) -> None:
        """Write the state, whole or not at all."""
        replacement = self._state.with_suffix(".tmp")
        replacement.write_text(json.dumps(asdict(self.state)))
        replacement.replace(self._state)

    def begin(self) -> None:
        """Note the command and what is there before it. Lines that were cut off are removed."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "command.txt").write_text(f"{self.printed_command()}\n")
        for file in self.path.glob("*.jsonl"):
            _remove_torn_lines(file)
        self._printed_before, self._evidence_before = _size(self.output), _size(self.evidence)

    def command(self) -> list[str]:
        """The command with this folder's path."""
        return [self._located(word) for word in self.part.command]

    def printed_command(self) -> str:
        """The command with its variables, as a shell takes it in the folder of all runs."""
        variables = [f"{name}={shlex.quote(self._relative(value))}" for name, value in self.variables().items()]
        words = ["python", *(self._relative(word) for word in self.command()[1:])]
        return " ".join([*variables, shlex.join(words)])

    def _relative(self, text: str) -> str:
        return text.replace(f"{self.runs}{os.sep}", "")

    def variables(self) -> dict[str, str]:
        """The part's own variables of the environment."""
        return {name: self._located(value) for name, value in self.part.variables}

    def _located(self, text: str) -> str:
        return text.replace("{folder}", str(self.path))

    def kept_files(self) -> Iterator[Path]:
        """The files that grow while the part measures."""
        return (file for file in self.path.glob(self.part.kept) if file.is_file())

    def lack(self) -> str:
        """What is missing though the command has ended well; empty if the part is done.

        Evidence of earlier attempts is not enough where this one has skipped a test and added nothing.
        """
        size, skip = _size(self.evidence), self._first_skip()
        if size == 0 or (skip and size == self._evidence_before):
            return skip or f"it has written no {self.part.evidence}"
        if self.evidence.suffix == ".csv" and not _has_a_time(self.evidence):
            return "no case has a time"
        return ""

    def last_lines(self) -> list[str]:
        """The end of what this attempt has printed, without empty lines. A line that was redrawn counts once."""
        text = self._printed()
        redrawn = (line.rpartition("\r")[2].rstrip() for line in text.replace("\r\n", "\n").split("\n"))
        return [line for line in redrawn if line][-self.part.printed_lines :]

    def _printed(self) -> str:
        return self.output.read_bytes()[self._printed_before :].decode(errors="replace")

    def _first_skip(self) -> str:
        """Why pytest skipped a test of this attempt, from its summary; empty if it skipped none."""
        return next((line for line in self._printed().splitlines() if line.startswith("SKIPPED [")), "")


def read_json(file: Path) -> dict[str, Any]:
    """What a file says; nothing if there is no such file or it was cut off."""
    return (_parsed(file.read_bytes()) if file.exists() else None) or {}


def _parsed(text: bytes) -> dict[str, Any] | None:
    try:
        said: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return said


def _remove_torn_lines(file: Path) -> None:
    """Leave out what a kill or a full disk has cut off. Each line is an object of JSON."""
    content = file.read_bytes()
    whole = [line for line in content.splitlines() if _parsed(line) is not None]
    if (kept := b"".join(line + b"\n" for line in whole)) != content:
        replacement = file.with_suffix(".tmp")
        replacement.write_bytes(kept)
        replacement.replace(file)


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _has_a_time(summary: Path) -> bool:
    """Whether a sweep has timed any case."""
    with summary.open(newline="") as file:
        return any(row["time_s"] for row in csv.DictReader(file))
