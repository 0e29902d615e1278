"""What changed from commit to commit in a history: facts and cost models exactly, times by segments of their ratios.

A step of a time is a candidate until its two commits have been directly compared.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

from harness import formatting
from harness.gate.baseline import parse_case, parse_finding_id
from harness.gate.check_rules import judge_count, judge_kernel
from harness.gate.history_file import ABSENT, CommitLine, History, Ratio
from harness.results.columns import COLUMNS, FACT_NAMES
from harness.stats.interval import NORMAL
from harness.stats.paired_verdicts import Verdict
from harness.stats.segmentation import Segment, segments, standard_errors

# A scaling exponent of counts that rises by less is a matter of rounding.
_EXPONENT_SLACK = 0.05
# What a candidate is called.
CONFIRMED, REFUTED, OPEN, LOST = "confirmed", "not confirmed", "candidate, not confirmed", "not measurable"
# Candidates whose direct comparison has no result yet. A trial may have been killed by chance.
UNCONFIRMED = (OPEN, LOST)
# Quantities of layers and cases other than facts, and two of their values.
LAYER, STATUS = "Layer", "Status"
_UNKNOWN, MEASURED = "unknown", "measured"
# Texts of bytes name their unit themselves.
FACT_TITLES = {name: title.removesuffix(" in bytes") for name, title in FACT_NAMES.items()}


@dataclass(frozen=True)
class FactChange:
    """A quantity of a case, layer or cost model that differs between two measured commits, `before` and `after`.

    `between` of the commits between them have no value. `is_over`: the last commit is no worse than `before`.
    """

    subject: str
    impl: str
    quantity: str
    was: str
    now: str
    verdict: Verdict
    before: CommitLine
    after: CommitLine
    between: int
    is_over: bool

    @property
    def versions(self) -> str:
        """The versions that differ too, and may be the cause; empty if none do."""
        names = [name for name in self.after.versions if self.before.versions.get(name) != self.after.versions[name]]
        return ", ".join(f"{name} {self.before.versions.get(name)} → {self.after.versions[name]}" for name in names)


@dataclass(frozen=True)
class TimeSeries:
    """The ratios of a case to the anchor on one kind of machine, with their segments and standard errors."""

    case: str
    machine: str
    commits: tuple[CommitLine, ...]
    ratios: tuple[Ratio, ...]
    errors: tuple[float, ...]
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class TimeChange:
    """A step between two neighbours of a series, as a log ratio with its 95 % interval.

    `verdict` says whether comparing them directly (`direct`) confirms it. `is_over`: the time has returned.
    """

    case: str
    before: CommitLine
    after: CommitLine
    step: float
    lo: float
    hi: float
    direct: Ratio | None
    verdict: str
    is_over: bool

    @property
    def text(self) -> str:
        """The step with its interval, in per cent."""
        return Ratio(log_ratio=self.step, lo=self.lo, hi=self.hi).text


def fact_changes(history: History) -> list[FactChange]:
    """All changes of facts, layers and cost models, in the order of the commits."""
    found: list[FactChange] = []
    for key in dict.fromkeys(key for one in history.commits for key in one.cases):
        found += _changes(history, key, impl_of(key), STATUS, partial(_status, key), _judge_status)
        for name, title in FACT_TITLES.items():
            value, judge, text = partial(_fact, key, name), partial(_judge, name), partial(fact_text, name)
            found += _changes(history, key, impl_of(key), title, value, judge, text)
    for impl in dict.fromkeys(impl_of(key) for one in history.commits for key in one.cases):
        found += _changes(history, f"impl={impl}", impl, LAYER, partial(_layer, impl), _judge_status)
    for key in dict.fromkeys(key for one in history.commits for key in one.models):
        subject, _, metric = key.rpartition(" of=")
        impl, title = parse_finding_id(key).impl, f"Cost model of {metric}"
        found += _changes(history, subject, impl, title, partial(_model, key), _judge_model, _model_text)
    return sorted(found, key=lambda one: history.commits.index(one.after))


def _changes(
    history: History,
    subject: str,
    impl: str,
    quantity: str,
    value: Callable[[CommitLine], Any],
    judge: Callable[[Any, Any], Verdict],
    text: Callable[[Any], str] = str,
) -> Iterator[FactChange]:
    """The changes of a value from commit to commit. Commits without the value (None) are left out."""
    known = [(number, one, value(one)) for number, one in enumerate(history.commits)]
    known = [each for each in known if each[2] is not None]
    for (i, before, was), (j, after, now) in pairwise(known):
        if was != now:
            is_over = judge(was, known[-1][2]) is not Verdict.WORSE
            verdict = judge(was, now)
            yield FactChange(subject, impl, quantity, text(was), text(now), verdict, before, after, j - i - 1, is_over)


def fact_text(name: str, value: int | str) -> str:
    """The value of a fact: bytes as a size, other numbers as a count."""
    if isinstance(value, str):
        return value
    return formatting.size(value) if name == "peak_bytes" else formatting.count(value)


def _model_text(value: tuple[str, float | None]) -> str:
    law, exponent = value
    return law if exponent is None else f"{law}, exponent {exponent:.3g}"


@cache
def impl_of(key: str) -> str:
    """The layer in the key of a case. Each commit of a history has the same keys."""
    return parse_case(key).impl


def _fact(key: str, name: str, one: CommitLine) -> Any:
    case = one.cases.get(key)
    if case is None or case.reason is not None:
        return None
    found = case.facts.get(name)
    return _UNKNOWN if found is None else found


def _status(key: str, one: CommitLine) -> str | None:
    case = one.cases.get(key)
    return None if case is None else case.reason or MEASURED


def _layer(impl: str, one: CommitLine) -> str | None:
    if impl in one.layers:
        return one.layers[impl]
    return MEASURED if any(impl_of(key) == impl for key in one.cases) else None


def _model(key: str, one: CommitLine) -> tuple[str, float | None] | None:
    found = one.models.get(key)
    return None if found is None else (found.law, found.exponent_n)


def _judge(name: str, was: Any, now: Any) -> Verdict:
    was, now = (None if one == _UNKNOWN else one for one in (was, now))
    judge = judge_kernel if COLUMNS[name].type is str else lambda a, b: judge_count(name, a, b)
    found = judge(was, now)
    return Verdict.UNDECIDED if found is None else found[0]


def _judge_status(was: str, now: str) -> Verdict:
    """A layer that is added or removed is neither better nor worse."""
    if ABSENT in (was, now) or MEASURED not in (was, now):
        return Verdict.EQUIVALENT
    return Verdict.BETTER if now == MEASURED else Verdict.WORSE


def _judge_model(was: tuple[str, float | None], now: tuple[str, float | None]) -> Verdict:
    if was[1] is None or now[1] is None or abs(now[1] - was[1]) <= _EXPONENT_SLACK:
        return Verdict.EQUIVALENT
    return Verdict.WORSE if now[1] > was[1] else Verdict.BETTER


def time_series(history: History) -> list[TimeSeries]:
    """The ratios of each case on each kind of machine. Another processor may change a ratio without any commit."""
    held: dict[tuple[str, str], list[tuple[CommitLine, Ratio]]] = {}
    for one in history.commits:
        kind = machine_text(one)
        for key, case in one.cases.items():
            if case.time is not None and case.time.is_known:
                held.setdefault((key, kind), []).append((one, case.time))
    return [_series(key, kind, members) for (key, kind), members in held.items()]


def machine_text(one: CommitLine) -> str:
    """The kind of machine, as far as times depend on it."""
    names = {"processor": "{}", "instructions": "{}", "threads": "{} CPUs", "gpu": "{}"}
    return ", ".join(form.format(one.machine[name]) for name, form in names.items() if name in one.machine)


def _series(key: str, kind: str, members: Sequence[tuple[CommitLine, Ratio]]) -> TimeSeries:
    commits, ratios = zip(*members, strict=True)
    errors = [float(one) for one in standard_errors([one.generations for one in ratios])]
    found = segments([float(one.log_ratio) for one in ratios], errors)
    return TimeSeries(key, kind, commits, ratios, tuple(errors), tuple(found))


def time_changes(history: History, series: Sequence[TimeSeries], threshold: float) -> list[TimeChange]:
    """The steps of at least the threshold, a share, in the order of the commits."""
    found = []
    for one in series:
        for was, now in pairwise(one.segments):
            step, apart = now.level - was.level, math.log1p(threshold)
            if abs(step) < apart:
                continue
            before, after = one.commits[now.first - 1], one.commits[now.first]
            direct = history.direct.get((before.commit, after.commit, one.case))
            half = NORMAL * math.hypot(was.error, now.error)
            is_over = (one.segments[-1].level - was.level) * math.copysign(1, step) < apart
            verdict = _verdict(step, direct, apart)
            found.append(TimeChange(one.case, before, after, step, step - half, step + half, direct, verdict, is_over))
    return sorted(found, key=lambda change: history.commits.index(change.after))


def _verdict(step: float, direct: Ratio | None, apart: float) -> str:
    """A step is confirmed if both commits differ in its direction, by the threshold, and with their whole interval."""
    if direct is None:
        return OPEN
    if direct.log_ratio is None or direct.lo is None or direct.hi is None:
        return LOST
    sign = math.copysign(1, step)
    nearest = min(direct.lo * sign, direct.hi * sign)
    return CONFIRMED if nearest > 0 and direct.log_ratio * sign >= apart else REFUTED


Change = FactChange | TimeChange


def unblessed_regressions(history: History, facts: Sequence[FactChange], times: Sequence[TimeChange]) -> list[Change]:
    """The changes for the worse that nobody has blessed, and that the last commit still has."""
    worse: list[Change] = [one for one in facts if one.verdict is Verdict.WORSE]
    worse += [one for one in times if one.verdict == CONFIRMED and one.step > 0]
    return [one for one in worse if not one.is_over and one.after.commit not in history.blessed]
