"""The driver's end of an interleaved trial, whose other end is `harness.trial.timing.turns`."""

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from harness.sweep.answers import InvalidAnswer, check_entries, parsed
from harness.sweep.outcome import failed
from harness.sweep.warm_parent import WarmParent, WarmParentLost
from harness.trial.compile_notice import NOTICE

# The number of a place is sent as one byte.
_PLACES = 256


@dataclass(frozen=True)
class Turn:
    """The result of one turn, in seconds per call: the fastest sample and the mean of all samples."""

    min_s: float
    mean_s: float


class TurnTrialFailed(Exception):
    """The trial has ended early. `outcome` holds its status and reason."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        super().__init__(outcome["reason"])
        self.outcome = outcome


class TurnTrial:
    """One trial, forked from `parent`, that waits for its turns. Each wait for it lasts at most `timeout_s` seconds."""

    def __init__(self, parent: WarmParent, request: dict[str, Any], timeout_s: float) -> None:
        self._parent = parent
        self._timeout_s = timeout_s
        theirs, self._ask = os.pipe()
        try:
            self._answer = parent.begin(request, theirs)
        except BaseException as error:
            os.close(self._ask)
            if isinstance(error, WarmParentLost):
                raise TurnTrialFailed(failed("killed", str(error))) from error
            raise
        finally:
            os.close(theirs)
        self._process = parent.trial
        self._open = True

    def wait_until_warm(self) -> float:
        """Wait for the end of the warm-up and return the approximate time of a call, in seconds.

        Raises TurnTrialFailed.
        """
        return float(self._line("warm")["call_s"])

    def turn(self, place: int = 0, anew: bool = False) -> Turn:
        """Let the trial time one turn on the CPUs of `place` (`harness.trial.timing.places`).

        With `anew`, the trial builds the layer again first. Raises TurnTrialFailed.
        """
        with contextlib.suppress(BrokenPipeError):  # the trial has ended: its last line says why
            os.write(self._ask, bytes([place % _PLACES, anew]))
        said = self._line("turn")
        return Turn(said["min_s"], said["mean_s"])

    def end(self) -> dict[str, Any]:
        """End the turns and return the trial's outcome."""
        if not self._open:
            return failed("error", "it has ended before")
        os.close(self._ask)
        self._open = False
        try:
            return self._outcome(self._parent.read(self._answer, time.monotonic() + self._timeout_s))
        finally:
            os.close(self._answer)

    def abandon(self) -> None:
        """Kill the trial. If it has ended already, do nothing."""
        if self._open:
            with contextlib.suppress(TurnTrialFailed):
                self._fail(None)

    def _line(self, kind: str) -> dict[str, Any]:
        """The next line, `warm` or `turn`. Raises TurnTrialFailed if the trial sends anything else."""
        sent = self._parent.read(self._answer, time.monotonic() + self._timeout_s)
        if sent == NOTICE:  # a user's layer that was not known to compile
            sent = self._parent.read(self._answer, time.monotonic() + self._timeout_s)
        line = (sent or b"").removeprefix(NOTICE)  # notice and line may have arrived together
        said = _said(line, kind)
        if said is None:
            self._fail(sent)
        return said

    def _fail(self, sent: bytes | None) -> NoReturn:
        """Close the pipes and raise TurnTrialFailed with the trial's outcome."""
        os.close(self._ask)
        self._open = False
        try:
            outcome = self._outcome(sent)
        finally:
            os.close(self._answer)
        if outcome["status"] == "ok":
            outcome = failed("error", "it ended before its last turn")
        raise TurnTrialFailed(outcome)

    def _outcome(self, sent: bytes | None) -> dict[str, Any]:
        if self._parent.trial != self._process:
            return failed("killed", "another trial was begun before it was ended")
        try:
            return self._parent.end(sent, self._timeout_s)
        except WarmParentLost as error:
            return failed("killed", str(error))


def _said(line: bytes, kind: str) -> dict[str, Any] | None:
    """The entries of the line; None if it is torn, not valid, or the trial's outcome."""
    try:
        said = parsed(line) if line.endswith(b"\n") else {"status": None}
        if "status" not in said:
            check_entries(said, kind)
    except InvalidAnswer:
        return None
    return None if "status" in said else said
