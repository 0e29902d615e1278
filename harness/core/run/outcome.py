"""The outcome of a trial, from the answer of its process or from the way the process ended.

A layer runs in the trial's process and can write to its pipe, so no answer is trusted. `results.row` lists the
entries that later code reads, with their types and bounds. Other entries are kept if they are plain JSON with finite
numbers.
"""

import json
import math
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.core.model.sweep_axes import FAILURES
from harness.core.results.row import LARGEST, OF_ALL, OF_FAILURES, ROW_ENTRIES, Check, InvalidRow, kind_of
from harness.core.trial.sandbox import Answer

# The rest of a larger answer is not read.
MOST_BYTES = 64 * 2**20
STATUSES = ("ok", *FAILURES)
_DEEPEST = 16
# Reasons are one line. A longer one is cut after this many characters.
_LONGEST_REASON = 2000
# No trial takes longer. How long this one took is not known yet.
_LONGEST_S = 1e9
# Whole escape sequences of terminals, and single control characters.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|[\x00-\x1f\x7f-\x9f]")
# Signals that a process causes by its own fault. No other process has killed it.
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


@dataclass(frozen=True)
class TrialOutcome:
    """How a trial ended: `ok`, or one of the failures with its reason.

    `values` are the entries of its answer by name: the measured values, of which a failure has none. The trial took
    `wall_s` seconds, including its start and end; None if it has not been timed.
    """

    status: str
    reason: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    wall_s: float | None = None

    @classmethod
    def of_answer(cls, sent: bytes, purpose: str) -> "TrialOutcome":
        """The answer in the first line that the trial sent, or an error that says why it is not valid.

        A layer that forks, or that finds the pipe, may have written to it as well.
        """
        try:
            answer = parsed(sent.partition(b"\n")[0])
            check(answer, purpose)
        except InvalidRow as error:
            return cls("error", f"the answer of its process is not valid: {error}")
        status, reason = answer.pop("status"), answer.pop("reason", None)
        values = {name: value for name, value in answer.items() if status == "ok" or name in OF_FAILURES}
        return cls(status, reason and printable_reason(reason)[:_LONGEST_REASON], values)

    @classmethod
    def of_exit(cls, exit_code: int) -> "TrialOutcome":
        """The outcome of a process that ended without an answer. `exit_code` is negative for a signal's number."""
        if -exit_code in _CRASHES:
            return cls("error", f"its process crashed: {_name(-exit_code)}")
        if exit_code < 0:
            return cls("killed", f"by {_name(-exit_code)}")
        return cls("error", f"its process ended with exit status {exit_code} and without a result")

    @property
    def ok(self) -> bool:
        """Whether the trial has its values."""
        return self.status == "ok"

    @property
    def entries(self) -> dict[str, Any]:
        """The outcome as entries of a row."""
        wall_s = {} if self.wall_s is None else {"wall_s": self.wall_s}
        return {"status": self.status, "reason": self.reason, **self.values, **wall_s}


def parsed(line: bytes) -> Answer:
    """Parse the JSON object in the line. Raises InvalidRow if it is too long, no object, or has a bad entry."""
    if len(line) > MOST_BYTES:
        raise InvalidRow(f"it is longer than {MOST_BYTES // 2**20} MiB")
    try:
        answer = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidRow("it is not JSON") from error
    if not isinstance(answer, dict):
        raise InvalidRow("it is not a JSON object")
    for name, value in answer.items():
        if name in ROW_ENTRIES or not _is_plain(value, _DEEPEST):
            raise InvalidRow(f"{name[:40]!r} cannot be part of it")
    return answer


def check(answer: Answer, purpose: str) -> None:
    """Raise InvalidRow unless the answer is complete.

    A failure needs its reason. A success needs all entries of the purpose.
    """
    status = answer.get("status")
    if status not in STATUSES:
        raise InvalidRow("it has no known 'status'")
    check_entries(answer, OF_ALL if status == "ok" else OF_FAILURES)
    if status != "ok":
        return
    kind = kind_of(purpose)
    if "family" in answer and "family" not in kind.entries:
        raise InvalidRow("'family' cannot be part of it")
    check_entries(answer, kind.entries)
    if kind.value is not None:
        # The reader of rows would skip such an answer, so the driver must not count it as a measurement.
        kind.value({**answer, "wall_s": _LONGEST_S})


def check_entries(answer: Answer, entries: Mapping[str, Check]) -> None:
    """Raise InvalidRow unless the answer, or a line before it, has these entries."""
    for name, fits in entries.items():
        if name not in answer and not fits(None):
            raise InvalidRow(f"'{name}' is missing")
        if not fits(answer.get(name)):
            raise InvalidRow(f"'{name}' is not what it must be")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_plain(value: Any, deepest: int) -> bool:
    if isinstance(value, dict | list):
        values = value.values() if isinstance(value, dict) else value
        return deepest > 0 and all(_is_plain(item, deepest - 1) for item in values)
    return math.isfinite(value) if type(value) is float else type(value) is not int or abs(value) < LARGEST


def printable_reason(text: str) -> str:
    """Remove escape sequences and control characters, which an exception's text may contain."""
    return _CONTROL.sub("", text)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return f"signal {number}"
