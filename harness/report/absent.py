"""Layers that a run could not measure at all: all of their cases are unsupported.

Causes: their package or device is missing, or they support no case of the run.
"""

from collections.abc import Iterable, Sequence

from harness.report.escaped import printable
from harness.summary import Line


def absent(lines: Iterable[Line]) -> set[str]:
    """Names of the layers whose cases are all unsupported."""
    lines = list(lines)
    return {line.impl for line in lines} - {line.impl for line in lines if line.status != "unsupported"}


def told_together(lines: Sequence[Line]) -> tuple[list[Line], str]:
    """Return the lines that still need remarks, and one sentence that names the absent layers.

    If all absent layers share one reason, all lines are returned and the sentence is empty. Those layers already share
    one remark, which gives the reason. The same holds if fewer than two layers are absent.
    """
    gone = absent(lines)
    if len({line.reason for line in lines if line.impl in gone}) < 2 or len(gone) < 2:
        return list(lines), ""
    names = ", ".join(map(printable, sorted(gone)))
    return [line for line in lines if line.impl not in gone], f"unsupported in every case: {names}: see report.md"
