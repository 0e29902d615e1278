"""What all pictures share: one look, and one colour and marker for one impl everywhere."""

from collections.abc import Iterable

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from harness import catalog
from harness.report import units

MARKERS = "osD^vP*Xph"
GUIDE = "0.45"
THEME = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "figure.titlesize": 13,
    "svg.fonttype": "none",  # text stays text: small files, and searchable
}


def styles(impls: Iterable[str]) -> dict[str, tuple[tuple[float, float, float], str]]:
    """Colour and marker by impl: the registry's order first, so that ours look alike in every run."""
    ours = catalog.names()
    order = [*ours, *sorted(set(impls) - set(ours))]
    colours = sns.color_palette("colorblind", 10)
    return {
        impl: (colours[i % len(colours)], MARKERS[(i + i // len(colours)) % len(MARKERS)])
        for i, impl in enumerate(order)
    }


def axis_of_sizes(axes: Axes, sizes: Iterable[int]) -> None:
    """A logarithmic x axis that names the measured n and no others; every second one where they crowd."""
    ticks = sorted(set(sizes))
    axes.set_xscale("log", base=2)
    step = -(-len(ticks) // 8)
    axes.xaxis.set_major_locator(FixedLocator(ticks[::-1][::step][::-1]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())


def axis_of_seconds(axes: Axes) -> None:
    """A logarithmic y axis in seconds, with two ticks a decade."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _whole(units.seconds(value))))
    axes.yaxis.set_minor_locator(NullLocator())


def axis_of_bytes(axes: Axes) -> None:
    """A logarithmic y axis in bytes, ticks at powers of four."""
    axes.set_yscale("log", base=4)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _whole(units.size(value))))
    axes.yaxis.set_minor_locator(NullLocator())


def _whole(text: str) -> str:
    """`1.00 ms` -> `1 ms`: ticks are round."""
    number, _, unit = text.partition(" ")
    return f"{float(number):g} {unit}"
