"""Summarise all rows of a run as one line per case.

Timed trials are held as columns, and cases with the same number of trials are processed together. In these columns of
numbers, NaN marks a missing value. In the cells of a line, None does.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.case import AXES, Case
from harness.results.accumulate_rows import FACTS, RECORD, RunAccumulator, read_run
from harness.results.table import COLUMNS, CaseResult
from harness.stats.bimodality import FEWEST_TRIALS, find_bimodality, may_be_bimodal
from harness.stats.estimate import QUIET_PULSE, Estimate, estimates
from harness.stats.stopping import Limits, Seen, reason_of
from harness.store import NAMED

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Some cases with N trials each. Arrays are (cases, N), or (cases,) for one value per case.

    `best_probe_s` is the best probe time of the run with the same number of threads; NaN without a probe.
    """

    cases: Numbers
    best_probe_s: Floats
    _records: Floats
    _rows: Numbers

    def column(self, name: str) -> Floats:
        """A column of `RECORD` (cases, N), in the order of the trials; NaN if not recorded."""
        return self._records[self._rows, RECORD.index(name)]

    def calm(self, best_probe_s: Floats) -> NDArray[np.bool_]:
        """Which trials were quiet (cases, N), judged by the best probe time of each case (cases,).

        The rule is that of `harness.stats.estimate.is_quiet`.
        """
        pulses = self.column("probe_s")
        return np.isnan(pulses) | np.isnan(best_probe_s)[:, None] | (pulses <= QUIET_PULSE * best_probe_s[:, None])


class Trials:
    """The timed trials of all cases, by the case numbers of the accumulator.

    If a round was read twice, the later reading replaces the first and takes its position. All such
    repetitions are listed in `repeated`, as cases and rounds. Trials from before a case was begun anew do not count.
    """

    def __init__(self, fold: RunAccumulator) -> None:
        self._records = np.frombuffer(fold.records, dtype=np.float64).reshape(-1, len(RECORD))
        cases = np.frombuffer(fold.trial_cases, dtype=np.int64)
        counted = np.arange(len(cases))
        if fold.since:
            since = np.zeros(len(fold.cases), dtype=np.int64)
            since[list(fold.since)] = list(fold.since.values())
            counted = counted[counted >= since[cases]]
        rounds = np.frombuffer(fold.trial_rounds, dtype=np.int64)
        self._rows = counted[_in_order(cases[counted], rounds[counted])]
        again = np.setdiff1d(counted, self._rows) if len(self._rows) < len(counted) else counted[:0]
        self.repeated = cases[again].tolist(), rounds[again].tolist()
        self.numbers = np.bincount(cases[self._rows], minlength=len(fold.cases))
        self._starts = np.cumsum(self.numbers) - self.numbers

    def best_pulses(self, threads: Sequence[int]) -> Floats:
        """The best probe time with the number of `threads` of each case (cases,); NaN without a probe."""
        kinds = {number: kind for kind, number in enumerate(dict.fromkeys(threads))}
        kind = np.array([kinds[number] for number in threads], dtype=np.int64)
        best = np.full(len(kinds), np.nan)
        np.fmin.at(best, np.repeat(kind, self.numbers), self._records[self._rows, RECORD.index("probe_s")])
        return best[kind]

    def groups(self, chosen: NDArray[np.bool_], best_probe_s: Floats) -> Iterator[Group]:
        """Group the chosen cases that have trials by their number of trials."""
        for number in np.unique(self.numbers[chosen & (self.numbers > 0)]).tolist():
            cases = np.flatnonzero(chosen & (self.numbers == number))
            rows = self._rows[self._starts[cases][:, None] + np.arange(number)]
            yield Group(cases, best_probe_s[cases], self._records, rows)


def _in_order(cases: Numbers, rounds: Numbers) -> Numbers:
    """Indices of the trials that count, sorted by case, then by when each round was first read."""
    places = np.lexsort((rounds, cases))  # a stable sort: repeated readings of a round keep their order
    changes = (np.diff(cases[places]) != 0) | (np.diff(rounds[places]) != 0)
    first = places[np.append(True, changes)[: len(places)]]
    last = places[np.append(changes, True)[: len(places)]]
    return last[np.lexsort((first, cases[first]))]


CellFloats = NDArray[np.float64]


def optional_cells(column: CellFloats) -> list[float | None]:
    """The numbers (N,) of a column as Python floats, with None for NaN."""
    return [None if value != value else value for value in column.tolist()]


