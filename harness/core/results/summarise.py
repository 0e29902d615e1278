"""Summarise all rows of a run as one line per case.

Timed trials are held as columns, and cases with the same number of trials are processed together. In these columns of
numbers, NaN marks a missing value. In the cells of a line, None does.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.model.sweep_axes import AXES, Case
from harness.core.stats import noise_prior
from harness.core.stats.bimodality import FEWEST_TRIALS, find_bimodality, may_be_bimodal
from harness.core.stats.estimate import (
    Flags,
    Limits,
    TrialStatistics,
    counted,
    estimates,
    is_quiet,
    reason_of,
    trial_statistics,
)
from harness.core.stats.interval import Floats, Numbers

from .columns import COLUMNS, CaseResult, Column, evident_line, with_own_axes
from .row import FACTS, KINDS, RECORD, Row, StoredRow
from .row_files import NAMED, RunAccumulator, read_run

# Purposes that are measured once per case.
_ONCE = tuple(name for name, kind in KINDS.items() if kind.once)
_IMPL = list(AXES).index("impl")


@dataclass(frozen=True)
class Group:
    """Some cases with N trials each. Arrays are (cases, N), or (cases,) for one value per case.

    `best_probe_s` is the best probe time of the run for the same `probe_kind`; NaN without a probe.
    """

    cases: Numbers
    best_probe_s: Floats
    _records: Floats
    _rows: Numbers

    def column(self, name: str, which: Any = ...) -> Floats:
        """A column of `RECORD` (cases, N), in the order of the trials; NaN if not recorded. `which` selects trials."""
        return self._records[self._rows[which], RECORD.index(name)]

    def counter(self, entries: Sequence[str], which: Any = ...) -> Floats:
        """A counter of each trial (cases, N): a column, or the ratio of two; NaN if not recorded."""
        columns = [self.column(entry, which) for entry in entries]
        return optional_ratio(*columns) if len(columns) > 1 else columns[0]

    def quiet(self) -> Flags:
        """Which trials were quiet (cases, N), judged by the best probe time of the run and by the GPU itself."""
        by_probe = is_quiet(self.column("probe_s"), self.best_probe_s[:, None])
        return by_probe & ~(self.column("gpu_disturbed") > 0)


class Trials:
    """The timed trials of all cases, by the case numbers of the accumulator.

    `places` are those of the trials that count in `records`, ordered by case and round.

    If a round was read several times, it counts once, or not at all if its readings differ. `repeated` lists each later
    reading: its place among all trials, that of the first, and whether they differ. Trials from before a case was
    begun anew do not count.
    """

    def __init__(self, accumulated: RunAccumulator) -> None:
        records = np.asarray(accumulated.records).reshape(-1, len(RECORD))
        cases = np.asarray(accumulated.trial_cases)
        rounds = np.asarray(accumulated.trial_rounds)
        self.records = _with_one_gpu_time(records, [axes[_IMPL] for axes in accumulated.cases], cases)
        since = np.array([accumulated.since.get(case, 0) for case in range(len(accumulated.cases))], dtype=np.int64)
        counted = np.flatnonzero(np.arange(len(cases)) >= since[cases])
        ordered = counted[np.lexsort((rounds[counted], cases[counted]))]  # stable: readings of a round keep their order
        is_first = np.diff(np.stack([cases, rounds])[:, ordered], prepend=-1).any(axis=0)
        first_readings = ordered[is_first][np.cumsum(is_first) - 1]
        later, first = ordered[~is_first], first_readings[~is_first]
        differ = ~np.isclose(records[later], records[first], 0, 0, equal_nan=True).all(1)
        self.repeated = np.stack([later, first, differ], axis=1).tolist()
        self.places = ordered[is_first & ~np.isin(ordered, first[differ])]
        self.counts = np.bincount(cases[self.places], minlength=len(accumulated.cases))
        self._starts = np.cumsum(self.counts) - self.counts

    def groups(self, chosen: Flags, probe_kinds: Sequence[Hashable]) -> Iterator[Group]:
        """Group the chosen cases that have trials by their number of trials. Each case has a kind of probe."""
        kind = _numbered(probe_kinds)
        best = np.full(len(kind), np.nan)
        np.fmin.at(best, np.repeat(kind, self.counts), self.records[self.places, RECORD.index("probe_s")])
        for count in np.unique(self.counts[chosen & (self.counts > 0)]).tolist():
            cases = np.flatnonzero(chosen & (self.counts == count))
            rows = self.places[self._starts[cases][:, None] + np.arange(count)]
            yield Group(cases, best[kind[cases]], self.records, rows)


def _numbered(names: Sequence[Hashable]) -> Numbers:
    """The number of each name among the different ones, from 0 on."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


