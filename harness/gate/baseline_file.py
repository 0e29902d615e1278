"""A baseline as a file: JSON in a fixed order, one small item a line, so that diffs are easy to read.

Users may edit the file. Reading reports a damaged file in one line.
"""

import json
import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from harness.analysis.claims_table import VERDICTS
from harness.analysis.series import METRICS
from harness.case import FAILURES
from harness.errors import UsageError, did_you_mean
from harness.files import read_text, write_atomically
from harness.fit.laws import Range
from harness.former_names import STATUSES as FORMER_STATUSES
from harness.former_names import present_status
from harness.gate.baseline import (
    COUNTS,
    TIMED,
    Baseline,
    ClaimKept,
    Facts,
    FindingId,
    LawKept,
    group,
    parse_case,
    parse_finding_id,
)

SCHEMA = 1
NOTE = "by the clock: another at every run. Of the laws only how time grows is checked, and no time ever"
AXES = ("n", "d")


def baseline_text(baseline: Baseline) -> str:
    """The file's text. For two runs of the same code, only the section `timed` can differ."""
    exact, timed = (
        {name: one for name, one in _laws_text(baseline).items() if (name.what == TIMED) is is_timed}
        for is_timed in (False, True)
    )
    claims, of_time = (
        {name: one for name, one in _claims_text(baseline).items() if (name.what == TIMED) is is_timed}
        for is_timed in (False, True)
    )
    held = {
        "schema": SCHEMA,
        "harness": baseline.harness,
        "torch": baseline.torch,
        "seed": baseline.seed,
        "machine": dict(baseline.machine),
        "cases": {case.key: _facts_text(baseline.cases[case]) for case in sorted(baseline.cases)},
        "laws": _sorted_by_key(exact),
        "claims": _sorted_by_key(claims),
        "timed": {
            "note": NOTE,
            "laws": _sorted_by_key(timed),
            "claims": _sorted_by_key(of_time),
            "times_s": {case.key: float(f"{baseline.times_s[case]:.3g}") for case in sorted(baseline.times_s)},
        },
    }
    return json.dumps(held, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _facts_text(facts: Any) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in ("status", "reason", *COUNTS, "backend")}


def _laws_text(baseline: Baseline) -> dict[FindingId, dict[str, Any]]:
    return {name: _law_text(law) for name, law in baseline.laws.items()}


def _law_text(law: LawKept) -> dict[str, Any]:
    held: dict[str, Any] = {"law": law.law, "exact": law.exact, "determined": law.determined}
    for axis in AXES:
        found: Range | None = getattr(law, f"exponent_{axis}")
        ends = (found.value, found.lo, found.hi) if found else (None, None, None)
        names = (f"exponent_{axis}", f"exponent_{axis}_lo", f"exponent_{axis}_hi")
        # JSON has no infinity, so an unbounded end is null.
        held |= {
            name: end if end is not None and math.isfinite(end) else None for name, end in zip(names, ends, strict=True)
        }
    return held


def _claims_text(baseline: Baseline) -> dict[FindingId, dict[str, Any]]:
    return {
        name: {"claimed": one.claimed, "measured": one.measured, "verdict": one.verdict}
        for name, one in baseline.claims.items()
    }


def _sorted_by_key(held: dict[FindingId, dict[str, Any]]) -> dict[str, Any]:
    def order(name: FindingId) -> tuple[Any, ...]:
        metric = METRICS.index(name.what) if name.what in METRICS else len(METRICS)
        return name.impl, name.setting, metric, name.what

    return {name.key: held[name] for name in sorted(held, key=order)}


class DamagedBaseline(ValueError):
    """Why a file is not a baseline. The message follows the file's name."""


class Fields:
    """The fields of one object in the file. `place` names the object in messages.

    Raises DamagedBaseline for a value that is no object, an unknown field, a missing field or a field of the wrong
    type.
    """

    def __init__(self, held: object, place: str, names: Collection[str]) -> None:
        if not isinstance(held, dict):
            raise DamagedBaseline(f"{place} is {_kind_name(held)}, not an object")
        for name in held:
            if name not in names:
                raise DamagedBaseline(f"{place} has '{name}', which is unknown{did_you_mean(name, names)}")
        for name in names:
            if name not in held:
                raise DamagedBaseline(f"{place} lacks '{name}'")
        self._held: dict[str, Any] = held
        self._place = place

    def text(self, name: str, one_of: Collection[str] = ()) -> str:
        """A text. If `one_of` is given, it must be one of these."""
        value = self._held[name]
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        if one_of and value not in one_of:
            raise DamagedBaseline(f"{self._place}: unknown {name} '{value}'{did_you_mean(value, one_of)}")
        return value

    def text_or_none(self, name: str) -> str | None:
        """A text or null."""
        return None if self._held[name] is None else self.text(name)

    def count(self, name: str) -> int:
        """A whole number of at least 0."""
        value = self._held[name]
        if type(value) is not int or value < 0:
            raise self._wrong(name, "a whole number from 0 on")
        return value

    def count_or_none(self, name: str) -> int | None:
        """A whole number of at least 0, or null."""
        return None if self._held[name] is None else self.count(name)

    def number_or_none(self, name: str) -> float | None:
        """A finite number or null."""
        value = self._held[name]
        if value is None:
            return None
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self._wrong(name, "a number")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._held[name]
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def members(self, name: str) -> dict[str, Any]:
        """An object with arbitrary names."""
        value = self._held[name]
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value

    def _wrong(self, name: str, what: str) -> DamagedBaseline:
        return DamagedBaseline(f"{self._place}: {name} is {_kind_name(self._held[name])}, not {what}")


