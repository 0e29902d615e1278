"""Read the rows of a run, and keep of them only the data that the line of each case needs.

A run of any size therefore fits into memory. Several processes share the reading of a large run.
"""

import math
import os
import pickle
import subprocess
import sys
import tempfile
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path
from statistics import median
from sys import intern
from typing import Any, get_args, get_type_hints

import numpy as np

from harness.background_process import BackgroundProcess
from harness.case import AXES, FAILURES, Case
from harness.former_names import STATUSES
from harness.results.table import CaseResult
from harness.stats.estimate import Trial
from harness.store import Part, Reading, damage_notices, duplicate_notices, read_part, row_parts
from harness.store.rows import size_of

# Columns that have the same name in the row; NaN if the value is missing or infinite.
_RECORDED = (
    "minor_faults",
    "major_faults",
    "involuntary_switches",
    "cpu_s",
    "sampling_s",
    "steal_ticks",
    "machine_ticks",
    "cpu_mhz",
    "sm_clock_mhz",
    "compile_s",
    "host_bound",
    "wall_call_s",
)
# The numbers kept of a trial. `value_s` and `median_s` are the fastest and the median sample, in seconds per call.
# `calls` is the number of calls in all samples.
RECORD = ("value_s", "median_s", "wall_s", "probe_s", "calls", *_RECORDED)
# No call takes less than a millionth of a nanosecond or more than a century, so other numbers are damaged.
_SHORTEST_S, _LONGEST_S = 1e-15, 3e9


def trial_of_row(row: Mapping[str, Any]) -> Trial:
    """The trial in a timed row. Raises KeyError for any other row."""
    samples_s = row["samples_s"]
    return Trial.of(min(samples_s), median(samples_s), row["wall_s"], row.get("probe_s", row.get("pulse_s")))


