"""Crossovers in the form that a chart needs: one row each, with n and its interval."""

from collections.abc import Iterable
from typing import Any

from harness.findings.crossovers import Crossover
from harness.report.page import frames
from harness.report.panels import Panel
from harness.report.said.crossovers import crossings, sentence


def crossovers(panel: Panel, found: Iterable[Crossover]) -> dict[str, Any] | None:
    """`{"x", "rows": [{slower, faster, metric, n, lo, hi, text, sentence}]}`; None if nothing crosses or may cross.

    The `n` of an undecided crossover is None, and so is an unknown end of its interval.
    """
    rows = [
        {
            "slower": c.slower,
            "faster": c.faster,
            "metric": c.metric,
            "n": c.seq_len,
            "lo": c.seq_len_lo or None,
            "hi": c.seq_len_hi,
            "text": str(c),
            "sentence": sentence(c),
        }
        for c in crossings(found)
    ]
    return {"x": frames.sizes([line.seq_len for line in panel.lines]), "rows": rows} if rows else None
