"""The largest size of each layer along an axis, and why larger ones fail."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.case import GROWING, Case
from harness.summary import Line

# Statuses that a large size can cause. Errors and incorrect results have other causes.
_OF_SIZE = ("oom", "timeout", "killed")
_LETTERS = dict(zip(GROWING, ("n", "d", "b"), strict=True))


@dataclass(frozen=True)
class Reach:
    """How far one layer could be measured along `axis`.

    Size `last` was measured. At `first`, the next size, each of `lines` ended with `status`.
    """

    impl: str
    axis: str
    last: int
    first: int
    status: str
    reason: str
    lines: tuple[Line, ...]

    def __str__(self) -> str:
        letter = _LETTERS[self.axis]
        sizes = f" ({len(self.lines)} cases)" if len(self.lines) > 1 else f" ({self._others()})"
        return (
            f"{self.impl} goes as far as {letter} = {self.last}{sizes}; "
            f"at {letter} = {self.first} {self.status}: {self.reason}"
        )

    def _others(self) -> str:
        line = self.lines[0]
        sizes = {"n": line.seq_len, "d": line.d_model, "h": line.num_heads, "b": line.batch_size}
        return " ".join(f"{name}={size}" for name, size in sizes.items() if name != _LETTERS[self.axis])


def reaches(lines: Sequence[Line]) -> list[Reach]:
    """Find where a layer that was measured at a smaller size fails because of its size.

    Cases that fail alike share an entry.
    """
    found: dict[tuple[str, str, int, int, str, str], list[Line]] = {}
    taken: set[Case] = set()
    for axis in GROWING:
        for of_line in _along(axis, lines):
            ok = [line for line in of_line if line.status == "ok"]
            beyond = [line for line in of_line if ok and _size(line, axis) > _size(ok[-1], axis)]
            if beyond and beyond[0].status in _OF_SIZE and not taken.intersection(line.case for line in beyond):
                taken.update(line.case for line in beyond)
                first = beyond[0]
                sizes = _size(ok[-1], axis), _size(first, axis)
                found.setdefault((first.impl, axis, *sizes, first.status, first.reason or ""), []).append(first)
    return [Reach(*what, tuple(cases)) for what, cases in found.items()]


def _along(axis: str, lines: Iterable[Line]) -> Iterable[list[Line]]:
    """Groups of lines that differ along the axis alone, each in ascending size."""
    groups: dict[Case, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.case.at(axis, 1), []).append(line)
    for group in groups.values():
        yield sorted(group, key=lambda line: _size(line, axis))


def _size(line: Line, axis: str) -> int:
    return int(getattr(line, axis))
