"""What came of a trial, whatever its process has said, or ended without saying."""

import json
import re
import signal
from typing import Any

from harness.case import FAILURES

_STATUSES = ("ok", *FAILURES)
# Of a terminal's sequences all, of other control characters each.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|[\x00-\x1f\x7f-\x9f]")
# What a process gets for what it has done itself: nobody has killed it.
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


def outcome_of(sent: bytes) -> dict[str, Any]:
    """What the trial says in its first line: a layer that forks, or finds the pipe, may have written there too."""
    try:
        outcome = json.loads(sent.partition(b"\n")[0])
    except ValueError:
        outcome = None
    if isinstance(outcome, dict) and outcome.get("status") in _STATUSES:
        return {**outcome, "reason": plain(outcome["reason"])} if isinstance(outcome.get("reason"), str) else outcome
    return failed("error", "what its process answered is no result")


def plain(text: str) -> str:
    """The text of an exception, in which there may be anything, without what would move somebody's cursor or colour
    their screen.
    """
    return _CONTROL.sub("", text)


def death(exit_code: int) -> dict[str, Any]:
    """The outcome of a process that ended without one; `exit_code` is negative for a signal's number."""
    if -exit_code in _CRASHES:
        return failed("error", f"its process crashed: {_name(-exit_code)}")
    if exit_code < 0:
        return failed("killed", f"by {_name(-exit_code)}")
    return failed("error", f"its process ended with exit status {exit_code} and without a result")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return f"signal {number}"


def failed(status: str, reason: str) -> dict[str, Any]:
    """The outcome of a trial that has none of its own."""
    return {"status": status, "reason": reason}
