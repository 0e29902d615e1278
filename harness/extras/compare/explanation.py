"""Where two calls differ: one traced call of each side, and the table of their differences.

Operations, FLOPs, bytes and tensors are exact. The shares of time come from a profiler and are estimates, so no verdict
depends on them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.model import formatting
from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.study.report.document import Section, Sentence, Table

# Operations with a smaller share of the time on both sides are not listed.
_LEAST_SHARE = 0.005
_ESTIMATES = (
    "Shares of time are estimates: each is of one profiled call, and a profiler slows down short operations most."
)
_FEW, _FEW_SHARES = 8, 5  # rows on a terminal


class Total(NamedTuple):
    """What an operation does in a call. FLOPs are None without a formula. `places` are its calls by line of code."""

    calls: int = 0
    flops: int | None = 0
    bytes: int = 0
    places: Mapping[str, int] = {}

    @property
    def counts(self) -> tuple[int, int, int]:
        """Calls, FLOPs and bytes, with unknown FLOPs as 0."""
        return self.calls, self.flops or 0, self.bytes


Group = tuple[str, str, str]


@dataclass(frozen=True)
class TracedCall:
    """The traced call of a side.

    - `operations`: by name
    - `tensors`: number and bytes of the tensors alive at the peak, by their operation, shape and dtype
    - `shares`: estimated shares of the time, by operation
    - `unknown`: reasons why an exact part is missing or incomplete
    """

    name: str
    operations: Mapping[str, Total]
    tensors: Mapping[Group, tuple[int, int]]
    shares: Mapping[str, float]
    unknown: Sequence[str] = ()

    @classmethod
    def of(cls, name: str, values: Mapping[str, Any]) -> "TracedCall":
        """The call from the answer of a trial of the kind `trace`."""
        return cls(
            name,
            {row[0]: Total(row[1], row[2], row[3], dict(row[4])) for row in values["operations"]},
            {tuple(row[:3]): tuple(row[3:]) for row in values["tensors"]},
            dict(values["shares"]),
            values["unknown"],
        )

    def operation(self, name: str) -> Total:
        """The operation's total, of zeros if the call lacks it."""
        return self.operations.get(name, Total())

    def tensor(self, group: Group) -> tuple[int, int]:
        """Number and bytes of the group's tensors, both 0 if the call lacks it."""
        return self.tensors.get(group, (0, 0))

    def share(self, name: str) -> float:
        """The estimated share of the operation, 0 if the call lacks it."""
        return self.shares.get(name, 0.0)

    @property
    def total(self) -> Total:
        """The sum over all operations."""
        totals = self.operations.values()
        flops = [total.flops for total in totals]
        sum_of_flops = None if None in flops else sum(filter(None, flops))
        return Total(sum(total.calls for total in totals), sum_of_flops, sum(total.bytes for total in totals))

    @property
    def peak_bytes(self) -> int:
        """The bytes of all tensors alive at the peak."""
        return sum(size for _, size in self.tensors.values())


