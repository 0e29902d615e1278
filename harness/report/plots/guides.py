"""Lines of slope 1 and 2, to compare with a cost's scaling exponent."""

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from harness.report.panels import Panel
from harness.report.plots.cost import Cost
from harness.report.plots.style import GUIDE

# Dashes by power. The legend names them, since a label beside a line seldom has free space.
_DASHES = {1: (0, (6, 3)), 2: (0, (1.5, 2))}


def draw(axes: Axes, panel: Panel, cost: Cost) -> None:
    """Draw grey lines of slope 1 and 2 from the panel's lower left. Only their slope has a meaning."""
    values = [value for line in panel.lines if (value := cost.value(line)) is not None]
    sizes = sorted({line.seq_len for line in panel.lines})
    if not values or len(sizes) < 2:
        return
    start = min(values) * 0.6
    for power, dashes in _DASHES.items():
        # A guide ends at the highest value: one that left the panel at its top would stretch the axis.
        end = min(sizes[-1], sizes[0] * (max(values) / start) ** (1 / power))
        axes.plot([sizes[0], end], [start, start * (end / sizes[0]) ** power], color=GUIDE, ls=dashes, lw=1, zorder=1)


def named() -> list[Line2D]:
    """The legend's entries for the guides."""
    return [
        Line2D([], [], color=GUIDE, ls=_DASHES[power], lw=1, label=label) for power, label in ((1, "∝ n"), (2, "∝ n²"))
    ]
