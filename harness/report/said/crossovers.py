"""The n from which one layer costs more than another, in words."""

from collections.abc import Iterable
from typing import Any

from harness.findings.crossovers import Crossover
from harness.report.said.metrics import NAMES


def crossings(found: Iterable[Crossover]) -> list[Crossover]:
    """The pairs that cross within the measured range, or may cross: each pair once, time first, then by n.

    In every other pair one layer costs more at every n, and the table of costs shows which.
    """
    pairs: dict[tuple[Any, ...], Crossover] = {}
    for c in found:
        if _crosses(c) or not c.decided:
            names = frozenset((c.slower, c.faster))
            pair = (names, c.setting, c.metric, c.d_model, c.num_heads, c.batch_size)
            if pair not in pairs or _crosses(c):
                pairs[pair] = c
    return sorted(pairs.values(), key=lambda c: (c.metric != "time", not _crosses(c), c.seq_len or 0.0))


def surest(found: Iterable[Crossover]) -> list[Crossover]:
    """Sort: certain crossings by n, then pairs decided at every n, then undecided pairs. Ties keep their order."""
    return sorted(found, key=lambda c: (not _crosses(c), not c.decided, c.seq_len or 0.0))


def _crosses(c: Crossover) -> bool:
    return c.seq_len is not None and c.seq_len > 0


def sentence(c: Crossover) -> str:
    """`attention.naive costs more time than rnn.torch from n = 541 (498 to 600) on.`"""
    more = f"costs more {NAMES[c.metric]} than {c.faster}"
    at_all = f"n = {c.measured_from} to {c.measured_to}" if c.measured_to > c.measured_from else f"n = {c.measured_to}"
    if c.seq_len is not None:
        return f"{c.slower} {more} {c}."
    if c.decided:
        return f"{c.slower} costs no more {NAMES[c.metric]} than {c.faster} at {at_all}."
    if c.seq_len_hi is not None:
        return f"{c.slower} {more} from n = {c.seq_len_hi:.0f} on at the latest; below, the intervals overlap."
    if c.seq_len_lo:
        return f"Whether {c.slower} {more} above n = {c.seq_len_lo:.0f} is undecided: the intervals overlap."
    return f"Whether {c.slower} {more} is undecided: the intervals overlap at {at_all}."