def record_of_row(row: Mapping[str, Any]) -> "array[float] | None":
    """The numbers of `RECORD` in a timed row. Return None if a required value is missing or invalid.

    They are in a compact array, because a large run has a million of these arrays. Required are `samples_s`, `wall_s`
    and `probe_s`; `probe_s` may be null. `calls_per_sample` defaults to 1.
    """
    samples, wall_s, probe_s = row.get("samples_s"), row.get("wall_s"), row.get("probe_s", row.get("pulse_s", math.nan))
    if type(samples) is not list or not samples or wall_s is None:
        return None
    get = row.get
    try:
        ordered = array("d", samples)
        np.frombuffer(ordered).sort()  # in place; NaN is sorted last
        if not (ordered[0] > _SHORTEST_S and ordered[-1] < _LONGEST_S and 0 < wall_s < _LONGEST_S):
            return None
        if not (probe_s is None or 0 < probe_s < math.inf):
            return None
        number = len(ordered)
        median_s = (ordered[(number - 1) // 2] + ordered[number // 2]) / 2
        calls = number * get("calls_per_sample", 1)
        recorded = [value if value is not None and math.isfinite(value) else math.nan for value in map(get, _RECORDED)]
        return array("d", [ordered[0], median_s, wall_s, math.nan if probe_s is None else probe_s, calls, *recorded])
    except (TypeError, OverflowError):  # not a number, or too large for a float
        return None


# The columns of a case's line that come from a facts row. These have the same name in the row …
_SAME = (
    "peak_bytes",
    "peak_resident_bytes",
    "peak_traced_bytes",
    "flops",
    "flops_full",
    "flops_claimed",
    "ops",
    "depth",
    "depth_declared",
    "min_bytes",
    "weights_bytes",
    "inputs_bytes",
    "saved_bytes",
    "transient_bytes",
    "backend",
    "backend_fallback",
    "claims",
)
# … followed by the reasons for missing facts, joined into one string.
FACTS = (*_SAME, "facts_unknown")
# Counts must fit into eight bytes. Only `transient_bytes`, the remainder of a peak, may be negative.
_MOST = 2**63
_NEGATIVE = "transient_bytes"
_FACT_TYPES = tuple(str if str in get_args(get_type_hints(CaseResult)[name]) else (int, float) for name in _SAME)


def facts_of_row(row: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The cells of `FACTS`, with None for each that the row lacks. Return None if any value is invalid."""
    cells = tuple(row.get(name) for name in _SAME)
    unknown = row.get("facts_unknown", [])
    for name, cell, types in zip(_SAME, cells, _FACT_TYPES, strict=True):
        if cell is None:
            continue
        if not isinstance(cell, types):
            return None
        if (
            not isinstance(cell, str) and not (-_MOST if name == _NEGATIVE else 0) <= cell < _MOST
        ):  # false for NaN as well
            return None
    if not isinstance(unknown, list) or not all(isinstance(reason, str) for reason in unknown):
        return None
    return *cells, "; ".join(unknown) or None


Axes = tuple[Any, ...]
# The purpose of a row that makes earlier failures of its case void.
REOPEN = "reopen"
_STATUSES = frozenset(("ok", *FAILURES))
# Purposes that are measured once per case.
_ONCE = ("facts", "compile")

_axes = itemgetter(*AXES)
_must = itemgetter("case", "family", "purpose", "round", "status")
_TYPES = get_type_hints(Case)
# The length is 0 for a layer without a source.
_LEAST = {"kv_len": 0}
# A larger round number would not fit into eight bytes, so it is invalid.
_MOST_ROUND = 2**62


class RunAccumulator:
    """The data kept of all rows of a run, or of a part of a run, in their order.

    `cases` numbers the cases by their axes. Other attributes have these numbers as keys or indices:

    - The last named family (`families`).
    - The first failure, status and reason, since the case was last reopened (`failures`).
    - The cases that were reopened, which voids their earlier failures (`reopened`).
    - The hosts that timed the case (`hosts`).
    - The first trial that counts, for a case that was timed anew (`since`).
    - The highest round in any row, whether its trial counts or not (`rounds`).
    - The last facts, as the cells of `FACTS` (`facts`).
    - The last compile time, in seconds (`compiles_s`).

    Timed trials are kept in the order of the rows: the case (`trial_cases`), the round (`trial_rounds`) and the
    `RECORD` (`records`) of each. All other rows are counted in `others`, by the key that rows share with their copies.
    """

    def __init__(self) -> None:
        self.cases: dict[Axes, int] = {}
        self.families: list[str] = []
        self.failures: dict[int, tuple[str, str | None]] = {}
        self.reopened: set[int] = set()
        self.hosts: dict[int, tuple[str, ...]] = {}
        self.since: dict[int, int] = {}
        self.rounds: dict[int, int] = {}
        self.facts: dict[int, tuple[Any, ...]] = {}
        self.compiles_s: dict[int, float] = {}
        self.others: Counter[tuple[int, str, float | None]] = Counter()
        self.trial_cases = array("q")
        self.trial_rounds = array("q")
        self.records = array("d")

    def add(self, row: Mapping[str, Any]) -> bool:
        """Add a row. Return False, and add nothing, if a required value is missing or invalid.

        Every row names its case, its family, its purpose, its round and its status. A timed row has samples as well.
        """
        try:
            data, family, purpose, number, status = _must(row)
        except KeyError:
            return False
        if not (type(family) is type(purpose) is type(status) is str and type(number) is int):
            return False
        status = STATUSES.get(status, status)
        if status not in _STATUSES or not isinstance(row.get("at"), int | float | None):
            return False
        failed, record, facts, compile_s = status != "ok", None, None, None
        if purpose == "time" and not failed:
            record = record_of_row(row)
            whole = record is not None and abs(number) <= _MOST_ROUND
        elif purpose == "facts" and not failed:
            facts = facts_of_row(row)
            whole = facts is not None and "reason" in row
        elif purpose == "compile" and not failed:
            compile_s = row.get("compile_s")
            whole = isinstance(compile_s, int | float) and 0 <= compile_s < math.inf and "reason" in row
        else:
            whole = "reason" in row and isinstance(row["reason"], str | None)
        case = self._number(data) if whole else None
        if case is None:
            return False
        if self.families[case] != family:
            self.families[case] = family
        if purpose == REOPEN:
            self.failures.pop(case, None)
            self.reopened.add(case)
            if row.get("anew"):
                self.since[case] = len(self.trial_cases)
                self.hosts.pop(case, None)
        if failed:
            self.failures.setdefault(case, (status, row["reason"]))
        if facts is not None:
            self.facts[case] = facts
        if compile_s is not None:
            self.compiles_s[case] = compile_s
        if purpose == "time" and self.rounds.get(case, 0) < number < _MOST_ROUND:
            self.rounds[case] = number
        if record is not None:
            self._timed_on(case, row.get("host"))
            self.trial_cases.append(case)
            self.trial_rounds.append(number)
            self.records += record
        else:
            self._count(case, row)
        return True

    def _count(self, case: int, row: Mapping[str, Any]) -> None:
        """Count a row by the key that identifies its copies.

        A case has facts and a compile time once. A case is verified each time the sweep continues, and may fail at
        each attempt. Rows of these kinds are distinguished by the time they were written.
        """
        purpose, at = row["purpose"], row.get("at")
        if row["status"] == "ok" and purpose in _ONCE:
            self.others[case, purpose, None] += 1
        elif isinstance(at, int | float):
            self.others[case, purpose, at] += 1

    def _timed_on(self, case: int, *hosts: Any) -> None:
        known = self.hosts.get(case, ())
        for host in hosts:
            if isinstance(host, str) and host not in known:
                known = self.hosts[case] = (*known, intern(host))

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
        except (KeyError, TypeError):
            return None
        # Every parsed row brings its own strings; interning keeps one copy of equal ones.
        axes = tuple(intern(value) if type(value) is str else value for value in map(case.__getattribute__, AXES))
        for name, value in zip(AXES, axes, strict=True):
            if not isinstance(value, _TYPES[name]) or (_TYPES[name] is int and value < _LEAST.get(name, 1)):
                return None
        return self._enter(axes)

    def _enter(self, axes: Axes) -> int:
        number = self.cases.setdefault(axes, len(self.cases))
        if number == len(self.families):
            self.families.append("")
        return number

    def follow(self, later: "RunAccumulator") -> None:
        """Add the data of later rows."""
        numbers = np.array([self._enter(axes) for axes in later.cases], dtype=np.int64)
        for number, family in zip(numbers, later.families, strict=True):
            self.families[number] = family
        for case in later.reopened:
            self.failures.pop(int(numbers[case]), None)
            self.reopened.add(int(numbers[case]))
        for case, place in later.since.items():
            self.since[int(numbers[case])] = len(self.trial_cases) + place
            self.hosts.pop(int(numbers[case]), None)
        for case, hosts in later.hosts.items():
            self._timed_on(int(numbers[case]), *hosts)
        for case, number in later.rounds.items():
            self.rounds[int(numbers[case])] = max(number, self.rounds.get(int(numbers[case]), 0))
        for case, failure in later.failures.items():
            self.failures.setdefault(int(numbers[case]), failure)
        for case, facts in later.facts.items():
            self.facts[int(numbers[case])] = facts
        for case, compile_s in later.compiles_s.items():
            self.compiles_s[int(numbers[case])] = compile_s
        for (case, purpose, at), times in later.others.items():
            self.others[int(numbers[case]), purpose, at] += times
        self.trial_cases.frombytes(numbers[np.frombuffer(later.trial_cases, dtype=np.int64)].tobytes())
        self.trial_rounds += later.trial_rounds
        self.records += later.records


def accumulate_share(share: Sequence[Part]) -> tuple[RunAccumulator, list[Reading]]:
    """Accumulate the rows of some parts in their order. Return the accumulator and one `Reading` per part."""
    fold = RunAccumulator()
    return fold, [read_part(part, fold.add) for part in share]


def serve_share() -> None:
    """Entry point of a helper process: read a share from stdin, accumulate its rows, write the result to stdout."""
    share = pickle.load(sys.stdin.buffer)
    pickle.dump(accumulate_share(share), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)


class ParallelReader:
    """Accumulates a share of a run's rows in a process of its own, while other processes do the same with theirs.

    The process starts at once and ends with this context at the latest.
    """

    def __init__(self, share: Sequence[Part]) -> None:
        self._share = share
        try:
            self._interpreter: BackgroundProcess | None = _started(share)
        except OSError:  # no disk space for the temporary file: `result` reads the share here
            self._interpreter = None

    def __enter__(self) -> "ParallelReader":
        return self

    def __exit__(self, *_: object) -> None:
        if self._interpreter is not None:
            self._interpreter.close()

    def result(self) -> tuple[RunAccumulator, list[Reading]]:
        """The result for the share. This process reads it itself if the other failed, was killed or lacked memory."""
        process = self._interpreter.process if self._interpreter is not None else None
        if process is not None:
            out, _ = process.communicate()
            if process.returncode == 0:
                return pickle.loads(out)
        return accumulate_share(self._share)


def _started(share: Sequence[Part]) -> BackgroundProcess:
    with tempfile.TemporaryFile() as given:
        pickle.dump(share, given)
        given.seek(0)
        return BackgroundProcess(__name__, serve_share.__name__, stdin=given, stdout=subprocess.PIPE)


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
        helpers = [stack.enter_context(ParallelReader(share)) for share in others]
        fold, readings = accumulate_share(first)
        for helper in helpers:
            later, more = helper.result()
            fold.follow(later)
            readings += more
    return fold, [*duplicate_notices(run), *damage_notices(readings)]


def _as_many_as_pay(run: Path) -> int:
    size = sum(size_of(path) for path in (run / "rows").glob("*.jsonl"))
    return max(1, min(_processors(), size // _WORTH_A_HELPER, _MOST_PROCESSES))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
