"""The timed trials of a run as columns. Cases with the same number of trials are processed together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.stats.trials import QUIET_PULSE
from harness.summary.fold import Fold
from harness.summary.trial_row import RECORD

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Some cases with N trials each. Arrays are (cases, N), or (cases,) for one value per case.

    `best_pulse_s` is the best probe time of the run with the same number of threads; NaN without a probe.
    """

    cases: Numbers
    best_pulse_s: Floats
    _records: Floats
    _rows: Numbers

    def column(self, name: str) -> Floats:
        """A column of `RECORD` (cases, N), in the order of the trials; NaN if not recorded."""
        return self._records[self._rows, RECORD.index(name)]

    def calm(self, best_pulse_s: Floats) -> NDArray[np.bool_]:
        """Which trials were quiet (cases, N), judged by the best probe time of each case (cases,).

        The rule is that of `harness.stats.trials.is_quiet`.
        """
        pulses = self.column("pulse_s")
        return np.isnan(pulses) | np.isnan(best_pulse_s)[:, None] | (pulses <= QUIET_PULSE * best_pulse_s[:, None])


class Trials:
    """The timed trials of all cases, by the case numbers of the fold.

    If a round was read twice, the later reading replaces the first and takes its position. All such
    repetitions are listed in `repeated`, as cases and rounds. Trials from before a case was begun anew do not count.
    """

    def __init__(self, fold: Fold) -> None:
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
        np.fmin.at(best, np.repeat(kind, self.numbers), self._records[self._rows, RECORD.index("pulse_s")])
        return best[kind]

    def groups(self, chosen: NDArray[np.bool_], best_pulse_s: Floats) -> Iterator[Group]:
        """Group the chosen cases that have trials by their number of trials."""
        for number in np.unique(self.numbers[chosen & (self.numbers > 0)]).tolist():
            cases = np.flatnonzero(chosen & (self.numbers == number))
            rows = self._rows[self._starts[cases][:, None] + np.arange(number)]
            yield Group(cases, best_pulse_s[cases], self._records, rows)


def _in_order(cases: Numbers, rounds: Numbers) -> Numbers:
    """Indices of the trials that count, sorted by case, then by when each round was first read."""
    places = np.lexsort((rounds, cases))  # a stable sort: repeated readings of a round keep their order
    changes = (np.diff(cases[places]) != 0) | (np.diff(rounds[places]) != 0)
    first = places[np.append(True, changes)[: len(places)]]
    last = places[np.append(changes, True)[: len(places)]]
    return last[np.lexsort((first, cases[first]))]
