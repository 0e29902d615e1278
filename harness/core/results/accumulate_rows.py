"""Read the rows of a run, and keep of them only the data that the line of each case needs.

A run of any size therefore fits into memory.
"""

from array import array
from operator import itemgetter
from pathlib import Path
from sys import intern
from typing import Any

from harness.core.model.errors import UsageError
from harness.core.model.layer_options import options_of
from harness.core.model.sweep_axes import AXES, Case

from .row import MOST_ROUND, REOPEN, Row, read_row
from .row_files import StoredRow, damage_notices, duplicate_notices, read_file, row_paths

Axes = tuple[Any, ...]
_axes = itemgetter(*AXES)


class RunAccumulator:
    """The data kept of all rows of a run, in their order.

    `cases` numbers the cases by their axes. Other attributes have these numbers as keys or indices:

    - The last named family (`families`).
    - The first failure, status and reason, since the case was last reopened (`failures`).
    - The layer's own axes, as the last failure names them (`own_axes`).
    - The hosts that timed the case (`hosts`).
    - Why no CUDA graph of the case was timed, in the first trial that says so (`graph_notes`).
    - The first trial that counts, for a case that was timed anew (`since`).
    - The highest round in any row, whether its trial counts or not (`rounds`).
    - The last facts, as the cells of `FACTS` (`facts`).
    - The last compile time, in seconds (`compiles_s`).

    Timed trials are kept in the order of the rows: the case (`trial_cases`), the round (`trial_rounds`) and the
    `RECORD` (`records`) of each. All other rows are kept in `others`, with the case.
    """

    def __init__(self) -> None:
        self.cases: dict[Axes, int] = {}
        self.families: dict[int, str] = {}
        self.failures: dict[int, tuple[str, str | None]] = {}
        self.own_axes: dict[int, str | None] = {}
        self.hosts: dict[int, tuple[str, ...]] = {}
        self.graph_notes: dict[int, str] = {}
        self.since: dict[int, int] = {}
        self.rounds: dict[int, int] = {}
        self.facts: dict[int, tuple[Any, ...]] = {}
        self.compiles_s: dict[int, float] = {}
        self.others: list[tuple[int, Row]] = []
        self.trial_cases = array("q")
        self.trial_rounds = array("q")
        self.records = array("d")

    def add(self, row: StoredRow) -> bool:
        """Add a row. Return False, and add nothing, if a required value is missing or invalid.

        Every row names its case. `read_row` has the other rules.
        """
        read = read_row(row)
        case = None if read is None else self._number(row.get("case"))
        if read is None or case is None:
            return False
        family, purpose, number, status, *_, value = read
        self.families[case] = family
        if purpose == "time" and self.rounds.get(case, 0) < number < MOST_ROUND:
            self.rounds[case] = number
        if purpose == "time" and status == "ok":
            self._timed_on(case, row.get("host"))
            self._without_graph(case, row.get("graph_note"))
            self.trial_cases.append(case)
            self.trial_rounds.append(number)
            self.records += value
        else:
            self._enter(case, read)
        return True

    def _enter(self, case: int, row: Row) -> None:
        """Enter a row that is no timed trial."""
        self.others.append((case, row))
        if row.purpose == REOPEN:
            self.failures.pop(case, None)
            if row.anew:
                self.since[case] = len(self.trial_cases)
                self.hosts.pop(case, None)
                self.graph_notes.pop(case, None)
        if row.status != "ok":
            self.failures.setdefault(case, (row.status, row.reason))
            self.own_axes[case] = row.value
        elif row.purpose == "facts":
            self.facts[case] = row.value
        elif row.purpose == "compile":
            self.compiles_s[case] = row.value

    def _timed_on(self, case: int, host: Any) -> None:
        known = self.hosts.get(case, ())
        if isinstance(host, str) and host not in known:
            self.hosts[case] = (*known, intern(host))

    def _without_graph(self, case: int, note: Any) -> None:
        if isinstance(note, str):
            self.graph_notes.setdefault(case, intern(note))

    def _number(self, data: Any) -> int | None:
        """The number of the case with these axes; None if `data` does not describe a case."""
        try:
            known = self.cases.get(_axes(data))
        except (KeyError, TypeError):  # an axis is missing or unhashable, or `data` is not a mapping
            known = None
        if known is not None:
            return known
        try:
            case = Case.from_dict(data)
            options_of(case.options)
        except (KeyError, TypeError, UsageError):
            return None
        # Every parsed row brings its own strings; interning keeps one copy of equal ones.
        axes = tuple(intern(value) if type(value) is str else value for value in map(case.__getattribute__, AXES))
        if not all(axis.takes(value) for axis, value in zip(AXES.values(), axes, strict=True)):
            return None
        return self.cases.setdefault(axes, len(self.cases))


def read_run(run: Path) -> tuple[RunAccumulator, list[str]]:
    """Accumulate all rows of a run. Return the accumulator and a notice for each invalid line and each copied file."""
    accumulated = RunAccumulator()
    readings = [read_file(path, accumulated.add) for path in row_paths(run)]
    return accumulated, [*duplicate_notices(run), *damage_notices(readings)]
