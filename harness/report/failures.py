"""Cases without a cost: how they are grouped, and where a plot places them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.summary import Line


@dataclass(frozen=True)
class Failure:
    """Cases of one layer that ended with the same status and reason."""

    impl: str
    status: str
    reason: str
    lines: tuple[Line, ...]


def failures(lines: Iterable[Line]) -> list[Failure]:
    """Group the cases that are not `ok` by layer, status and reason, in the order of the lines."""
    groups: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        if line.status != "ok":
            groups.setdefault((line.impl, line.status, line.reason or ""), []).append(line)
    return [Failure(*what, tuple(cases)) for what, cases in groups.items()]


def would_cost(n: int, known: Sequence[tuple[int, float]]) -> float | None:
    """Estimate what a failed case would have cost.

    The estimate lies on the log-log line through the two measured (n, cost) nearest to `n`. A single measured cost is
    returned unchanged. Returns None if nothing was measured.
    """
    if len(known) < 2:
        return known[0][1] if known else None
    (n0, y0), (n1, y1) = sorted(sorted(known, key=lambda point: abs(math.log(point[0] / n)))[:2])
    return y1 * (n / n1) ** (math.log(y1 / y0) / math.log(n1 / n0))