@dataclass(frozen=True)
class Explanation:
    """The differences between the calls of sides A and B.

    `operations` are the names of the operations that differ, and `tensors` the groups, the largest difference first.
    `files` are the Chrome traces of A and B. `failure` says why a side could not be traced; nothing else is then known.
    """

    title: str
    a: TracedCall = TracedCall("", {}, {}, {})
    b: TracedCall = a
    operations: Sequence[str] = ()
    tensors: Sequence[Group] = ()
    files: tuple[str, str] = ("", "")
    failure: str = ""

    def parts(self, brief: bool = False) -> Iterator[Table | str]:
        """Tables and sentences: all of them, or the few rows that matter on a terminal."""
        if self.failure:
            yield self.failure
            return
        for side in (self.a, self.b):
            yield from (f"{side.name}: {line}." for line in side.unknown)
        if self.operations or self.tensors:
            yield from self._differences(brief)
        elif self.a.operations and self.b.operations:
            yield (
                f"Nothing exact differs between {self.a.name} and {self.b.name}: the same operations, as often, with "
                "the same FLOPs, bytes and tensors at the peak. Look at the shares of time below."
            )
        # Where operations differ, their table has shares already. A line for each side is enough beside it.
        if brief and self.operations:
            yield from map(_largest_shares, (self.a, self.b))
        else:
            yield self._share_table(brief)
        yield _ESTIMATES
        if any(self.files):
            yield f"Chrome traces, for chrome://tracing or ui.perfetto.dev: {', '.join(self.files)}."

    def section(self, brief: bool = False) -> Section:
        """The parts under their title, for Markdown."""
        parts = [Sentence(part) if isinstance(part, str) else part for part in self.parts(brief)]
        return Section("" if self.failure else self.title, parts)

    def as_dict(self) -> dict[str, Any]:
        """Everything with all digits, for JSON. Each pair has the value of A, then that of B."""
        if self.failure:
            return {"title": self.title, "failure": self.failure}
        sides, totals = (self.a, self.b), (self.a.total, self.b.total)
        return {
            "title": self.title,
            "sides": [side.name for side in sides],
            "total": {name: [getattr(total, name) for total in totals] for name in Total._fields[:3]},
            "peak_bytes": [side.peak_bytes for side in sides],
            "same_operations": self._same,
            "operations": [
                {
                    "operation": name,
                    **{field: [getattr(side.operation(name), field) for side in sides] for field in Total._fields},
                    "estimated_share": [side.share(name) for side in sides],
                }
                for name in self.operations
            ],
            "tensors_at_peak": [
                {
                    **dict(zip(("operation", "shape", "dtype"), group, strict=True)),
                    "number": [side.tensor(group)[0] for side in sides],
                    "bytes": [side.tensor(group)[1] for side in sides],
                }
                for group in self.tensors
            ],
            "estimated_shares": {name: [side.share(name) for side in sides] for name in self._by_share},
            "unknown": [list(side.unknown) for side in sides],
            "chrome_traces": list(self.files),
        }

    @property
    def _same(self) -> int:
        return len({*self.a.operations, *self.b.operations}) - len(self.operations)

    @property
    def _by_share(self) -> list[str]:
        names = dict.fromkeys((*self.a.shares, *self.b.shares))
        largest = {name: max(self.a.share(name), self.b.share(name)) for name in names}
        return sorted((name for name in names if largest[name] >= _LEAST_SHARE), key=lambda name: -largest[name])

    def _differences(self, brief: bool) -> Iterator[Table | str]:
        most = _FEW if brief else len(self.operations) + len(self.tensors)
        columns = {"operation": "", "calls": "n", "FLOPs": "n", "bytes": "n", "time, estimated": "n", "where": ""}
        rows = [self._operation_row(name) for name in self.operations[:most]]
        totals = self._cells("all operations", self.a.total, self.b.total)
        if rows:
            yield Table(columns, [*rows, (*totals, "", "")], title=self.title)
        yield from _more(len(self.operations) - most, "operations differ")
        if self._same:
            yield f"{self._same} {'operations are' if self._same > 1 else 'operation is'} the same on both sides."
        columns = {"alive at the peak, made by": "", "shape": "", "dtype": "", "tensors": "n", "bytes": "n"}
        if tensors := [self._tensor_row(group) for group in self.tensors[:most]]:
            peaks = _change(self.a.peak_bytes, self.b.peak_bytes, formatting.size)
            yield Table(columns, [*tensors, ("all tensors", "", "", "", peaks)])
        yield from _more(len(self.tensors) - most, "groups of tensors differ")

    def _operation_row(self, name: str) -> tuple[str, ...]:
        a, b = self.a.operation(name), self.b.operation(name)
        # Of the side that calls the operation more often, the lines with the most additional calls.
        more, less = (b, a) if b.calls >= a.calls else (a, b)
        places = sorted(more.places, key=lambda place: less.places.get(place, 0) - more.places[place])
        where = f"{places[0]} and {len(places) - 1} more" if len(places) > 1 else "".join(places)
        shares = [formatting.share(side.share(name)) for side in (self.a, self.b)]
        return (*self._cells(_short(name), a, b), " → ".join(shares), where)

    def _cells(self, name: str, a: Total, b: Total) -> tuple[str, ...]:
        flops = "unknown" if a.flops is None or b.flops is None else _change(a.flops, b.flops, formatting.count)
        return name, _both(a.calls, b.calls), flops, _change(a.bytes, b.bytes, formatting.size)

    def _tensor_row(self, group: Group) -> tuple[str, ...]:
        (number_a, bytes_a), (number_b, bytes_b) = self.a.tensor(group), self.b.tensor(group)
        size = _change(bytes_a, bytes_b, formatting.size)
        return _short(group[0]), *group[1:], _both(number_a, number_b), size

    def _share_table(self, brief: bool) -> Table:
        sides = (self.a, self.b)
        titles = ("first", "second") if self.a.name == self.b.name else (self.a.name, self.b.name)
        columns = {"share of the time, estimated": "", **dict.fromkeys(titles, "n")}
        names = self._by_share[: _FEW_SHARES if brief else None]
        rows = [(_short(name), *(formatting.share(side.share(name)) for side in sides)) for name in names]
        return Table(columns, rows)


