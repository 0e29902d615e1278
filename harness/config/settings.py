"""Check the settings that are not axes. An invalid value is an error of one line."""

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.case import FAILURES, GROWING
from harness.config.axes import flat
from harness.config.schema import Precision
from harness.errors import UsageError, did_you_mean

# With less memory, the process of a layer would not reach its first line.
LEAST_MEMORY = 16 * 2**20
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def check_out(out: str | None) -> Path | None:
    """The directory that a sweep writes to, or None if it is not set."""
    if out is None:
        return None
    if not out:
        raise UsageError("out=: name a directory")
    # File systems reject NUL, terminals reject half of a surrogate pair, and messages about a run have one line.
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in out):
        raise UsageError(f"out={out!a}: a control character, or a byte that is not UTF-8, is in it")
    return Path(out)


def check_seed(seed: int) -> int:
    """The seed of weights and inputs."""
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed={seed}: it takes whole numbers from 0 to 2^63 - 1")
    return seed


def check_bytes(text: str | None) -> int | None:
    """The number of bytes in a text such as `"8GiB"`, or in a plain number; None if not set."""
    if text is None:
        return None
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        value = int(float(text.removesuffix(unit)) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        value = 0
    if not LEAST_MEMORY <= value < 2**62:
        raise UsageError(f"memory_limit={text}: give bytes, or a number with {', '.join(_UNITS)}; 16MiB at least")
    return value


def check_seconds(seconds: float) -> float:
    """The time limit of a trial that compiles, in seconds."""
    if not 0 < seconds < float("inf"):
        raise UsageError(f"compile_timeout_s={seconds}: it takes a number above 0")
    return seconds


def check_grow(axis: str | None) -> str | None:
    """The axis along which sizes are doubled, or None."""
    if axis is not None and axis not in GROWING:
        raise UsageError(f"grow={axis}{did_you_mean(axis, GROWING)}")
    return axis


def check_retry(statuses: Any) -> tuple[str, ...]:
    """The statuses of the cases to re-run."""
    chosen = tuple(map(str, [] if statuses is None else flat(statuses)))
    for status in chosen:
        if status not in FAILURES:
            raise UsageError(f"retry={status}{did_you_mean(status, FAILURES)}")
    return chosen


def check_precision(precision: Precision) -> Precision:
    """Return `precision` unchanged, after checking each part by itself and the two numbers of rounds together."""
    check_parts(asdict(precision))
    if precision.max_rounds < precision.min_rounds:
        raise UsageError(
            f"precision.max_rounds={precision.max_rounds} is below precision.min_rounds={precision.min_rounds}"
        )
    return precision


def check_parts(precision: Mapping[str, float]) -> None:
    """Check parts of a precision, each by itself. Raises UsageError for the first invalid one."""
    for name, value in precision.items():
        if name == "patience_s" and value == 0:
            continue  # waiting is optional
        if not 0 < value < float("inf"):
            raise UsageError(f"precision.{name}={value}: it takes a number above 0")


# By the name of the setting, for checking a single one.
CHECKS: dict[str, Callable[[Any], Any]] = {
    "out": check_out,
    "seed": check_seed,
    "memory_limit": check_bytes,
    "compile_timeout_s": check_seconds,
    "grow": check_grow,
    "retry": check_retry,
}
