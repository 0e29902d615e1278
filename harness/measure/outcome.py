"""The outcome of a trial, from the answer of its process or from the way the process ended.

A layer runs in the trial's process and can write to its pipe, so no answer is trusted. For each purpose, the entries
that later code reads are listed with their types and bounds. Other entries are kept if they are plain JSON with finite
numbers.
"""

import json
import math
import re
import signal
from collections.abc import Callable, Mapping
from typing import Any

from harness.case import FAILURES
from harness.results.accumulate_rows import facts_of_row, record_of_row

# The rest of a larger answer is not read.
MOST_BYTES = 64 * 2**20
STATUSES = ("ok", *FAILURES)
# Entries that the driver itself writes into each row.
_OF_THE_ROW = ("schema", "host", "key", "case", "purpose", "round", "at", "wall_s", "anew")
_DEEPEST = 16
# Whole numbers are stored in eight bytes.
_LARGEST = 2.0**63

_Check = Callable[[Any], bool]


class InvalidAnswer(ValueError):
    """The answer is not valid. The message names the part."""


def parsed(line: bytes) -> dict[str, Any]:
    """Parse the JSON object in the line. Raises InvalidAnswer if it is too long, no object, or has a bad entry."""
    if len(line) > MOST_BYTES:
        raise InvalidAnswer(f"it is longer than {MOST_BYTES // 2**20} MiB")
    try:
        answer = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer("it is not JSON") from error
    if not isinstance(answer, dict):
        raise InvalidAnswer("it is not a JSON object")
    for name, value in answer.items():
        if name in _OF_THE_ROW or not _is_plain(value, _DEEPEST):
            raise InvalidAnswer(f"{name[:40]!r} cannot be part of it")
    return answer


def check(answer: Mapping[str, Any], purpose: str) -> None:
    """Raise InvalidAnswer unless the answer is complete.

    A failure needs its reason. A success needs all entries of the purpose.
    """
    status = answer.get("status")
    if status not in STATUSES:
        raise InvalidAnswer("it has no known 'status'")
    _check(answer, _OF_ALL if status == "ok" else OF_FAILURES)
    if status == "ok":
        if "family" in answer and purpose != "describe":
            raise InvalidAnswer("'family' cannot be part of it")
        check_entries(answer, purpose)


def check_entries(answer: Mapping[str, Any], kind: str) -> None:
    """Raise InvalidAnswer unless the answer has the entries of its kind.

    The kind is a purpose, or the kind of a line from an interleaved trial.
    """
    _check(answer, _ENTRIES[kind])
    # The reader of rows would skip such an answer, so the driver must not count it as a measurement.
    if kind == "time" and record_of_row({**answer, "wall_s": 1.0}) is None:
        raise InvalidAnswer("its samples, or what was counted beside them, are not numbers in their bounds")
    if kind == "facts" and facts_of_row(answer) is None:
        raise InvalidAnswer("its facts are not of their types")


def _check(answer: Mapping[str, Any], entries: Mapping[str, _Check]) -> None:
    for name, fits in entries.items():
        if name not in answer and not fits(None):
            raise InvalidAnswer(f"'{name}' is missing")
        if not fits(answer.get(name)):
            raise InvalidAnswer(f"'{name}' is not what it must be")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_plain(value: Any, deepest: int) -> bool:
    if isinstance(value, dict | list):
        values = value.values() if isinstance(value, dict) else value
        return deepest > 0 and all(_is_plain(one, deepest - 1) for one in values)
    return math.isfinite(value) if type(value) is float else type(value) is not int or abs(value) < _LARGEST


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _number(value: Any) -> bool:
    return _finite(value) and value >= 0


def _positive(value: Any) -> bool:
    return _number(value) and value > 0


def _none_or(fits: _Check) -> _Check:
    return lambda value: value is None or fits(value)


def _list_of(fits: _Check) -> _Check:
    return lambda value: isinstance(value, list) and bool(value) and all(map(fits, value))


def _digests(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


_OF_ALL: dict[str, _Check] = {"reason": _none_or(_text), "start_s": _none_or(lambda value: type(value) in (int, float))}
# Entries kept from the answer of a failed trial.
OF_FAILURES = {"status": _text, "reason": _text, "traceback": _none_or(_text), "start_s": _OF_ALL["start_s"]}
_BYTES_OF_FACTS = ("peak_bytes", "peak_resident_bytes", "min_bytes", "weights_bytes", "inputs_bytes", "saved_bytes")
# Entries that may be None may also be missing.
_ENTRIES: dict[str, dict[str, _Check]] = {
    "machine": {"harness": _none_or(_text), "version": _text, "gpu": _none_or(_text)},
    "describe": {
        "import_s": _number,
        "forkable": _flag,
        "family": _text,
        "has_heads": _flag,
        "compiled": _flag,
        "claims_refused": _none_or(_text),
        "file": _none_or(_text),
        "files": _digests,
    },
    "verify": {
        "against": _text,
        "tolerance": _number,
        "output_error": _none_or(_number),
        "gradient_error": _none_or(_number),
        "gradient_tolerance": _none_or(_number),
        "compiled": _none_or(_flag),
    },
    "compile": {"compile_s": _number, "graphs": _count, "graph_breaks": _count},
    "facts": {
        **dict.fromkeys(_BYTES_OF_FACTS, _none_or(_count)),
        "weights_bytes": _count,
        "inputs_bytes": _count,
        **dict.fromkeys(("flops", "flops_full", "ops", "depth", "depth_declared"), _none_or(_count)),
        "flops_claimed": _none_or(_number),
    },
    "time": {
        "samples_s": _list_of(_positive),
        "calls_per_sample": _positive,
        "probe_s": _none_or(_positive),
        "clock_s": _number,
    },
    "turns": {"turns": _count},
    "pulse": {"probe_s": _positive},
    "flops": {"flops_per_s": _positive, "size": _count},
    "bandwidth": {"bandwidth_bytes_per_s": _positive},
    "attention_map": {
        "weights": _list_of(_list_of(_list_of(_finite))),
        "row_error": _number,
        "own_weights": _flag,
    },
    "gradient_reach": {"norms": _list_of(_number), "own_weights": _flag},
    # Lines that an interleaved trial sends before its answer.
    "warm": {"call_s": _positive},
    "turn": {"min_s": _positive, "mean_s": _positive},
}


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
    answer["reason"] = None if reason is None else printable_reason(reason)[:_LONGEST_REASON]
    return answer if answer["status"] == "ok" else {name: answer[name] for name in OF_FAILURES if name in answer}


def printable_reason(text: str) -> str:
    """Remove escape sequences and control characters, which an exception's text may contain."""
    return _CONTROL.sub("", text)


def outcome_of_exit(exit_code: int) -> dict[str, Any]:
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