def optional_ratio(part: CellFloats, whole: CellFloats) -> CellFloats:
    """Return `part / whole`; NaN if either is NaN or `whole` is 0."""
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=(whole != 0) & ~np.isnan(whole))


def medians(values: CellFloats) -> CellFloats:
    """The median of each row (cases, N), ignoring NaN; NaN for a row of NaN only."""
    ordered = np.sort(values, axis=1)  # NaN is sorted last
    number = np.maximum((~np.isnan(values)).sum(axis=1), 1)
    every = np.arange(len(values))
    return (ordered[every, (number - 1) // 2] + ordered[every, number // 2]) / 2


def counters_of_trials(group: Group) -> dict[str, CellFloats]:
    """The counters of each trial (cases, N) by the names in `bimodality.COUNTERS`; NaN if not recorded."""
    return {
        "minor_faults_per_call": optional_ratio(group.column("minor_faults"), group.column("calls")),
        "major_faults_per_call": optional_ratio(group.column("major_faults"), group.column("calls")),
        "involuntary_switches": group.column("involuntary_switches"),
        "cpu_over_wall": optional_ratio(group.column("cpu_s"), group.column("sampling_s")),
        "steal_share": optional_ratio(group.column("steal_ticks"), group.column("machine_ticks")),
        "cpu_mhz": group.column("cpu_mhz"),
        "sm_clock_mhz": group.column("sm_clock_mhz"),
    }


def optional_count(group: Group, each: Mapping[str, CellFloats]) -> dict[str, list[Any]]:
    """The counters recorded in the timed trials, as columns with one number per case.

    `each` comes from `counters_of_trials`.

    The value is None if no trial recorded the counter. Most columns are medians. The exceptions are
    `involuntary_switches` (mean per trial), `steal_share` (share of the total time) and `host_bound` (majority of the
    trials).
    """
    switches = each["involuntary_switches"]
    ticks, of_ticks = group.column("steal_ticks"), group.column("machine_ticks")
    return {
        "compile_s": optional_cells(medians(group.column("compile_s"))),
        "minor_faults_per_call": optional_cells(medians(each["minor_faults_per_call"])),
        "involuntary_switches": optional_cells(optional_ratio(np.nansum(switches, axis=1), _known_mean(switches))),
        "cpu_over_wall": optional_cells(medians(each["cpu_over_wall"])),
        "steal_share": optional_cells(optional_ratio(np.nansum(ticks, axis=1), np.nansum(of_ticks, axis=1))),
        "sm_clock_mhz": optional_cells(medians(each["sm_clock_mhz"])),
        "host_bound": _most_of(group.column("host_bound")),
        "wall_call_s": optional_cells(medians(group.column("wall_call_s"))),
    }


def _most_of(flags: CellFloats) -> list[bool | None]:
    """Whether most known flags are set, for each row (cases, N); None if all are NaN."""
    known = _known_mean(flags)
    most = np.nansum(flags, axis=1) * 2 > known
    return [flag if number else None for flag, number in zip(most.tolist(), known.tolist(), strict=True)]


def _known_mean(values: CellFloats) -> CellFloats:
    return (~np.isnan(values)).sum(axis=1).astype(np.float64)


def duplicate_row_notices(run: Path, fold: RunAccumulator, trials: Trials) -> list[str]:
    """A notice for each of the first `NAMED` repeated rows, and one that counts the others.

    Repeated rows have the same case, purpose and round. Each of them counts once.
    """
    cases = list(fold.cases)
    found = [f"{Case(*cases[case])}, {what}" for case, what in _duplicates(fold, trials)]
    notices = [f"{run / 'rows'}: {one}: there twice, counts once" for one in found[:NAMED]]
    more = len(found) - len(notices)
    return [*notices, f"{run / 'rows'}: {more:,} more rows there twice, each counts once"] if more else notices


def _duplicates(fold: RunAccumulator, trials: Trials) -> Iterator[tuple[int, str]]:
    for case, number in zip(*trials.repeated, strict=True):
        yield int(case), f"time, round {number}"
    for (case, purpose, _), times in fold.others.items():
        for _ in range(times - 1):
            yield case, purpose


def bimodality_of_groups(
    times_s: CellFloats, calm: NDArray[np.bool_], each: Mapping[str, CellFloats]
) -> dict[str, list[Any]]:
    """Columns of a line that describe bimodal timing.

    `times_s`, the time of each trial, and `each`, the counters recorded with it, are (cases, N). Only the quiet trials
    (`calm`) count: a disturbed machine would make the times of any layer bimodal.
    """
    number = len(times_s)
    columns: dict[str, list[Any]] = {
        "bimodal": [False if enough else None for enough in (calm.sum(axis=1) >= FEWEST_TRIALS).tolist()],
        "bimodal_fast_s": [None] * number,
        "bimodal_slow_s": [None] * number,
        "bimodal_cause": [None] * number,
    }
    for case in np.flatnonzero(may_be_bimodal(times_s, calm)).tolist():
        chosen = calm[case]
        found = find_bimodality(
            times_s[case, chosen].tolist(), _counters_by_trial({k: v[case, chosen] for k, v in each.items()})
        )
        if found is not None and found.count == 2:
            columns["bimodal"][case] = True
            columns["bimodal_fast_s"][case], columns["bimodal_slow_s"][case] = found.fast_s, found.slow_s
            columns["bimodal_cause"][case] = found.cause
    return columns


def _counters_by_trial(columns: Mapping[str, CellFloats]) -> Sequence[Mapping[str, float | None]]:
    return [
        dict(zip(columns, trial, strict=True))
        for trial in zip(*(optional_cells(column) for column in columns.values()), strict=True)
    ]


def summarise(rows: Iterable[Mapping[str, Any]], limits: Limits) -> list[CaseResult]:
    """A line for every case that has a row, sorted by case. `limits` are those of the sweep.

    Raises ValueError if a row lacks a required value or holds an invalid one.
    """
    fold = RunAccumulator()
    for row in rows:
        if not fold.add(row):
            raise ValueError(f"not a row: {row}")
    return _lines_of(fold, limits)


def summarise_run(run: Path, limits: Limits) -> tuple[list[CaseResult], list[str]]:
    """Lines as by `summarise` for all rows of a run, and a notice for each invalid or repeated row."""
    fold, notices = read_run(run)
    return _lines_of(fold, limits), [*notices, *duplicate_row_notices(run, fold, Trials(fold))]


def _lines_of(fold: RunAccumulator, limits: Limits) -> list[CaseResult]:
    """A line for every case of the accumulator, sorted by case.

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
    columns["tokens_per_s"] = [_totals(case.tokens, s) for case, s in zip(cases, columns["time_s"], strict=True)]
    columns["flops_per_byte"] = list(map(_totals, columns["flops"], columns["min_bytes"]))
    order = sorted(range(len(cases)), key=list(fold.cases).__getitem__)
    lines = [CaseResult(*cells) for cells in zip(*columns.values(), strict=True)]
    return [lines[number] for number in order]


def _totals(part: float | None, whole: float | None) -> float | None:
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
    calm = group.calm(group.best_probe_s)
    medians_s = group.column("median_s")
    found = estimates(group.column("value_s"), medians_s, calm)
    each = counters_of_trials(group)
    return {
        "time_s": [one.time_s for one in found],
        "time_lo_s": [one.lo_s for one in found],
        "time_hi_s": [one.hi_s if math.isfinite(one.hi_s) else None for one in found],
        "time_median_s": [one.median_s for one in found],
        "stop_reason": _stop_reasons(group, found, limits),
        **optional_count(group, each),
        **bimodality_of_groups(medians_s, calm, each),
    }


def _stop_reasons(group: Group, found: Sequence[Estimate], limits: Limits) -> list[str]:
    """The stop reason of each case, judged by the best probe time of the run (`best_probe_s`).

    The best probe time seen so far may have stopped a case that counts as disturbed by the best of the whole run.
    """
    values_s = group.column("value_s")
    walls_s = [sum(of_case) for of_case in group.column("wall_s").tolist()]
    of_run = group.calm(group.best_probe_s)
    of_itself = group.calm(np.fmin.reduce(group.column("probe_s"), axis=1))
    stops = []
    for case, (estimate, wall_s) in enumerate(zip(found, walls_s, strict=True)):
        seen = Seen(values_s[case].tolist(), of_run[case].tolist(), wall_s, estimate.half_width)
        reason = reason_of(seen, limits)
        if reason is None:
            by_itself = reason_of(replace(seen, calm=of_itself[case].tolist()), limits)
            reason = "disturbed" if by_itself or len(seen.values_s) >= limits.max_rounds else "interrupted"
        stops.append(reason)
    return stops
