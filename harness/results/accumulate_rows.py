"""Read the rows of a run, and keep of them only the data that the line of each case needs.

A run of any size therefore fits into memory. Several processes share the reading of a large run.
"""

import pickle
import subprocess
import sys
from array import array
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from operator import itemgetter
from pathlib import Path
from sys import intern
from typing import Any

from harness.background_process import BackgroundProcess
from harness.errors import UsageError
from harness.key_value_options import usable_cpus
from harness.layer_options import options_of
from harness.results.row import MOST_ROUND, REOPEN, Row, read_row
from harness.results.row_files import Part, Reading, damage_notices, duplicate_notices, read_part, row_parts, size_of
from harness.sweep_axes import AXES, Case

Axes = tuple[Any, ...]
_axes = itemgetter(*AXES)


class RunAccumulator:
    """The data kept of all rows of a run, or of a part of a run, in their order.

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
    `RECORD` (`records`) of each. All other rows are kept in `others`, with the case and the number of trials before.
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
        self.others: list[tuple[int, int, Row]] = []
        self.trial_cases = array("q")
        self.trial_rounds = array("q")
        self.records = array("d")

    def add(self, row: Mapping[str, Any]) -> bool:
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
            self._enter(case, len(self.trial_cases), read)
        return True

    def _enter(self, case: int, trials_before: int, row: Row) -> None:
        """Enter a row that is no timed trial, which `trials_before` trials precede."""
        self.others.append((case, trials_before, row))
        if row.purpose == REOPEN:
            self.failures.pop(case, None)
            if row.anew:
                self.since[case] = trials_before
                self.hosts.pop(case, None)
                self.graph_notes.pop(case, None)
        if row.status != "ok":
            self.failures.setdefault(case, (row.status, row.reason))
            self.own_axes[case] = row.value
        elif row.purpose == "facts":
            self.facts[case] = row.value
        elif row.purpose == "compile":
            self.compiles_s[case] = row.value

    def _timed_on(self, case: int, *hosts: Any) -> None:
        known = self.hosts.get(case, ())
        for host in hosts:
            if isinstance(host, str) and host not in known:
                known = self.hosts[case] = (*known, intern(host))

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

    def extend(self, later: "RunAccumulator") -> None:
        """Add the data of later rows."""
        numbers = [self.cases.setdefault(axes, len(self.cases)) for axes in later.cases]
        for case, trials_before, row in later.others:
            self._enter(numbers[case], len(self.trial_cases) + trials_before, row)
        for case, number in enumerate(numbers):
            self.families[number] = later.families[case]
            self._timed_on(number, *later.hosts.get(case, ()))
            self._without_graph(number, later.graph_notes.get(case))
            if case in later.rounds:
                self.rounds[number] = max(later.rounds[case], self.rounds.get(number, 0))
        self.trial_cases.extend(map(numbers.__getitem__, later.trial_cases))
        self.trial_rounds += later.trial_rounds
        self.records += later.records


def accumulate_share(share: Sequence[Part]) -> tuple[RunAccumulator, list[Reading]]:
    """Accumulate the rows of some parts in their order. Return the accumulator and one `Reading` per part."""
    accumulated = RunAccumulator()
    return accumulated, [read_part(part, accumulated.add) for part in share]


def serve_share() -> None:
    """Entry point of a helper process: read a share from stdin, accumulate its rows, write the result to stdout."""
    share = pickle.load(sys.stdin.buffer)
    pickle.dump(accumulate_share(share), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)


def _started() -> BackgroundProcess:
    """A helper process that accumulates the share that it gets."""
    return BackgroundProcess(__name__, serve_share.__name__, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _send(share: Sequence[Part], helper: BackgroundProcess) -> None:
    """Send a share to its helper. A long one blocks until the helper has loaded its libraries."""
    if helper.process is not None and helper.process.stdin is not None:
        with suppress(BrokenPipeError), helper.process.stdin as pipe:
            pickle.dump(share, pipe)


def _result(helper: BackgroundProcess, share: Sequence[Part]) -> tuple[RunAccumulator, list[Reading]]:
    """What the helper has accumulated. If it failed, was killed or lacked memory, this process reads the share."""
    if helper.process is not None and helper.process.stdout is not None:
        with suppress(EOFError, pickle.UnpicklingError):
            return pickle.load(helper.process.stdout)
    return accumulate_share(share)


# A helper process takes 0.2 s to start. In that time, one process reads this many bytes of rows.
_WORTH_A_HELPER = 2**25
# Merging an accumulator takes a tenth of the time of reading its rows, so more processes do not pay.
_MOST_PROCESSES = 8


def read_run(run: Path, processes: int | None = None) -> tuple[RunAccumulator, list[str]]:
    """Accumulate all rows of a run. Return the accumulator and a notice for each invalid line and each copied file.

    Several processes share the work. By default, their number (`processes`) depends on the size of the rows and the
    number of processors.
    """
    first, *others = row_parts(run, processes or _as_many_as_pay(run))
    with ExitStack() as stack:
        helpers = [stack.enter_context(closing(_started())) for _ in others]
        for share, helper in zip(others, helpers, strict=True):
            _send(share, helper)
        accumulated, readings = accumulate_share(first)
        for helper, share in zip(helpers, others, strict=True):
            later, more = _result(helper, share)
            accumulated.extend(later)
            readings += more
    return accumulated, [*duplicate_notices(run), *damage_notices(readings)]


def _as_many_as_pay(run: Path) -> int:
    size = sum(size_of(path) for path in (run / "rows").glob("*.jsonl"))
    return max(1, min(usable_cpus(), size // _WORTH_A_HELPER, _MOST_PROCESSES))
