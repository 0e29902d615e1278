"""The y axis of a plot: time with its interval, or peak memory."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from matplotlib.axes import Axes

from harness.report.panels import Panel
from harness.report.plots.style import axis_of_bytes, axis_of_seconds
from harness.summary import Line


@dataclass(frozen=True)
class Cost:
    """The quantity on the y axis: `value` of a line and `band`, its interval, each None if it is missing."""

    label: str
    value: Callable[[Line], float | None]
    band: Callable[[Line], tuple[float, float] | None]
    axis: Callable[[Axes], None]


def _interval(line: Line) -> tuple[float, float] | None:
    if line.time_lo_s is None or line.time_hi_s is None:
        return None
    return line.time_lo_s, line.time_hi_s


TIME = Cost("time of one call", lambda line: line.time_s, _interval, axis_of_seconds)
MEMORY = Cost("peak memory of one call", lambda line: line.peak_bytes or None, lambda _: None, axis_of_bytes)


def known(panel: Panel, impl: str, cost: Cost) -> list[tuple[int, float]]:
    """`(n, cost)` of a layer in a panel, in ascending n, for the cases that have a cost."""
    return [(line.seq_len, value) for line in panel.of(impl) if (value := cost.value(line)) is not None]


def frame(axes: Axes, panels: Iterable[Panel], cost: Cost) -> None:
    """Fit the y axis to the values, not to the intervals: a very wide interval must not squeeze the values."""
    values = [value for panel in panels for line in panel.lines if (value := cost.value(line)) is not None]
    if values:
        axes.set_ylim(min(values) / 3, max(values) * 3)
