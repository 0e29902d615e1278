"""Failed cases in a plot: a cross where each would have been, and one label for crosses close together."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from harness.report.failures import would_cost
from harness.report.looks import looks
from harness.report.panels import Panel
from harness.report.plots.cost import Cost, known

# Crosses nearer to each other than this share of the panel's height have one label.
_NEAR = 0.08
# Height of a cross without a cost, as a share of the panel's height from below.
_TOP = 0.94
# Approximate width and height of a panel, in characters of a label.
_WIDTH, _HEIGHT = 58, 15


@dataclass(frozen=True)
class Failed:
    """One case: its n, what it would have cost (None if unknown), its status and its layer's colour."""

    n: int
    cost: float | None
    status: str
    colour: str


@dataclass(frozen=True)
class Place:
    """A point in a panel, as shares of its width and height from its lower left corner."""

    x: float
    y: float


def mark_failures(axes: Axes, panel: Panel, cost: Cost, impls: Collection[str] | None = None) -> None:
    """Draw the failed cases of a panel, of all layers or of `impls`, on axes whose limits are final."""
    some = panel.impls() if impls is None else [impl for impl in panel.impls() if impl in impls]
    style = looks(some)
    failed = [
        Failed(line.seq_len, would_cost(line.seq_len, known(panel, impl, cost)), line.status, style[impl].colour)
        for impl in some
        for line in panel.of(impl)
        if line.status != "ok" and cost.value(line) is None
    ]
    mark(axes, failed, [known(panel, impl, cost) for impl in panel.impls()])


def failures_named(panels: Iterable[Panel]) -> list[Line2D]:
    """The legend's entry for failed cases; no entry if no case failed."""
    if all(line.status == "ok" for panel in panels for line in panel.lines):
        return []
    return [Line2D([], [], color="0.2", marker="x", ms=8, mew=2, ls="", label="failed, where\nit would have been")]


def mark(axes: Axes, failed: Sequence[Failed], curves: Iterable[Sequence[tuple[float, float]]]) -> None:
    """Draw failed cases on axes whose limits are final. `curves` are the (n, cost) that labels should avoid."""
    if not failed:
        return
    taken = [place for curve in curves for place in _along([_place(axes, n, cost) for n, cost in curve])]
    said: dict[int, set[str]] = {}
    for group in together(axes, failed):
        for one, place in group:
            # At its cost, if that is within the panel.
            height, transform = _TOP, axes.get_xaxis_transform()
            if one.cost is not None and place.y < _TOP:
                height, transform = one.cost, axes.transData
            axes.plot(
                [one.n], [height], marker="x", ms=8, mew=2, ls="", color=one.colour, transform=transform, zorder=4
            )
        n, text = group[0][0].n, ", ".join(dict.fromkeys(one.status for one, _ in group))
        # A label that the previous n already has is not repeated.
        before = max((size for size in said if size < n), default=None)
        if before is None or text not in said[before]:
            colours = {one.colour for one, _ in group}
            _write(axes, text, group[0][1], taken, colours.pop() if len(colours) == 1 else "0.2")
        said.setdefault(n, set()).add(text)


def together(axes: Axes, failed: Iterable[Failed]) -> list[list[tuple[Failed, Place]]]:
    """Group the cases of one n that are near each other, by n and from the lowest up."""
    placed = [(one, _place(axes, one.n, one.cost)) for one in failed]
    groups: list[list[tuple[Failed, Place]]] = []
    for one, place in sorted(placed, key=lambda pair: (pair[0].n, pair[1].y)):
        if groups and groups[-1][-1][0].n == one.n and place.y - groups[-1][-1][1].y < _NEAR:
            groups[-1].append((one, place))
        else:
            groups.append([(one, place)])
    return groups


def _place(axes: Axes, n: float, cost: float | None) -> Place:
    x = _share(n, axes.get_xlim())
    return Place(x, _TOP if cost is None else min(_TOP, _share(cost, axes.get_ylim())))


def _share(value: float, ends: tuple[float, float]) -> float:
    return math.log(value / ends[0]) / math.log(ends[1] / ends[0])


def _along(corners: Sequence[Place]) -> list[Place]:
    """Places on the line through the corners, so dense that the line cannot cross a label unnoticed."""
    steps = [i / 20 for i in range(20)]
    between = [
        Place(a.x + (b.x - a.x) * step, a.y + (b.y - a.y) * step) for a, b in pairwise(corners) for step in steps
    ]
    return [*between, *corners[-1:]]


def _write(axes: Axes, text: str, at: Place, taken: Sequence[Place], colour: str) -> None:
    """Write a label near the cross, inside the panel, where the fewest curves run."""
    wide, high = len(text) / _WIDTH, 1 / _HEIGHT
    left = min(max(at.x - wide / 2, 0.02), 0.98 - wide)
    beside = [(at.x - wide - 0.03, at.y - high / 2), (at.x + 0.03, at.y - high / 2)]
    around = [(left, at.y + step * high) for step in (-1.6, 0.6, -2.6, 1.6, -3.6, 2.6, -4.6, 3.6)]
    inside = [(x, y) for x, y in (*around, *beside) if x >= 0 and x + wide <= 1 and y >= 0.01 and y + high <= 0.99]
    x, y = min(inside or around[:1], key=lambda corner: _covered(corner, wide, high, taken))
    axes.text(
        *(x, y, text),
        transform=axes.transAxes,
        fontsize=8,
        va="bottom",
        color=colour,
        zorder=5,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
    )


def _covered(corner: tuple[float, float], wide: float, high: float, taken: Sequence[Place]) -> int:
    x, y = corner
    return sum(x <= place.x <= x + wide and y <= place.y <= y + high for place in taken)
