"""Rows folded together as they are read: of each only what its case's line needs, so that a run of any size fits."""

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
# The purpose of a row that says: how this case has failed before counts no more.
REOPEN = "reopen"
_STATUSES = frozenset(("ok", *FAILURES))
# What is found out of a case once.
_ONCE = ("facts", "compile")

_axes = itemgetter(*AXES)
_must = itemgetter("case", "family", "purpose", "round", "status")
_TYPES = get_type_hints(Case)
# Without a source its length is 0.
_LEAST = {"source_len": 0}
# Rounds are counted; what cannot be counted in eight bytes is none.
_MOST_ROUND = 2**62


class Fold:
    """What the rows of a run say, or of a part of it, in their order.

    `cases` numbers the cases by their axes. By that number: the last family named, the first failure (status and
    reason) since the case was last `reopened`, the last facts (`FACTS`), how many seconds it took to compile, as said
    last, which `hosts` have timed it, and the highest round in its rows, whether their trials count or not (`rounds`).
    Of each timed trial, in the order of the rows: its case, its round, its `RECORD`; of those before the `since`-th,
    where a case has one, nothing counts. `others` counts the rows of other kinds, by what tells one from a copy of it.
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
        """Fold a row in. False if it lacks what every row must hold or holds what cannot be; it then leaves no trace.

        Every row says of which case it is, for what purpose and how it ended; a timed one has its samples.
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
        """A case's facts, and how long it took to compile, are found out once. Verified it is as often as it is gone on
        with, and it may fail as often as it is tried again: such rows are told apart by when they were written.
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
        """The number of the case that the row is of; None if it is of none."""
        try:
            known = self.cases.get(_axes(data))
        except (KeyError, TypeError):  # an axis is missing, or is no plain value; or this is no mapping at all
            known = None
        if known is not None:
            return known
        try:
            case = Case.from_dict(data)
        except (KeyError, TypeError):
            return None
        # One string for all rows that name the same, where each row has brought its own.
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
        """Fold in what the rows after these say."""
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
