"""The page of a history: facts and exponents first, which are free of noise, then ratios of times and their changes."""

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.core.layers.layer_lookup import is_foreign
from harness.core.model import formatting
from harness.core.model.errors import UsageError
from harness.extras.compare.report import pair_label
from harness.study.check.baseline import parse_case, parse_finding_id
from harness.study.check.check_rules import Verdict
from harness.study.report.chart import looks_of
from harness.study.report.document import Cell, Groups, Row, Table, grouped
from harness.study.report.html.chart_data import Data, marker_symbols
from harness.study.report.html.page import rendered

from .history_changes import (
    FACT_TITLES,
    LAYER,
    MEASURED,
    METRICS,
    STATUS,
    Change,
    Confirmation,
    FactChange,
    TimeChange,
    TimeSeries,
    fact_changes,
    fact_text,
    impl_of,
    machine_text,
    time_changes,
    time_series,
    unblessed_regressions,
)
from .history_file import CommitLine, History, Ratio

_SCRIPTS = ("text.js", "figure.js", "history.js", "theme.js")
# An axis of commits has at most this many labels.
_MOST_LABELS = 12
# What follows the size of a step in a chart.
_MARKS = {Confirmation.CONFIRMED: "", Confirmation.OPEN: " ?", Confirmation.LOST: " ?", Confirmation.REFUTED: " ✗"}
_WORDS = {
    Verdict.WORSE: ("worse", "bad"),
    Verdict.BETTER: ("better", "good"),
    Verdict.UNMEASURED: ("unknown now", "open"),
    Verdict.UNDECIDED: ("changed", "open"),
    Verdict.EQUIVALENT: ("changed", ""),
}


def history_page(history: History, threshold: float, out: Path | None = None) -> tuple[str, list[Change], list[str]]:
    """The page's text, the changes for the worse that are not blessed, and the page's first sentences.

    `out` is the page's file, if it is not the usual one: the commands on the page name it.
    """
    facts, series = fact_changes(history), time_series(history)
    times = time_changes(history, series, threshold)
    worse = unblessed_regressions(history, facts, times)
    sentences = list(_sentences(history, facts, times, worse))
    charts = [
        *_charts("facts", "Relative to the first commit.", _relative_counts(history)),
        *_charts("exponents", "Scaling exponent in n at the largest length.", _exponents(history)),
        *_ratio_charts(history, series, times),
    ]
    values = {
        "name": history.path.name,
        "about": _about(history),
        "sentences": sentences,
        "fact_changes": _fact_table(history, facts),
        "facts": _facts_now(history),
        "models": _models_now(history),
        "time_changes": _time_table(history, times),
        "commands": list(_commands(history, times, threshold, out)),
        "charts": grouped(charts, lambda chart: chart["section"]),
        "threshold": formatting.share(threshold),
        "anchor": anchor.name if (anchor := history.find(history.header.anchor)) else history.header.anchor[:10],
        "commits": _commit_table(history),
        "header": history.header,
        "notices": history.notices,
        "looks": marker_symbols(looks_of(map(impl_of, history.cases()))),
    }
    data = {"charts": charts, "commits": _axis(history), "looks": values["looks"]}
    return rendered("history.html", _SCRIPTS, data, values), worse, sentences


def label(subject: str) -> str:
    """The readable form of the key of a case, a cost model or a layer."""
    for read in (lambda: pair_label(parse_case(subject)), lambda: parse_finding_id(f"{subject} of=time").subject):
        try:
            return read().removesuffix(" steady")  # the usual allocator of the command
        except (ValueError, UsageError):
            continue
    return subject.removeprefix("impl=")


def _sentences(
    history: History, facts: Sequence[FactChange], times: Sequence[TimeChange], worse: Sequence[Change]
) -> Iterator[str]:
    if worse:
        at = list(dict.fromkeys(change.note or change.after.name for change in worse))
        more = f", and {len(at) - 3} more" if len(at) > 3 else ""
        yield f"Changes for the worse that are not blessed: {', '.join(at[:3])}{more}."
    else:
        yield "No change for the worse is known to be left that is not blessed."
    for change in times:
        if change.is_over is None and change.is_worse and change.after.commit not in history.blessed:
            yield f"Whether the slow-down at {change.after.name} is still there is unknown: {change.note}."
    if len({machine_text(commit) for commit in history.commits if commit.timed}) > 1:
        yield "Changes of times cannot be seen where the kind of machine changes."
    measured = sum(commit.measured > 0 for commit in history.commits)
    yield f"{formatting.counted(len(history.commits), 'commit')}, of which {measured} could be measured."
    yield f"{formatting.counted(len(facts), 'change')} of facts, cost models and layers."
    counts = Counter(change.verdict for change in times)
    yield f"Steps and drifts of times: {'; '.join(f'{number} {what}' for what, number in counts.items()) or 'none'}."


