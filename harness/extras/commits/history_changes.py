"""What changed from commit to commit in a history: facts and cost models exactly, times by segments of their ratios.

A step of a time is a candidate until its two commits have been directly compared.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import Any

from harness.core.model import formatting
from harness.core.results.columns import COLUMNS
from harness.core.stats.interval import NORMAL
from harness.study.check.baseline import parse_case, parse_finding_id
from harness.study.check.check_rules import Verdict, judge_count, judge_kernel

from .change_position import Segment, Step, segments, standard_errors
from .history_file import ABSENT, FACT_NAMES, CommitLine, CostModel, History, MeasuredCase, Ratio

# A scaling exponent of counts that rises by less is a matter of rounding.
_EXPONENT_SLACK = 0.05
# Quantities of layers and cases other than facts, and two of their values.
LAYER, STATUS = "Layer", "Status"
_UNKNOWN, MEASURED = "unknown", "measured"
METRICS = {"flops": "FLOPs"}  # metrics of cost models whose text differs
# Texts of bytes name their unit themselves.
FACT_TITLES = {name: title.removesuffix(" in bytes") for name, title in FACT_NAMES.items()}


class Confirmation(StrEnum):
    """What a direct comparison of its two commits says of a step. The page shows the texts."""

    CONFIRMED = "confirmed"
    REFUTED = "not confirmed"
    OPEN = "candidate, not confirmed"
    LOST = "not measurable"

    @property
    def is_due(self) -> bool:
        """Whether a direct comparison is still to come, or had no result: a trial may have been killed by chance."""
        return self in (Confirmation.OPEN, Confirmation.LOST)


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
    note: str

    @property
    def is_worse(self) -> bool:
        """Whether it is for the worse."""
        return self.verdict is Verdict.WORSE

    @property
    def versions(self) -> str:
        """The versions that differ too, and may be the cause; empty if none do."""
        before, after = self.before.versions, self.after.versions
        changed = [name for name in after if before.get(name) != after[name]]
        return ", ".join(f"{name} {before.get(name)} → {after[name]}" for name in changed)


@dataclass(frozen=True)
class TimeSeries:
    """The ratios of a case to the anchor on one kind of machine, with their segments."""

    case: str
    machine: str
    commits: tuple[CommitLine, ...]
    ratios: tuple[Ratio, ...]
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class TimeChange:
    """A step between two neighbours of a series, or a drift, as a log ratio with its 95 % interval.

    `verdict` says whether comparing them directly (`direct`) confirms it. `is_over`: the time has returned; None if
    only another machine, without a time before the change, measured the newest commits. `note` says so, or of a drift.
    """

    case: str
    before: CommitLine
    after: CommitLine
    step: Step
    direct: Ratio | None
    verdict: Confirmation
    is_over: bool | None
    note: str

    @property
    def is_worse(self) -> bool:
        """Whether it is for the worse, and confirmed."""
        return self.verdict is Confirmation.CONFIRMED and self.step.middle > 0

    @property
    def kernels(self) -> str:
        """A sentence if the layer ran different kernels at both commits."""
        ends = (self.before, self.after)
        kernels = {f"at {commit.commit[:10]}": commit.cases[self.case].facts.get("backend") for commit in ends}
        return formatting.kernels_sentence(impl_of(self.case), kernels)


def fact_changes(history: History) -> list[FactChange]:
    """All changes of facts, layers and cost models, in the order of the commits."""
    changes: list[FactChange] = []
    cases_of = history.cases()
    for key, cases in cases_of.items():
        statuses = [None if case is None else case.reason or MEASURED for case in cases]
        changes += _changes(history, (key, impl_of(key), STATUS), statuses, _judge_status)
        for name, title in FACT_TITLES.items():
            facts = [_fact(case, name) for case in cases]
            judge, text = partial(_judge_fact, name), partial(fact_text, name)
            changes += _changes(history, (key, impl_of(key), title), facts, judge, text)
    for impl in dict.fromkeys(map(impl_of, cases_of)):
        layers = [_layer(impl, commit) for commit in history.commits]
        changes += _changes(history, (f"impl={impl}", impl, LAYER), layers, _judge_status)
    for key, models in history.models().items():
        subject, _, metric = key.rpartition(" of=")
        about = subject, parse_finding_id(key).impl, f"Cost model of {METRICS.get(metric, metric)}"
        changes += _changes(history, about, models, _judge_model, _model_text)
    return sorted(changes, key=lambda change: history.commits.index(change.after))


def _changes(
    history: History,
    about: tuple[str, str, str],
    values: Sequence[Any],
    judge: Callable[[Any, Any], Verdict],
    text: Callable[[Any], str] = str,
) -> Iterator[FactChange]:
    """The changes of a value from commit to commit, and its drifts since it was best or blessed. A step ends a drift.

    Commits without the value (None) are left out. A value after unknown ones is compared with the last that was known.
    `about` are the subject, the layer and the quantity.
    """
    measured = [(at, value) for at, value in enumerate(values) if value is not None]
    if not measured:
        return
    known = list(accumulate(measured, _known))
    best, (_, last) = known[0], known[-1]
    pairs, drifts = [], []
    for was, now, last_known, latest in zip(measured, measured[1:], known, known[1:], strict=False):
        before = was if last_known[1] == now[1] else last_known
        if was[1] != now[1]:
            pairs.append((before, now, ""))
        is_step = judge(before[1], now[1]) is judge(before[1], last) is Verdict.WORSE
        is_no_better = judge(best[1], latest[1]) in (Verdict.WORSE, Verdict.EQUIVALENT)
        if is_step:
            drifts.append((best, last_known))
        if is_step or not is_no_better or history.commits[now[0]].commit in history.blessed:
            best = latest
    for begin, end in (*drifts, (best, known[-1])):
        if judge(begin[1], end[1]) is Verdict.WORSE:
            pairs.append((begin, end, _drift_note(history.commits[begin[0]])))
    for (i, value), (j, new), note in pairs:
        ends, between = (history.commits[i], history.commits[j]), 0 if note else j - i - 1
        is_over = judge(value, last) is not Verdict.WORSE
        yield FactChange(*about, text(value), text(new), judge(value, new), *ends, between, is_over, note)


def _known(earlier: tuple[int, Any], later: tuple[int, Any]) -> tuple[int, Any]:
    """The later value, with what is unknown of it as it last was, and the commit at which all of it was known."""
    at, value = later
    if value == _UNKNOWN:
        return earlier
    if isinstance(value, CostModel):
        exponents = earlier[1].exponents | value.exponents
        value = CostModel(law=value.law, exponent_n=exponents.pop("n", None), own_exponents=exponents)
    return at if value == later[1] else earlier[0], value


def fact_text(name: str, value: int | str) -> str:
    """The value of a fact: bytes as a size, other numbers as a count."""
    if isinstance(value, str):
        return value
    return formatting.size(value) if name == "peak_bytes" else formatting.count(value)


def _model_text(model: CostModel) -> str:
    exponents = [f"exponent in {axis} {exponent:.3g}" for axis, exponent in model.exponents.items()]
    return ", ".join([model.law, *exponents]).replace(" in n ", " ")


@cache
def impl_of(key: str) -> str:
    """The layer in the key of a case. Each commit of a history has the same keys."""
    return parse_case(key).impl


def _fact(case: MeasuredCase | None, name: str) -> Any:
    if case is None or case.reason is not None:
        return None
    fact = case.facts.get(name)
    return _UNKNOWN if fact is None else fact


def _layer(impl: str, commit: CommitLine) -> str | None:
    if impl in commit.layers:
        return commit.layers[impl]
    return MEASURED if any(impl_of(key) == impl for key in commit.cases) else None


def _judge_fact(name: str, was: Any, now: Any) -> Verdict:
    was, now = (None if fact == _UNKNOWN else fact for fact in (was, now))
    judged = judge_kernel(was, now) if COLUMNS[name].type is str else judge_count(name, was, now)
    return Verdict.UNDECIDED if judged is None else judged[0]


def _judge_status(was: str, now: str) -> Verdict:
    """A layer that is added or removed is neither better nor worse."""
    if ABSENT in (was, now) or MEASURED not in (was, now):
        return Verdict.EQUIVALENT
    return Verdict.BETTER if now == MEASURED else Verdict.WORSE


def _judge_model(was: CostModel, now: CostModel) -> Verdict:
    """Judge by the exponents along all axes that both have: one that rose is worse, whatever the others did."""
    axes = was.exponents.keys() & now.exponents.keys()
    changes = [now.exponents[axis] - was.exponents[axis] for axis in axes]
    if any(change > _EXPONENT_SLACK for change in changes):
        return Verdict.WORSE
    return Verdict.BETTER if any(change < -_EXPONENT_SLACK for change in changes) else Verdict.EQUIVALENT


def time_series(history: History) -> list[TimeSeries]:
    """The ratios of each case on each kind of machine. Another processor may change a ratio without any commit.

    The series that ends at the newest commit comes last.
    """
    ratios: dict[tuple[str, str], list[tuple[CommitLine, Ratio]]] = {}
    for commit in history.commits:
        for key, case in commit.cases.items():
            if case.time is not None and case.time.is_known:
                of_machine = key, machine_text(commit)
                ratios[of_machine] = [*ratios.pop(of_machine, []), (commit, case.time)]
    series = []
    for of_machine, members in ratios.items():
        commits, known = zip(*members, strict=True)
        errors = standard_errors([ratio.generations for ratio in known])
        parts = segments([float(ratio.log_ratio) for ratio in known], list(errors))
        series.append(TimeSeries(*of_machine, commits, known, tuple(parts)))
    return series


# What times depend on of a machine, with the form of its text.
_OF_MACHINE = {"processor": "{}", "instructions": "{}", "threads": "{} CPUs", "gpu": "{}", "gpu_settings": "{}"}


def machine_text(commit: CommitLine) -> str:
    """The kind of machine of a commit, as far as times depend on it."""
    machine = commit.machine
    return ", ".join(form.format(machine[name]) for name, form in _OF_MACHINE.items() if name in machine)


def time_changes(history: History, series: Sequence[TimeSeries], threshold: float) -> list[TimeChange]:
    """The steps of at least the threshold, a share, and the drifts, in the order of the commits.

    A drift is a rise of that size from the lowest level, or from a blessed commit, that no step explains: a step ends
    it. But a step that comparing its commits directly refutes counts by that comparison.
    """
    changes = []
    apart = math.log1p(threshold)
    newest = {of_case.case: of_case for of_case in series}
    for of_case in series:
        step_between = partial(_time_change, history, (of_case, newest[of_case.case]), apart)
        lowest, rise = of_case.segments[0], 0.0
        for was, now in pairwise(of_case.segments):
            change = step_between(was, now)
            unexplained = change.step.middle
            if abs(unexplained) >= apart:
                changes.append(change)
                if change.verdict is Confirmation.REFUTED and change.direct:
                    unexplained = change.direct.log_ratio or 0.0
                elif change.step.middle > 0 and not change.is_over:
                    if rise >= apart:
                        changes.append(step_between(lowest, was, is_drift=True))
                    rise = unexplained = 0.0
            rise += unexplained
            members = of_case.commits[now.first : now.last + 1]
            if rise <= 0 or any(commit.commit in history.blessed for commit in members):
                lowest, rise = now, 0.0
        if rise >= apart:
            changes.append(step_between(lowest, of_case.segments[-1], is_drift=True))
    return sorted(changes, key=lambda change: change.after.place)


def _time_change(
    history: History, series: Sequence[TimeSeries], apart: float, was: Segment, now: Segment, is_drift: bool = False
) -> TimeChange:
    """The change between two segments. The second series, the newest, tells whether the time has returned."""
    of_case, newest = series
    before = of_case.commits[was.first if is_drift else was.last]
    after = of_case.commits[now.last if is_drift else now.first]
    direct = history.direct.get((before.commit, after.commit, of_case.case))
    note = ""
    if is_drift:
        note = _drift_note(before)
        if before.commit == history.header.anchor:
            direct = direct or of_case.ratios[now.last]
    step, half = now.level - was.level, NORMAL * math.hypot(was.error, now.error)
    levels = [part.level for part in newest.segments if newest.commits[part.first].place <= before.place]
    is_over = None
    if levels:
        is_over = (newest.segments[-1].level - levels[-1]) * math.copysign(1, step) < apart
    else:
        note = f"measured on {of_case.machine} only up to {of_case.commits[-1].name}"
    ends, verdict = Step(step, step - half, step + half), _confirmation(step, direct, apart)
    return TimeChange(of_case.case, before, after, ends, direct, verdict, is_over, note)


def _drift_note(before: CommitLine) -> str:
    return f"since {before.name} (a drift: no single commit explains it)"


def _confirmation(step: float, direct: Ratio | None, apart: float) -> Confirmation:
    """A step is confirmed if both commits differ in its direction, by the threshold, and with their whole interval."""
    if direct is None:
        return Confirmation.OPEN
    if direct.log_ratio is None or direct.lo is None or direct.hi is None:
        return Confirmation.LOST
    sign = math.copysign(1, step)
    nearest = min(direct.lo * sign, direct.hi * sign)
    is_confirmed = nearest > 0 and direct.log_ratio * sign >= apart
    return Confirmation.CONFIRMED if is_confirmed else Confirmation.REFUTED


Change = FactChange | TimeChange


def unblessed_regressions(history: History, facts: Sequence[FactChange], times: Sequence[TimeChange]) -> list[Change]:
    """The changes for the worse that nobody has blessed, and that the last commit still has."""
    changes: list[Change] = [*facts, *times]
    worse = [change for change in changes if change.is_worse and change.is_over is False]
    return [change for change in worse if change.after.commit not in history.blessed]
