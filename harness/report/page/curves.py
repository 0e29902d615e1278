"""Time and memory against n in the form that a chart needs: numbers beside their text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report import units
from harness.report.absent import absent
from harness.report.failures import would_cost
from harness.report.page import frames
from harness.report.panels import Panel
from harness.summary import Line


@dataclass(frozen=True)
class Cost:
    """Functions for one cost: a line's value, its interval and its text (the first two may be None), and the axis."""

    value: Callable[[Line], float | None]
    band: Callable[[Line], tuple[float, float] | None]
    text: Callable[[Line], str]
    frame: Callable[[list[float]], dict[str, Any]]


def time_band(line: Line) -> tuple[float, float] | None:
    """The interval of a time; None if the time has none, as after a single trial."""
    if line.time_lo_s is None or line.time_hi_s is None:
        return None
    return line.time_lo_s, line.time_hi_s


def _time_text(line: Line) -> str:
    band = time_band(line)
    between = f" ({units.seconds(band[0])} to {units.seconds(band[1])})" if band else " (one trial)"
    return units.seconds(line.time_s or 0.0) + between


TIME = Cost(lambda line: line.time_s, time_band, _time_text, frames.seconds)
MEMORY = Cost(
    lambda line: line.peak_bytes or None, lambda _: None, lambda line: units.size(line.peak_bytes or 0), frames.octets
)


def frame(panels: Sequence[Panel], cost: Cost) -> dict[str, Any] | None:
    """The y axis shared by all panels, so that they can be compared; None if no panel has a value."""
    values = [value for panel in panels for line in panel.lines if (value := cost.value(line)) is not None]
    return cost.frame(values) if values else None


def curves(panel: Panel, cost: Cost) -> dict[str, Any]:
    """`{"curves": [{impl, n, value, lo, hi, text}], "failed": [{impl, n, value, status, text}]}`, by ascending n.

    `lo` and `hi` are None for a case without an interval. The `value` of a failed case is where it would have been, or
    None if nothing else of its layer was measured. The failed cases leave out layers whose cases are all unsupported:
    the chart would say nothing new about them.
    """
    found: dict[str, list[dict[str, Any]]] = {"curves": [], "failed": []}
    gone = absent(panel.lines)
    for impl in panel.impls():
        known = [(line, value) for line in panel.of(impl) if (value := cost.value(line)) is not None]
        if known:
            bands = [cost.band(line) or (None, None) for line, _ in known]
            found["curves"].append(
                {
                    "impl": impl,
                    "n": [line.seq_len for line, _ in known],
                    "value": [value for _, value in known],
                    "lo": [lo for lo, _ in bands],
                    "hi": [hi for _, hi in bands],
                    "text": [cost.text(line) for line, _ in known],
                }
            )
        places = [(line.seq_len, value) for line, value in known]
        found["failed"] += [
            {
                "impl": impl,
                "n": line.seq_len,
                "value": would_cost(line.seq_len, places),
                "status": line.status,
                "text": f"{line.status}: {line.reason}" if line.reason else line.status,
            }
            for line in panel.of(impl)
            if line.status != "ok" and cost.value(line) is None and impl not in gone
        ]
    return found