def _about(history: History) -> list[str]:
    ends = [
        f"{commit.commit[:10]} of {commit.date[:10]}" for commit in history.commits[:: max(1, len(history.commits) - 1)]
    ]
    kinds = dict.fromkeys(filter(None, map(machine_text, history.commits)))
    torch = dict.fromkeys(commit.versions["torch"] for commit in history.commits if "torch" in commit.versions)
    return [" to ".join(ends), *kinds, f"torch {', '.join(torch)}"]


def _verdict_cell(history: History, change: Change, word: str, kind: str) -> Cell:
    reason = history.blessed.get(change.after.commit)
    if reason is not None:
        return Cell("blessed", "", why=reason)
    return Cell(word, kind, aside="and undone since" if kind == "bad" and change.is_over else change.note)


def _fact_table(history: History, changes: Sequence[FactChange]) -> Table:
    rows = [(alike[0].after, _fact_row(history, alike)) for alike in grouped(changes, _row_key).values()]
    columns = {"layer or case": "layer", "quantity": "", "before": "", "now": "", "": ""}
    return Table(columns, groups=_by_commit(rows))


def _row_key(change: FactChange) -> tuple[Any, ...]:
    """The key of the row. Cases of a layer that differ only in the size share a row, as do layers that are new."""
    layer = "" if change.quantity == LAYER else change.impl
    ends = change.before.commit, change.after.commit
    return layer, change.quantity, change.was, change.now, change.verdict, change.is_over, ends


def _by_commit(rows: Sequence[tuple[CommitLine, Row]]) -> Groups:
    """The rows of each commit, the newest commit first."""
    groups: Groups = {}
    for commit, row in sorted(rows, key=lambda each: each[0].place, reverse=True):
        groups.setdefault((Cell(commit.name, aside=commit.date[:10]),), []).append(row)
    return groups


def _fact_row(history: History, alike: Sequence[FactChange]) -> list[Cell | str]:
    change = alike[0]
    notes = []
    if change.between:
        notes.append(f"or at one of {formatting.counted(change.between, 'commit')} before it without a value")
    if change.versions:
        notes.append(f"other versions too: {change.versions}")
    names = list(dict.fromkeys(label(each.subject) for each in alike))
    if change.quantity == STATUS and len(names) > 1:
        names = [f"{change.impl}, {formatting.counted(len(names), 'case')}"]
    row: list[Cell | str] = [Cell(", ".join(names), "layer", why="; ".join(notes)), change.quantity]
    for text in (change.was, change.now):
        is_failure = change.quantity == STATUS and text != MEASURED
        row.append(Cell("not measurable", why=text) if is_failure else Cell(text))
    return [*row, _verdict_cell(history, change, *_WORDS[change.verdict])]


def _latest(history: History, keys: Callable[[CommitLine], Any]) -> dict[str, tuple[CommitLine, Any]]:
    """For each key, the newest commit with a value, and the value."""
    return {key: (commit, value) for commit in history.commits for key, value in keys(commit).items()}


def _facts_now(history: History) -> Table:
    cases = _latest(history, lambda commit: {key: case for key, case in commit.cases.items() if case.reason is None})
    rows: list[Row] = []
    for key, (at, case) in cases.items():
        facts = [(name, case.facts.get(name)) for name in FACT_TITLES]
        texts = ["" if value is None else fact_text(name, value) for name, value in facts]
        rows.append([Cell(label(key), "layer"), *texts, at.commit[:10]])
    columns = dict.fromkeys(FACT_TITLES.values(), "n")
    return Table({"case": "layer", **columns, "at": "at"}, rows)


def _models_now(history: History) -> Table:
    rows: list[Row] = []
    for key, (at, model) in _latest(history, lambda commit: commit.models).items():
        subject, _, metric = key.rpartition(" of=")
        exponent = formatting.if_known(model.exponent_n, "{:.2f}".format)
        cost, law = METRICS.get(metric, metric), Cell(model.law, "formula")
        rows.append([Cell(label(subject), "layer"), cost, law, exponent, at.commit[:10]])
    return Table({"layer": "layer", "cost": "", "cost model": "formula", "exponent in n": "n", "at": "at"}, rows)


def _time_table(history: History, changes: Sequence[TimeChange]) -> Table:
    def row(change: TimeChange) -> Row:
        kind = "good" if change.verdict is Confirmation.CONFIRMED else "open"
        if change.is_worse:
            kind = "bad"
        direct = change.direct.text if change.direct else ""
        verdict = _verdict_cell(history, change, change.verdict, kind)
        return [Cell(label(change.case), "layer", why=change.kernels), change.step.text, direct, verdict]

    columns = {"case": "layer", "step of the ratios": "", "directly compared": "", "": ""}
    return Table(columns, groups=_by_commit([(change.after, row(change)) for change in changes]))


def _commands(history: History, changes: Sequence[TimeChange], threshold: float, out: Path | None) -> Iterator[str]:
    """What to type next: to confirm candidates, and to search between commits that are no neighbours."""
    if any(change.verdict.is_due for change in changes):
        page = [] if out is None else ["-o", str(out)]
        words = ["history", "page", str(history.path), f"threshold={threshold}", *page, "--confirm"]
        yield shlex.join(["python", "-m", "harness", *words])
    for change in changes:
        apart = change.after.number - change.before.number > 1 and change.verdict is Confirmation.CONFIRMED
        if apart and is_foreign(impl_of(change.case)):
            span = f"{change.before.commit[:10]}..{change.after.commit[:10]}"
            yield f"python -m harness bisect {span} {shlex.join(change.case.split(' '))}"


