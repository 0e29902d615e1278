"""The outcome of a trial, from the answer of its process or from the way the process ended."""

import re
import signal
from typing import Any

from harness.sweep.answers import OF_FAILURES, InvalidAnswer, check, parsed

# Reasons are one line. A longer one is cut after this many characters.
_LONGEST_REASON = 2000
# Whole escape sequences of terminals, and single control characters.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|[\x00-\x1f\x7f-\x9f]")
# Signals that a process causes by its own fault. No other process has killed it.
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


def outcome_of(sent: bytes, purpose: str) -> dict[str, Any]:
    """The answer in the first line that the trial sent, or an error that says why it is not valid.

    A layer that forks, or that finds the pipe, may have written to it as well.
    """
    try:
        answer = parsed(sent.partition(b"\n")[0])
        check(answer, purpose)
    except InvalidAnswer as error:
        return failed("error", f"the answer of its process is not valid: {error}")
    reason = answer.get("reason")
    answer["reason"] = None if reason is None else plain(reason)[:_LONGEST_REASON]
    return answer if answer["status"] == "ok" else {name: answer[name] for name in OF_FAILURES if name in answer}


def plain(text: str) -> str:
    """Remove escape sequences and control characters, which an exception's text may contain."""
    return _CONTROL.sub("", text)


def death(exit_code: int) -> dict[str, Any]:
    """The outcome of a process that ended without an answer. `exit_code` is negative for a signal's number."""
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
    """An outcome that holds only a status and a reason."""
    return {"status": status, "reason": reason}