def _kind_name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    said = f"the text '{value}'" if isinstance(value, str) else str(value).lower()
    return said if len(said) <= 60 else f"{said[:59]}…"


STATUSES = ("ok", *FAILURES)
_TOP = ("schema", "harness", "torch", "seed", "machine", "cases", "laws", "claims", "timed")
_TIMED = ("note", "laws", "claims", "times_s")
_CASE = ("status", "reason", *COUNTS, "backend")
_LAW = ("law", "exact", "determined", *(f"exponent_{axis}{end}" for axis in AXES for end in ("", "_lo", "_hi")))
_CLAIM = ("claimed", "measured", "verdict")
_MOST_SEED = 2**63
_Key = TypeVar("_Key")
_Held = TypeVar("_Held")


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Replace the file's content with the baseline, whole or not at all.

    Raises UsageError if the file cannot be written.
    """
    text = baseline_text(baseline)
    target = path.resolve()  # replace a link's target, not the link
    try:
        if target.exists() and not target.is_file():  # a directory raises OSError; a pipe is written to directly
            target.write_text(text, encoding="utf-8", errors="replace")
            return
        write_atomically(target, text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def read_baseline(path: Path) -> Baseline:
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
    except DamagedBaseline as damage:
        raise UsageError(f"{path} is not a baseline that can be read: {damage}") from damage


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except DamagedBaseline:
        raise
    except json.JSONDecodeError as error:
        where = "it is empty" if not text.strip() else f"line {error.lineno} is not JSON, or the file is cut off"
        raise DamagedBaseline(where) from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or lists nested too deeply
        raise DamagedBaseline("it is not JSON that anybody wrote") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DamagedBaseline(f"'{twice}' stands there twice")
    return held


def _no_number(name: str) -> float:
    raise DamagedBaseline(f"{name} is no number")


def _baseline(held: Any) -> Baseline:
    schema = held.get("schema") if isinstance(held, dict) else None
    if schema is None:
        raise DamagedBaseline("it has no schema")
    if type(schema) is not int or schema != SCHEMA:
        raise DamagedBaseline(f"its schema is {schema}, this harness reads {SCHEMA}: write a new one with `baseline`")
    top = Fields(held, "the file", _TOP)
    timed = Fields(top.members("timed"), "timed", _TIMED)
    seed = top.count("seed")
    if seed >= _MOST_SEED:
        raise DamagedBaseline(f"seed is {seed}: it takes whole numbers up to 2^63 - 1")
    cases = _entries(top.members("cases"), "cases", parse_case, _read_facts)
    if not cases:
        raise DamagedBaseline("it names no case")
    laws = {**_read_laws(top, "laws", of_time=False), **_read_laws(timed, "laws", of_time=True)}
    claims = {**_read_claims(top, "claims", of_time=False), **_read_claims(timed, "claims", of_time=True)}
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
            raise DamagedBaseline(f"'{name.key}' is of no case that it names")
    return found


def _entries(
    held: dict[str, Any], place: str, key: Callable[[str], _Key], take: Callable[[object, str], _Held]
) -> dict[_Key, _Held]:
    found: dict[_Key, _Held] = {}
    for text, value in held.items():
        try:
            name = key(text)
        except (ValueError, UsageError) as error:
            raise DamagedBaseline(f"{place}: '{text[:200]}' names nothing: {error}") from error
        if name in found:
            raise DamagedBaseline(f"{place}: '{text}' stands there twice")
        found[name] = take(value, f"'{text}'")
    return found


def _read_facts(held: object, place: str) -> Facts:
    of_it = Fields(held, place, _CASE)
    counts = {name: of_it.count_or_none(name) for name in COUNTS}
    return Facts(
        present_status(of_it.text("status", (*STATUSES, *FORMER_STATUSES))),
        of_it.text_or_none("reason"),
        of_it.text_or_none("backend"),
        **counts,
    )


def _read_laws(of_it: Fields, name: str, of_time: bool) -> dict[FindingId, LawKept]:
    return _entries(of_it.members(name), name, lambda key: _where(key, of_time, METRICS), _read_law)


def _read_claims(of_it: Fields, name: str, of_time: bool) -> dict[FindingId, ClaimKept]:
    return _entries(of_it.members(name), name, lambda key: _where(key, of_time), _read_claim)


def _where(key: str, of_time: bool, known: tuple[str, ...] = ()) -> FindingId:
    name = parse_finding_id(key)
    if known and name.what not in known:
        raise ValueError(f"a law is of one of {', '.join(known)}")
    if (name.what == TIMED) is not of_time:
        raise ValueError("`timed` must hold everything about time, and nothing else")
    return name


def _read_law(held: object, place: str) -> LawKept:
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
        raise DamagedBaseline(f"{place}: exponent_{axis} does not lie between its ends")
    return found


def _read_claim(held: object, place: str) -> ClaimKept:
    of_it = Fields(held, place, _CLAIM)
    return ClaimKept(of_it.text("claimed"), of_it.text("measured"), of_it.text("verdict", VERDICTS))