def difference(title: str, a: TracedCall, b: TracedCall, files: tuple[str, str] = ("", "")) -> Explanation:
    """Compare two traced calls, B with A.

    Sort operations by the share of all calls, FLOPs and bytes that their difference makes up; views come last. If a
    side could not be observed, no operation counts as a difference.
    """
    if not (a.operations and b.operations):
        return Explanation(title, a, b, files=files)
    all_counts = [max(was, now) or 1 for was, now in zip(a.total.counts, b.total.counts, strict=True)]

    def importance(name: str) -> tuple[bool, float]:
        before, after = a.operation(name).counts, b.operation(name).counts
        # A view neither computes nor moves anything.
        is_view = not (any(before[1:]) or any(after[1:]))
        shares = (abs(now - was) / all_of_it for was, now, all_of_it in zip(before, after, all_counts, strict=True))
        return not is_view, sum(shares)

    names = [name for name in sorted({*a.operations, *b.operations}) if a.operation(name)[:3] != b.operation(name)[:3]]
    groups = [group for group in sorted({*a.tensors, *b.tensors}) if a.tensor(group) != b.tensor(group)]
    by_importance = sorted(names, key=importance, reverse=True)
    by_bytes = sorted(groups, key=lambda group: -abs(b.tensor(group)[1] - a.tensor(group)[1]))
    return Explanation(title, a, b, by_importance, by_bytes, files)


def trace_pair(title: str, sides: Sequence[tuple[str, str, Executor, Case]], directory: Path) -> Explanation:
    """Trace a call of each side in a process of its own, and write the Chrome traces to `directory`.

    A side has its name, the name in its file, its executor and its case.
    """
    calls, files = [], []
    for name, file, executor, case in sides:
        files.append(f"trace_{file}.json.gz")
        outcome = executor.ask("trace", case, {"chrome": str((directory / files[-1]).absolute())})
        if not outcome.ok:
            why = f"{name} could not be traced: {outcome.status}: {outcome.reason}."
            return Explanation(title, failure=why)
        calls.append(TracedCall.of(name, outcome.values))
    return difference(title, calls[0], calls[1], (files[0], files[1]))


def _more(number: int, what: str) -> Iterator[str]:
    if number > 0:
        yield f"{number} more {what}: the Markdown and JSON files list all."


def _largest_shares(side: TracedCall) -> str:
    largest = sorted(side.shares.items(), key=lambda named: -named[1])[:_FEW_SHARES]
    shares = ", ".join(f"{_short(name)} {formatting.share(of)}" for name, of in largest)
    return f"Most of the time of {side.name}: {shares}."


def _short(name: str) -> str:
    return name.removeprefix("aten::")


def _both(was: int, now: int) -> str:
    return f"{was:,} → {now:,}" if was != now else f"{was:,}"


def _change(was: int, now: int, text: formatting.NumberText) -> str:
    """`+12` or `−12`; `=` for no change."""
    return "=" if was == now else f"{'+' if now > was else '−'}{text(abs(now - was))}"