# The device, the number of threads, and the environment.
ProbeKind = tuple[str, int, str]


def probe_kind(case: Case) -> ProbeKind:
    """What the probe's time depends on besides the machine: device, threads, and the environment's torch."""
    return case.device, case.threads, case.env


def _with_one_gpu_time(records: Floats, impls: Sequence[str], cases: Numbers) -> Floats:
    """The records of all trials, in which all trials of a layer on a GPU tell the same quantity (see `gpu_time_by`).

    A call too long for the queue is timed as a CUDA graph, whose kernels follow each other more closely. If a layer has
    such a call at any size, its graphs count at all sizes. The cost over the size then has no jump. The times with a
    warm cache and with a clean one are its graph's too, or missing if those were not taken.
    """
    queue_held, graph_s = (records[:, RECORD.index(name)] for name in ("queue_held", "graph_s"))
    if not (queue_held == 0).any():
        return records
    layer = _numbered(impls)[cases]
    chosen = np.isin(layer, layer[queue_held == 0]) & ~np.isnan(graph_s)
    records = records.copy()
    for name in ("value_s", "median_s"):
        records[chosen, RECORD.index(name)] = graph_s[chosen]
    chosen &= queue_held > 0  # those of a trial that could not be held are its graph's already
    for name in ("hot_gpu_s", "clean_gpu_s"):
        records[chosen, RECORD.index(name)] = records[chosen, RECORD.index(f"graph_{name}")]
    return records


def _gpu_time_by(group: Group) -> list[str | None]:
    """How the time of each case leaves launches out: "graph" or "held"; None if it has launches, "" on the CPU."""
    queue_held, graph_s, value_s = (group.column(name) for name in ("queue_held", "graph_s", "value_s"))
    on_cpu, as_graph = np.isnan(queue_held).all(axis=1), (graph_s == value_s).any(axis=1)
    ways = [on_cpu, as_graph, (queue_held > 0).all(axis=1)]
    return np.select(ways, ["", "graph", "held"], np.array(None)).tolist()


def optional_cells(column: Floats) -> list[float | None]:
    """The numbers (N,) of a column as Python floats, with None for NaN."""
    return [None if value != value else value for value in column.tolist()]


def optional_ratio(part: Floats, whole: Floats) -> Floats:
    """Return `part / whole`; NaN if either is NaN or `whole` is 0."""
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=(whole != 0) & ~np.isnan(whole))


