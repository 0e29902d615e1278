"""Summarise all rows of a run as one line per case."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.case import AXES, Case
from harness.stats.estimate import Estimate, estimates
from harness.stats.stopping import Limits, Seen, reason_of
from harness.summary.counters import count, of_trials
from harness.summary.facts_row import FACTS
from harness.summary.fold import Fold
from harness.summary.humps import humps
from harness.summary.line import COLUMNS, Line
from harness.summary.read import read_run
from harness.summary.repeated import repeated
from harness.summary.trials import Group, Trials


def summarise(rows: Iterable[Mapping[str, Any]], limits: Limits) -> list[Line]:
    """A line for every case that has a row, sorted by case. `limits` are those of the sweep.

    Raises ValueError if a row lacks a required value or holds an invalid one.
    """
    fold = Fold()
    for row in rows:
        if not fold.add(row):
            raise ValueError(f"not a row: {row}")
    return _lines_of(fold, limits)


def summarise_run(run: Path, limits: Limits) -> tuple[list[Line], list[str]]:
    """Lines as by `summarise` for all rows of a run, and a notice for each invalid or repeated row."""
    fold, notices = read_run(run)
    return _lines_of(fold, limits), [*notices, *repeated(run, fold, Trials(fold))]


def _lines_of(fold: Fold, limits: Limits) -> list[Line]:
    """A line for every case of the fold, sorted by case.

    The status is `ok` if no trial of the case failed, and otherwise that of the first failure. The time of a layer that
    is killed in one of five trials is not reliable.
    """
    cases = [Case(*axes) for axes in fold.cases]
    ok = np.array([number not in fold.failures for number in range(len(cases))], dtype=bool)
    trials = Trials(fold)
    columns: dict[str, list[Any]] = {name: [None] * len(cases) for name in COLUMNS}
    for name in AXES:
        columns[name] = [getattr(case, name) for case in cases]
    columns["family"] = fold.families
    columns["status"] = ["ok"] * len(cases)
    columns["trials"] = trials.numbers.tolist()
    columns["stop_reason"] = ["interrupted"] * len(cases)
    _enter(columns, fold.failures, ("status", "reason"), zip(*fold.failures.values(), strict=True))
    _enter(columns, fold.failures, ("stop_reason",), [["failed"] * len(fold.failures)])
    _enter(columns, fold.facts, FACTS, zip(*fold.facts.values(), strict=True))
    _enter(columns, fold.hosts, ("host",), [[",".join(hosts) for hosts in fold.hosts.values()]])
    best_pulses_s = trials.best_pulses([case.threads for case in cases])
    for group in trials.groups(ok, best_pulses_s):
        timed = _timed(group, limits)
        _enter(columns, group.cases.tolist(), timed.keys(), timed.values())
    # Timed trials load the code compiled before, so their compile time is only that of loading.
    _enter(columns, fold.compiles_s, ("compile_s",), [fold.compiles_s.values()])
    columns["tokens_per_s"] = [_over(case.tokens, s) for case, s in zip(cases, columns["time_s"], strict=True)]
    columns["flops_per_byte"] = list(map(_over, columns["flops"], columns["min_bytes"]))
    order = sorted(range(len(cases)), key=list(fold.cases).__getitem__)
    lines = [Line(*cells) for cells in zip(*columns.values(), strict=True)]
    return [lines[number] for number in order]


def _over(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _enter(
    columns: Mapping[str, list[Any]], cases: Iterable[int], names: Iterable[str], entries: Iterable[Iterable[Any]]
) -> None:
    """Write cells of some cases into the named columns. `entries` holds the cells column by column."""
    places = list(cases)
    if not places:  # without cases, `zip` yields no columns
        return
    for name, cells in zip(names, entries, strict=True):
        column = columns[name]
        for place, cell in zip(places, cells, strict=True):
            column[place] = cell


def _timed(group: Group, limits: Limits) -> dict[str, Sequence[Any]]:
    """The columns computed from timed trials."""
    calm = group.calm(group.best_pulse_s)
    medians_s = group.column("median_s")
    found = estimates(group.column("value_s"), medians_s, calm)
    each = of_trials(group)
    return {
        "time_s": [one.time_s for one in found],
        "time_lo_s": [one.lo_s for one in found],
        "time_hi_s": [one.hi_s if math.isfinite(one.hi_s) else None for one in found],
        "time_median_s": [one.median_s for one in found],
        "stop_reason": _stops(group, found, limits),
        **count(group, each),
        **humps(medians_s, calm, each),
    }


def _stops(group: Group, found: Sequence[Estimate], limits: Limits) -> list[str]:
    """The stop reason of each case, judged by the best probe time of the run (`best_pulse_s`).

    The best probe time seen so far may have stopped a case that counts as disturbed by the best of the whole run.
    """
    values_s = group.column("value_s")
    walls_s = [sum(of_case) for of_case in group.column("wall_s").tolist()]
    of_run = group.calm(group.best_pulse_s)
    of_itself = group.calm(np.fmin.reduce(group.column("pulse_s"), axis=1))
    stops = []
    for case, (estimate, wall_s) in enumerate(zip(found, walls_s, strict=True)):
        seen = Seen(values_s[case].tolist(), of_run[case].tolist(), wall_s, estimate.half_width)
        reason = reason_of(seen, limits)
        if reason is None:
            by_itself = reason_of(replace(seen, calm=of_itself[case].tolist()), limits)
            reason = "disturbed" if by_itself or len(seen.values_s) >= limits.max_rounds else "interrupted"
        stops.append(reason)
    return stops
