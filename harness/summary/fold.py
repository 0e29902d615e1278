"""Aggregate rows while they are read.

A fold keeps only the data that the line of a case needs, so a run of any size fits into memory.
"""

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from operator import itemgetter
from sys import intern
from typing import Any, get_type_hints

import numpy as np

from harness.case import AXES, FAILURES, Case
from harness.summary.facts_row import facts_of
from harness.summary.trial_row import record_of

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
_LEAST = {"source_len": 0}
# A larger round number would not fit into eight bytes, so it is invalid.
_MOST_ROUND = 2**62


class Fold:
    """Data of all rows of a run, or of a part of a run, in their order.

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
        if status not in _STATUSES or not isinstance(row.get("at"), int | float | None):
            return False
        failed, record, facts, compile_s = status != "ok", None, None, None
        if purpose == "time" and not failed:
            record = record_of(row)
            whole = record is not None and abs(number) <= _MOST_ROUND
        elif purpose == "facts" and not failed:
            facts = facts_of(row)
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

    def follow(self, later: "Fold") -> None:
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
