"""The driver's end of a trial that takes turns: `harness.trial.timing.turns`."""

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from harness.sweep.answers import InvalidAnswer, check_entries, parsed
from harness.sweep.outcome import failed
from harness.sweep.warm_parent import WarmParent, WarmParentLost
from harness.trial.compile_notice import NOTICE

# Places are numbered in one byte.
_PLACES = 256


@dataclass(frozen=True)
class Turn:
    """What one turn said, in seconds a call: the fastest sample, and the mean of all."""

    min_s: float
    mean_s: float


class TurnTrialFailed(Exception):
    """The trial has ended early; `outcome` has its status and reason."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        super().__init__(outcome["reason"])
        self.outcome = outcome


class TurnTrial:
    """One trial, forked from `parent` and waiting for its turns. Every wait is bounded by `timeout_s` seconds."""

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
        """About what a call takes, in seconds, once it has been warmed up. Raises TurnTrialFailed."""
        return float(self._line("warm")["call_s"])

    def turn(self, place: int = 0, anew: bool = False) -> Turn:
        """Give it the turn, on the CPUs of that number (`harness.trial.timing.places`). Raises TurnTrialFailed.

        `anew`: with its layer built anew, and not as it lies.
        """
        with contextlib.suppress(BrokenPipeError):  # it has ended; what it left to read says why
            os.write(self._ask, bytes([place % _PLACES, anew]))
        said = self._line("turn")
        return Turn(said["min_s"], said["mean_s"])

    def end(self) -> dict[str, Any]:
        """No more turns: the trial's outcome, `ok` or why not."""
        if not self._open:
            return failed("error", "it has ended before")
        os.close(self._ask)
        self._open = False
        try:
            return self._outcome(self._parent.read(self._answer, time.monotonic() + self._timeout_s))
        finally:
            os.close(self._answer)

    def abandon(self) -> None:
        """End it whatever it does; of one that has ended, nothing."""
        if self._open:
            with contextlib.suppress(TurnTrialFailed):
                self._fail(None)

    def _line(self, kind: str) -> dict[str, Any]:
        """The next line, `warm` or `turn`. Raises TurnTrialFailed where the trial sent anything else."""
        sent = self._parent.read(self._answer, time.monotonic() + self._timeout_s)
        if sent == NOTICE:  # somebody's own layer, of which nobody knew that it compiles
            sent = self._parent.read(self._answer, time.monotonic() + self._timeout_s)
        line = (sent or b"").removeprefix(NOTICE)  # both at once, where nobody was waiting for either
        said = _said(line, kind)
        if said is None:
            self._fail(sent)
        return said

    def _fail(self, sent: bytes | None) -> NoReturn:
        """Close it, and raise what has become of it."""
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
    """The line's entries; None if it is torn, not valid, or the trial's outcome."""
    try:
        said = parsed(line) if line.endswith(b"\n") else {"status": None}
        if "status" not in said:
            check_entries(said, kind)
    except InvalidAnswer:
        return None
    return None if "status" in said else said
