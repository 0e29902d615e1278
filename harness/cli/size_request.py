"""The sizes and the setting that `predict` and `recommend` are asked about, and the lines of the run they read."""

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from harness.analysis.fitted_laws import FittedLaw
from harness.analysis.series import Series, Setting
from harness.errors import UsageError, did_you_mean
from harness.former_names import present_option
from harness.results.run_directory import read_run_directory
from harness.results.table import CaseResult

SIZES = ("seq_len", "d_model", "num_heads")
SETTING = tuple(field.name for field in fields(Setting))


@dataclass(frozen=True)
class SizeRequest:
    """A size, and the setting in which to predict there."""

    n: int
    d: int
    h: int
    b: int
    setting: Setting

    @property
    def size(self) -> tuple[int, int, int, int]:
        """(n, d, h, b)."""
        return self.n, self.d, self.h, self.b

    def __str__(self) -> str:
        one = self.setting
        threads = f", {one.threads} thread{'s' if one.threads > 1 else ''}" if one.device == "cpu" else ""
        mask = f", mask {one.mask}" if one.mask != "none" else ""
        padding = f", {100 * one.padding_fraction:.0f} % padding" if one.padding_fraction else ""
        source = f", source of {one.kv_len}" if one.kv_len else ""
        where = f"{one.mode}{mask}{padding}{source}, {one.dtype}, {one.device}{threads}"
        return f"n = {self.n}, d = {self.d}, h = {self.h}, batch {self.b} ({where})"


def size_keys(texts: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """The values of `key=value` texts by key. Raises UsageError for another form, and an unknown or repeated key."""
    given: dict[str, str] = {}
    for text in map(present_option, texts):
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"'{text}' is not of the form key=value")
        if name not in known:
            raise UsageError(f"unknown key '{name}'{did_you_mean(name, known)}")
        if name in given:
            raise UsageError(f"{name} is given twice")
        given[name] = value
    return given


def whole_number(name: str, text: str) -> int:
    """The size in `text`. Raises UsageError unless it is a whole number from 1 to 10⁹."""
    # No meaningful size is above 10⁹, and a law cannot be evaluated at the powers of larger numbers.
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:11]) <= 10**9):
        raise UsageError(f"{name}={text}: it takes a whole number from 1 to 10⁹")
    return int(text)


def sizes_requested(given: dict[str, str], laws: Iterable[FittedLaw], run: object) -> list[SizeRequest]:
    """The requested sizes, one for each `seq_len`, all in one setting of the run.

    A key that is not given takes the run's value if the run has only one. Raises UsageError if a size or the setting
    is missing, invalid or ambiguous, and if the run has no times.
    """
    if "seq_len" not in given:
        raise UsageError("seq_len is missing: give seq_len=…, or several: seq_len=1024,4096")
    lengths = [whole_number("seq_len", text) for text in dict.fromkeys(given["seq_len"].split(","))]
    timed = [law.series for law in laws if law.series.metric == "time"]
    if not timed:
        raise UsageError(f"{run} has no times to predict from")
    setting = _setting(run, [series.setting for series in timed], given)
    there = [series for series in timed if series.setting == setting]
    if "impl" in given:  # the sizes of other layers do not matter
        there = [series for series in there if series.impl in given["impl"].split(",")] or there
    points = [point for series in there for point in series.points]
    d = _given_values("d_model", given, {point.d for point in points})
    h = _given_values("num_heads", given, _heads(there))
    if d % h:
        raise UsageError(f"d_model={d} is not divisible by num_heads={h}")
    b = _given_values("batch_size", given, {point.b for point in points})
    return [SizeRequest(n, d, h, b, setting) for n in lengths]


def _given_values(name: str, given: dict[str, str], known: Collection[int]) -> int:
    """The given value, or the only value in the run. Raises UsageError if the run has several."""
    if name in given:
        return whole_number(name, given[name])
    if len(known) > 1:
        raise UsageError(f"the run has {_value_list(name, [str(value) for value in sorted(known)])}: say which")
    return next(iter(known))


def _heads(there: Iterable[Series]) -> set[int]:
    """The numbers of heads of the layers with heads, or {1} if none has any. Layers without heads are measured at 1."""
    of_each: dict[str, set[int]] = {}
    for series in there:
        of_each.setdefault(series.impl, set()).update(point.h for point in series.points)
    return set().union(*(heads for heads in of_each.values() if heads != {1})) or {1}


def _setting(run: object, known: Iterable[Setting], given: dict[str, str]) -> Setting:
    """The one setting that matches the given keys. Raises UsageError if none or several match."""
    left = list(dict.fromkeys(known))
    wanted = {name: value for name, value in given.items() if name in SETTING}
    if any(setting.mode == "forward" for setting in left):
        wanted.setdefault("mode", "forward")
    if wanted.get("mode") == "decode" and wanted.get("mask") == "none":
        del wanted["mask"]  # as in a sweep, where decoding is causal: a decoded token comes last
    for name in SETTING:
        values = sorted({str(getattr(setting, name)) for setting in left})
        if name in wanted:
            left = [setting for setting in left if str(getattr(setting, name)) == wanted[name]]
            if not left:
                raise UsageError(f"{run} has no times for {name}={wanted[name]}; it has {_value_list(name, values)}")
        elif len(values) > 1:
            raise UsageError(f"{run} has {_value_list(name, values)}: say which")
    return left[0]


def _value_list(name: str, values: Collection[str]) -> str:
    return f"{name}={','.join(values)}"


def lines_of_run(run: Path) -> list[CaseResult]:
    """The summary lines of the run. Prints each unreadable place to stderr. Raises UsageError if `run` is not a run."""
    stored = read_run_directory(run)
    for notice in stored.notices:
        print(f"harness: {notice}", file=sys.stderr)
    return stored.lines
