"""How far back the last output depends on its input: ‖∂h_n/∂x_t‖ over n − t, on a logarithmic axis.

Exponential decay is a falling straight line on this axis.
"""

from collections.abc import Mapping

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray

from harness.report.looks import MARKERS, PALETTE
from harness.report.plots.style import THEME, title

Norms = NDArray[np.float64]

# How far the axis reaches below its top. Still smaller values would squeeze everything comparable to the top.
_DEEPEST = 1e-24
_QUARTERS = (0.25, 0.5, 0.75)


def gradient_reach(norms: Mapping[str, Norms], said: Mapping[str, str], heading: str) -> Figure:
    """Draw each layer's `norms` (seeds, n) by distance. `said` holds each layer's text in the legend."""
    with sns.axes_style("whitegrid", rc=THEME), sns.plotting_context(rc=THEME):
        figure = Figure(figsize=(8.8, 5.0), layout="constrained")
        axes = figure.subplots()
        axes.set_yscale("log")
        for i, (impl, of_seeds) in enumerate(norms.items()):
            # By place in this figure, not in the registry: the few layers here, of dozens, must look different.
            colour, marker = PALETTE[i % len(PALETTE)], MARKERS[(i + i // len(PALETTE)) % len(MARKERS)]
            # The first line is the widest, so that it shows beside a line exactly on top of it.
            _line(axes, of_seeds, colour, marker, max(1.4, 2.8 - 0.35 * i), said[impl])
        _ends(axes, norms)
        axes.set(xlabel="distance n − t, in tokens", ylabel="‖∂h_n/∂x_t‖")
        title(figure, heading)
        figure.legend(loc="outside right center", frameon=False)
    return figure


def _line(axes: Axes, norms: Norms, colour: str, marker: str, width: float, says: str) -> None:
    """Draw the median and the middle half of the seeds. Distances where a seed has 0 are gaps on this axis."""
    positive = np.where(norms > 0, norms, np.nan)
    known = ~np.isnan(positive).any(axis=0)
    distance = np.arange(norms.shape[1])
    lo, median, hi = (np.where(known, np.quantile(norms, q, axis=0), np.nan) for q in _QUARTERS)
    axes.fill_between(distance, lo, hi, color=colour, alpha=0.2, lw=0)
    step = max(1, norms.shape[1] // 8)
    looks_so = {"color": colour, "marker": marker, "markevery": step, "ms": 4 + width, "mec": "white", "mew": 0.6}
    axes.plot(distance, median, lw=width, label=says, **looks_so)


def _ends(axes: Axes, norms: Mapping[str, Norms]) -> None:
    values = np.concatenate([of_seeds[of_seeds > 0] for of_seeds in norms.values()])
    if len(values):
        top = float(values.max())
        axes.set_ylim(max(float(values.min()), top * _DEEPEST) / 3, top * 3)
    axes.yaxis.set_major_locator(LogLocator(numticks=9))
    axes.yaxis.set_minor_locator(NullLocator())
