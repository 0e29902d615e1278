"""Layers of which nothing can be measured in a run: their package or device is not here, or no case suits them."""

from collections.abc import Iterable, Sequence

from harness.report.escaped import printable
from harness.summary import Line


def absent(lines: Iterable[Line]) -> set[str]:
    """The impls of which every case is unsupported."""
    lines = list(lines)
    return {line.impl for line in lines} - {line.impl for line in lines if line.status != "unsupported"}


def told_together(lines: Sequence[Line]) -> tuple[list[Line], str]:
    """The lines that remarks are still to be made of, and one sentence that names the absent impls.

    It is empty, and the lines are all, where one reason keeps them all away: that is one remark already, with a reason.
    """
    gone = absent(lines)
    if len({line.reason for line in lines if line.impl in gone}) < 2 or len(gone) < 2:
        return list(lines), ""
    names = ", ".join(map(printable, sorted(gone)))
    return [line for line in lines if line.impl not in gone], f"unsupported in every case: {names}: see report.md"
