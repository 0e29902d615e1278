"""A baseline's file: written whole or not at all. Reading reports a damaged file in one line."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from harness.bounded_file import read_text
from harness.case import FAILURES
from harness.errors import UsageError
from harness.findings.series import METRICS
from harness.findings.verdicts import VERDICTS
from harness.gate.baseline import COUNTS, TIMED, Baseline, ClaimKept, Facts, LawKept
from harness.gate.baseline_text import AXES, SCHEMA, text_of
from harness.gate.fields import Damage, Fields
from harness.gate.keyed import Named, group, read_case, read_name
from harness.scaling.law import Range
from harness.whole_file import write_whole

STATUSES = ("ok", *FAILURES)
_TOP = ("schema", "harness", "torch", "seed", "machine", "cases", "laws", "claims", "timed")
_TIMED = ("note", "laws", "claims", "times_s")
_CASE = ("status", "reason", *COUNTS, "backend")
_LAW = ("law", "exact", "determined", *(f"exponent_{axis}{end}" for axis in AXES for end in ("", "_lo", "_hi")))
_CLAIM = ("claimed", "measured", "verdict")
_MOST_SEED = 2**63
_Key = TypeVar("_Key")
_Held = TypeVar("_Held")


def write(baseline: Baseline, path: Path) -> None:
    """Replace the file's content with the baseline. Raises UsageError if the file cannot be written."""
    text = text_of(baseline)
    target = path.resolve()  # replace a link's target, not the link
    try:
        if target.exists() and not target.is_file():  # a directory raises OSError; a pipe is written to directly
            target.write_text(text, encoding="utf-8", errors="replace")
            return
        write_whole(target, text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def read(path: Path) -> Baseline:
    """The baseline in the file. Raises UsageError, with a message of one line, if the file holds none."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory; a baseline is a file: python -m harness baseline RUN -o FILE")
    try:
        text = read_text(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a baseline: it is no text") from error
    try:
        return _baseline(_parsed(text))
    except Damage as damage:
        raise UsageError(f"{path} is not a baseline that can be read: {damage}") from damage


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except Damage:
        raise
    except json.JSONDecodeError as error:
        where = "it is empty" if not text.strip() else f"line {error.lineno} is not JSON, or the file is cut off"
        raise Damage(where) from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or lists nested too deeply
        raise Damage("it is not JSON that anybody wrote") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Damage(f"'{twice}' stands there twice")
    return held


def _no_number(name: str) -> float:
    raise Damage(f"{name} is no number")


def _baseline(held: Any) -> Baseline:
    schema = held.get("schema") if isinstance(held, dict) else None
    if schema is None:
        raise Damage("it has no schema")
    if type(schema) is not int or schema != SCHEMA:
        raise Damage(f"its schema is {schema}, this harness reads {SCHEMA}: write a new one with `baseline`")
    top = Fields(held, "the file", _TOP)
    timed = Fields(top.members("timed"), "timed", _TIMED)
    seed = top.count("seed")
    if seed >= _MOST_SEED:
        raise Damage(f"seed is {seed}: it takes whole numbers up to 2^63 - 1")
    cases = _each(top.members("cases"), "cases", read_case, _facts)
    if not cases:
        raise Damage("it names no case")
    laws = {**_laws(top, "laws", of_time=False), **_laws(timed, "laws", of_time=True)}
    claims = {**_claims(top, "claims", of_time=False), **_claims(timed, "claims", of_time=True)}
    found = Baseline(
        harness=top.text("harness"),
        torch=top.text("torch"),
        seed=seed,
        machine={name: str(value) for name, value in top.members("machine").items()},
        cases=cases,
        laws=laws,
        claims=claims,
    )
    groups = {group(case) for case in cases}
    for name in (*laws, *claims):
        if (name.impl, name.setting) not in groups:
            raise Damage(f"'{name.key}' is of no case that it names")
    return found


def _each(
    held: dict[str, Any], place: str, key: Callable[[str], _Key], take: Callable[[object, str], _Held]
) -> dict[_Key, _Held]:
    found: dict[_Key, _Held] = {}
    for text, value in held.items():
        try:
            name = key(text)
        except (ValueError, UsageError) as error:
            raise Damage(f"{place}: '{text[:200]}' names nothing: {error}") from error
        if name in found:
            raise Damage(f"{place}: '{text}' stands there twice")
        found[name] = take(value, f"'{text}'")
    return found


def _facts(held: object, place: str) -> Facts:
    of_it = Fields(held, place, _CASE)
    counts = {name: of_it.count_or_none(name) for name in COUNTS}
    return Facts(of_it.text("status", STATUSES), of_it.text_or_none("reason"), of_it.text_or_none("backend"), **counts)


def _laws(of_it: Fields, name: str, of_time: bool) -> dict[Named, LawKept]:
    return _each(of_it.members(name), name, lambda key: _of(key, of_time, METRICS), _law)


def _claims(of_it: Fields, name: str, of_time: bool) -> dict[Named, ClaimKept]:
    return _each(of_it.members(name), name, lambda key: _of(key, of_time), _claim)


def _of(key: str, of_time: bool, known: tuple[str, ...] = ()) -> Named:
    name = read_name(key)
    if known and name.what not in known:
        raise ValueError(f"a law is of one of {', '.join(known)}")
    if (name.what == TIMED) is not of_time:
        raise ValueError("what is of time stands in `timed`, and nothing else does")
    return name


def _law(held: object, place: str) -> LawKept:
    of_it = Fields(held, place, _LAW)
    exponents = (_exponent(of_it, place, axis) for axis in AXES)
    return LawKept(of_it.text("law"), of_it.flag("exact"), of_it.flag("determined"), *exponents)


def _exponent(of_it: Fields, place: str, axis: str) -> Range | None:
    """The exponent along `axis`; None if the axis did not vary. An end that is null is infinite."""
    value, lo, hi = (of_it.number_or_none(f"exponent_{axis}{end}") for end in ("", "_lo", "_hi"))
    if value is None:
        return None
    found = Range(value, -math.inf if lo is None else lo, math.inf if hi is None else hi)
    if not found.lo <= found.value <= found.hi:
        raise Damage(f"{place}: exponent_{axis} does not lie between its ends")
    return found


def _claim(held: object, place: str) -> ClaimKept:
    of_it = Fields(held, place, _CLAIM)
    return ClaimKept(of_it.text("claimed"), of_it.text("measured"), of_it.text("verdict", VERDICTS))