def medians(values: Floats) -> Floats:
    """The median of each row (cases, N), ignoring NaN; NaN for a row of NaN only."""
    ordered = np.sort(values, axis=1)  # NaN is sorted last
    number = np.maximum((~np.isnan(values)).sum(axis=1), 1)
    every = np.arange(len(values))
    return (ordered[every, (number - 1) // 2] + ordered[every, number // 2]) / 2


# The entries of each counter of a trial: those of the table of columns, and two more that may explain bimodal times.
COUNTERS = {name: column.each for name, column in COLUMNS.items() if column.each}
COUNTERS |= {"major_faults_per_call": ("major_faults", "calls"), "cpu_mhz": ("cpu_mhz",)}


def _combined(group: Group, column: Column) -> list[Any]:
    """A column that combines the trials of each case. The value is None if no trial recorded the counter."""
    if column.combined == "total":
        part, whole = (np.nansum(group.column(entry), axis=1) for entry in column.each)
        return optional_cells(optional_ratio(part, whole))
    each = group.counter(column.each)
    if column.combined == "median":
        return optional_cells(medians(each))
    means = optional_cells(optional_ratio(np.nansum(each, axis=1), (~np.isnan(each)).sum(axis=1)))
    if column.combined == "majority":  # of flags
        return [None if mean is None else mean > 0.5 for mean in means]
    return means


def duplicate_row_notices(run: Path, accumulated: RunAccumulator, trials: Trials) -> list[str]:
    """A notice for each of the first `NAMED` repeated rows, and one that counts the others.

    Repeated rows have the same case, purpose and round. Those with different values come first.
    """
    cases, notices = list(accumulated.cases), []
    duplicates = sorted(_duplicates(accumulated, trials), key=lambda duplicate: not duplicate[2])
    for case, what, files in duplicates[:NAMED]:
        both = " and ".join(dict.fromkeys(files))
        how = f" with different values, in {both}: numbers that differ do not count" if both else ", counts once"
        notices.append(f"{run / 'rows'}: {Case(*cases[case])}, {what}: there twice{how}")
    more = len(duplicates) - len(notices)
    return [*notices, f"{run / 'rows'}: {more:,} more rows there twice"] if more else notices


def _duplicates(accumulated: RunAccumulator, trials: Trials) -> Iterator[tuple[int, str, list[str]]]:
    """The case and the kind of each repeated row, and the files of both rows if they differ.

    A case has facts and a compile time once. A case is verified each time the sweep continues, and may fail at each
    attempt. Rows of these kinds are distinguished by the time they were written.
    """
    for later, first, differ in trials.repeated:
        files = [accumulated.trial_files[place] for place in (first, later) if differ]
        yield accumulated.trial_cases[later], f"time, round {accumulated.trial_rounds[later]}", files
    seen = dict[Any, tuple[Row, str]]()
    for case, row, file in accumulated.others:
        once = row.status == "ok" and row.purpose in _ONCE
        if once or row.at is not None:
            earlier, its_file = seen.setdefault((case, row.purpose, None if once else row.at), (row, file))
            if earlier is not row:
                yield case, row.purpose, [its_file, file] if earlier._replace(at=row.at) != row else []


def bimodality_of_groups(group: Group, times_s: Floats, quiet: Flags) -> dict[str, Sequence[Any]]:
    """Columns of a line that describe bimodal timing, from the time of each trial `times_s` (cases, N).

    Only the quiet trials (`quiet`) count: a disturbed machine would make the times of any layer bimodal.
    """
    enough = (quiet.sum(axis=1) >= FEWEST_TRIALS).tolist()
    names = ("bimodal", "bimodal_fast_s", "bimodal_slow_s", "bimodal_cause")
    cells: list[tuple[Any, ...]] = [(False if is_enough else None, None, None, None) for is_enough in enough]
    for case in np.flatnonzero(may_be_bimodal(times_s, quiet)).tolist():
        chosen = case, quiet[case]
        counters = [optional_cells(group.counter(entries, chosen)) for entries in COUNTERS.values()]
        by_trial = [dict(zip(COUNTERS, trial, strict=True)) for trial in zip(*counters, strict=True)]
        bimodality = find_bimodality(times_s[chosen].tolist(), by_trial)
        if bimodality is not None:
            cells[case] = (True, bimodality.fast_s, bimodality.slow_s, bimodality.cause)
    return dict(zip(names, zip(*cells, strict=True), strict=True))


def summarise(rows: Iterable[StoredRow], limits: Limits) -> list[CaseResult]:
    """A line for every case that has a row, sorted by case. `limits` are those of the sweep.

    Raises InvalidRow for a row that does not count.
    """
    accumulated = RunAccumulator()
    for row in rows:
        accumulated.add(row)
    return _lines_of(accumulated, Trials(accumulated), limits)


def summarise_run(run: Path, limits: Limits) -> tuple[list[CaseResult], list[str]]:
    """Lines as by `summarise` for all rows of a run, and a notice for each invalid or repeated row."""
    accumulated, notices = read_run(run)
    trials = Trials(accumulated)
    return _lines_of(accumulated, trials, limits), [*notices, *duplicate_row_notices(run, accumulated, trials)]


def _lines_of(accumulated: RunAccumulator, trials: Trials, limits: Limits) -> list[CaseResult]:
    """A line for every case of the accumulator, sorted by case.

    The status is `ok` if no trial of the case failed, and otherwise that of the first failure. The time of a layer that
    is killed in one of five trials is not reliable.
    """
    cases = [Case(*axes) for axes in accumulated.cases]
    ok = np.array([index not in accumulated.failures for index in range(len(cases))], dtype=bool)
    groups = list(trials.groups(ok, [*map(probe_kind, cases)]))
    statistics = [
        trial_statistics(group.column("value_s"), group.column("median_s"), group.quiet()) for group in groups
    ]
    distances = _distances_to_ends(cases, accumulated.hosts, groups, statistics)
    timed = {}
    for group, of_group, ends in zip(groups, statistics, distances, strict=True):
        columns = _timed(group, of_group, ends, limits)
        for index, *cells in zip(group.cases.tolist(), *columns.values(), strict=True):
            timed[index] = dict(zip(columns, cells, strict=True))
    counts = trials.counts.tolist()
    order = sorted(range(len(cases)), key=list(accumulated.cases).__getitem__)
    return with_own_axes(
        _line(accumulated, index, cases[index], counts[index], timed.get(index, {})) for index in order
    )


def _distances_to_ends(
    cases: Sequence[Case],
    hosts: Mapping[int, tuple[str, ...]],
    groups: Sequence[Group],
    statistics: Sequence[TrialStatistics],
) -> list[Floats]:
    """Log distances to the lower and upper ends of the intervals, (2, cases) for each group.

    Each case borrows strength from the cases of the same hosts, device and number of threads.
    """
    if not statistics:
        return []
    alike = dict[tuple[Any, ...], list[int]]()
    for place, case in enumerate(index for group in groups for index in group.cases.tolist()):
        alike.setdefault((frozenset(hosts.get(case, ())), cases[case].device, cases[case].threads), []).append(place)
    of_groups = ((of_group.spreads, of_group.numbers, of_group.time_s) for of_group in statistics)
    spreads, numbers, times_s = map(np.concatenate, zip(*of_groups, strict=True))
    ends = np.concatenate([of_group.own_distances for of_group in statistics], axis=1)
    for places in alike.values():
        of_machine = spreads[places], numbers[places], times_s[places]
        ends[:, places] = noise_prior.learn(*of_machine).log_distances(*of_machine, ends[:, places])
    return np.split(ends, np.cumsum([len(group.cases) for group in groups])[:-1], axis=1)


def _line(accumulated: RunAccumulator, index: int, case: Case, trials: int, timed: Mapping[str, Any]) -> CaseResult:
    """The line of one case. `timed` holds the columns computed from its trials, if it did not fail."""
    status, reason = accumulated.failures.get(index, ("ok", None))
    cells: dict[str, Any] = {
        **dict.fromkeys(COLUMNS),
        **case.as_dict(),
        "family": accumulated.families[index],
        "status": status,
        "reason": reason,
        "trials": trials,
        "stop_reason": "interrupted" if status == "ok" else "failed",
        "graph_note": accumulated.graph_notes.get(index) if status == "ok" else None,
        "host": ",".join(sorted(accumulated.hosts.get(index, ()))) or None,
        "own_axes": accumulated.own_axes.get(index),
        **dict(zip(FACTS, accumulated.facts.get(index, ()), strict=False)),
        **timed,
    }
    # Timed trials load the code compiled before, so their compile time is only that of loading.
    cells["compile_s"] = accumulated.compiles_s.get(index, cells["compile_s"])
    return evident_line(cells)


def _timed(group: Group, statistics: TrialStatistics, ends: Floats, limits: Limits) -> dict[str, Sequence[Any]]:
    """The columns computed from timed trials."""
    ways = _gpu_time_by(group)
    # A time that includes launches is another quantity than the time of a GPU.
    quiet, probe_s = group.quiet(), group.column("probe_s")
    disturbed = (~quiet).sum(axis=1).astype(float)
    probed = (~np.isnan(probe_s)).sum(axis=1).astype(float)
    estimated = [None if way is None else time for way, time in zip(ways, estimates(statistics, ends), strict=True)]
    return {
        "time_s": [time and time.time_s for time in estimated],
        "time_lo_s": [time and time.lo_s for time in estimated],
        "time_hi_s": [time.hi_s if time and math.isfinite(time.hi_s) else None for time in estimated],
        "time_median_s": [time and time.median_s for time in estimated],
        "gpu_time_by": [way or None for way in ways],
        "stop_reason": _stop_reasons(group, statistics, limits),
        "disturbed_share": optional_cells(optional_ratio(disturbed, probed)),
        **{name: _combined(group, column) for name, column in COLUMNS.items() if column.each},
        "probe_s": optional_cells(medians(np.where(counted(quiet), probe_s, np.nan))),
        **bimodality_of_groups(group, group.column("median_s"), quiet),
    }


def _stop_reasons(group: Group, statistics: TrialStatistics, limits: Limits) -> list[str]:
    """The stop reason of each case, judged by the best probe time of the run (`best_probe_s`).

    The sweep judged each case by the best probe time so far. If the rule would not stop a case by the best of the whole
    run, it is applied with the case's own best probe time. If that stops the case, the reason is `disturbed`.
    """
    values_s, probe_s = group.column("value_s"), group.column("probe_s")
    walls_s = group.column("wall_s").sum(axis=1).tolist()
    of_run = group.quiet().tolist()
    of_itself = is_quiet(probe_s, np.fmin.reduce(probe_s, axis=1)[:, None])
    # The intervals from the cases' own trials decide when to stop.
    estimated = estimates(statistics)
    alone = estimates(trial_statistics(values_s, group.column("median_s"), of_itself))
    stops = []
    for case, values in enumerate(values_s.tolist()):
        reason = reason_of(values, of_run[case], walls_s[case], estimated[case].half_width, limits)
        if reason is None:
            by_itself = reason_of(values, of_itself[case].tolist(), walls_s[case], alone[case].half_width, limits)
            reason = "disturbed" if by_itself or len(values) >= limits.max_rounds else "interrupted"
        stops.append(reason)
    return stops
