"""What is kept of a part: its state, its command, all that it printed and all that it measured, in one folder."""

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

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


@dataclass
class PartFolder:
    """The folder of one part below that of all runs."""

    part: Part
    runs: Path
    state: State = field(init=False)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.state = State(**json.loads(self._state.read_text())) if self._state.exists() else State()

    @property
    def path(self) -> Path:
        return self.runs / self.part.name

    @property
    def output(self) -> Path:
        return self.path / "output.txt"

    @property
    def _state(self) -> Path:
        return self.path / "state.json"

    def save(self) -> None:
        """Write the state, whole or not at all."""
        replacement = self._state.with_suffix(".tmp")
        replacement.write_text(json.dumps(asdict(self.state)))
        replacement.replace(self._state)

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

    def has_evidence(self) -> bool:
        """Whether the part has written what it is run for."""
        evidence = self.path / self.part.evidence
        return evidence.is_file() and evidence.stat().st_size > 0

    def last_lines(self) -> list[str]:
        """The end of what the part has printed, without empty lines. A line that was redrawn counts once."""
        text = self.output.read_text(errors="replace")
        redrawn = (line.rpartition("\r")[2].rstrip() for line in text.replace("\r\n", "\n").split("\n"))
        return [line for line in redrawn if line][-self.part.printed_lines :]

    def first_skip(self) -> str:
        """Why pytest skipped a test, from its summary; empty if it skipped none."""
        lines = self.output.read_text(errors="replace").splitlines()
        return next((line for line in lines if line.startswith("SKIPPED [")), "")