def _commit_table(history: History) -> Table:
    rows: list[Row] = []
    for commit in reversed(history.commits):
        reasons = Counter(case.reason for case in commit.cases.values() if case.reason is not None)
        reasons.update(f"{impl}: {reason}" for impl, reason in commit.layers.items())
        reason = commit.reason or "; ".join(text for text, _ in reasons.most_common(3))
        rows.append([Cell(commit.name, why=reason), commit.date[:10], str(commit.measured), str(commit.timed)])
    return Table({"commit": "", "date": "at", "cases": "n", "timed": "n"}, rows)


def _axis(history: History) -> Data:
    number = len(history.commits)
    shown = range(0, number, -(-number // _MOST_LABELS) if number else 1)
    return {"number": number, "ticks": [[at, history.commits[at].commit[:7]] for at in shown]}


def _chart(section: str, number: int, title: str, about: str, series: Sequence[Any], **more: Any) -> Data:
    return {"section": section, "id": f"{section}-{number}", "title": title, "about": about, "series": series, **more}


_SeriesByTitle = dict[str, list[Data]]


def _charts(section: str, about: str, series: _SeriesByTitle) -> Iterator[Data]:
    """A chart under each title, unless nothing in it changes."""
    number = 0
    for title, lines in series.items():
        if any(len(set(line["values"]) - {None}) > 1 for line in lines):
            yield _chart(section, number, title, about, lines)
            number += 1


def _relative_counts(history: History) -> _SeriesByTitle:
    """Each count over its first value, at the largest length of each layer."""
    # Cases come in ascending order.
    largest = {impl_of(key): cases for key, cases in history.cases().items()}
    series: _SeriesByTitle = {}
    for name, title in FACT_TITLES.items():
        for impl, cases in largest.items():
            facts = [case.facts.get(name) if case else None for case in cases]
            counts = [fact if isinstance(fact, int) else None for fact in facts]
            first = next((count for count in counts if count and count > 0), None)
            if first is not None:
                values = [None if count is None else count / first for count in counts]
                texts = ["" if count is None else fact_text(name, count) for count in counts]
                series.setdefault(title, []).append(_line(history, impl, impl, values, texts))
    return series


def _line(history: History, impl: str, name: str, values: Sequence[Any], texts: Sequence[str]) -> Data:
    hover = [f"{commit.name}: {name}: {text}" for commit, text in zip(history.commits, texts, strict=True)]
    return {"impl": impl, "name": name, "values": list(values), "text": hover}


def _exponents(history: History) -> _SeriesByTitle:
    series: _SeriesByTitle = {}
    for key, models in history.models().items():
        subject, _, metric = key.rpartition(" of=")
        values = [model.exponent_n if model else None for model in models]
        if any(value is not None for value in values):
            texts = [formatting.if_known(value, "exponent {:.2f}".format) for value in values]
            line = _line(history, parse_finding_id(key).impl, label(subject), values, texts)
            series.setdefault(METRICS.get(metric, metric), []).append(line)
    return series


def _ratio_charts(history: History, series: Sequence[TimeSeries], changes: Sequence[TimeChange]) -> Iterator[Data]:
    """One chart for each case: the change of its time against the anchor, in per cent, with the levels of segments."""
    for number, (key, of_case) in enumerate(grouped(series, lambda of_machine: of_machine.case).items()):
        impl = impl_of(key)
        lines = [_ratio_series(history, impl, of_machine) for of_machine in of_case]
        marks = [_mark(history, change) for change in changes if change.case == key]
        yield _chart("ratios", number, label(key), "Change of the time against the anchor.", lines, marks=marks)


def _mark(history: History, change: TimeChange) -> Data:
    text = formatting.change(change.step.middle) + _MARKS[change.verdict]
    return {"x": history.commits.index(change.after) - 0.5, "text": text, "verdict": change.verdict}


def _percent(log_ratio: float | None) -> float | None:
    return None if log_ratio is None else round(100 * math.expm1(log_ratio), 4)


def _ratio_series(history: History, impl: str, of_machine: TimeSeries) -> Data:
    by_commit = {at.commit: ratio for at, ratio in zip(of_machine.commits, of_machine.ratios, strict=True)}
    ratios = [by_commit.get(at.commit, Ratio()) for at in history.commits]
    places = [history.commits.index(at) for at in of_machine.commits]
    texts = [ratio.text if ratio.is_known else "" for ratio in ratios]
    return {
        **_line(history, impl, of_machine.machine, [_percent(ratio.log_ratio) for ratio in ratios], texts),
        "lo": [_percent(ratio.lo) for ratio in ratios],
        "hi": [_percent(ratio.hi) for ratio in ratios],
        "levels": [[places[part.first], places[part.last], _percent(part.level)] for part in of_machine.segments],
    }
