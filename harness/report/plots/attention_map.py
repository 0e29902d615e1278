"""Attention weights: one heat map for each head, with queries down the side and keys along the bottom."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from harness.report.plots.letters import fonts_for, label
from harness.report.plots.style import THEME, title

Weights = NDArray[np.float64]

_COLOURS = "Blues"  # light means a small weight
_HIDDEN = "0.88"
# Up to this many words, a cell has room for its weight as a number.
_MOST_NUMBERS = 8
_MOST_LETTERS = 16
# Inches of a panel's side: for each word, at least, and at most.
_PER_WORD, _LEAST, _MOST = 0.33, 1.8, 9.0


def attention_map(words: Sequence[str], weights: Weights, causal: bool, heading: str) -> Figure:
    """Draw the figure for `weights` (h, n, n), rows being queries and columns keys. Causally masked cells are grey."""
    heads, n = weights.shape[:2]
    labels = [label(word, _MOST_LETTERS) for word in words]
    columns = min(heads, 4 if n <= 16 else 2)
    rows = -(-heads // columns)
    side = _side(n)
    families, _ = fonts_for(labels)
    with sns.axes_style("white", rc=THEME), sns.plotting_context(rc=THEME):
        room = 0.07 * max(map(len, labels)) + 0.2  # for the words beside and below
        size = (max(5.0, columns * (side + 0.1) + room + 1.3), rows * (side + 0.3) + room + 0.7)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        # Under a causal mask the first word has a weight of 1. A linear scale would hide all other weights beside it.
        scale = PowerNorm(0.5, 0, float(weights.max()))
        for head in range(heads):
            axes = grid[head // columns][head % columns]
            image = _panel(axes, weights[head], causal, scale)
            axes.set_title(f"head {head + 1}" if heads > 1 else "")
            _name(axes, labels, families, side, left=head % columns == 0, below=head + columns >= heads)
        for empty in grid.flat[heads:]:
            empty.set_axis_off()
        figure.colorbar(image, ax=grid, label="attention weight", shrink=min(1.0, 3.5 / (rows * side)), aspect=18)
        title(figure, heading)
        names = (grid[0][0].set_xlabel, grid[0][0].set_ylabel) if heads == 1 else (figure.supxlabel, figure.supylabel)
        for name, says in zip(names, ("is looked at (key)", "looks (query)"), strict=True):
            name(says, fontsize=10)
    return figure


def _side(n: int) -> float:
    """Inches of a panel's side. Each word of a long sentence gets less, down to what can still be read."""
    return float(min(_MOST, max(_LEAST, min(_PER_WORD * n, 2.6 + 0.11 * n))))


def _panel(axes: Axes, weights: Weights, causal: bool, scale: Normalize) -> AxesImage:
    hidden = np.triu(np.ones_like(weights, dtype=bool), k=1) if causal else np.zeros_like(weights, dtype=bool)
    axes.set_facecolor(_HIDDEN)
    shown = np.ma.masked_array(weights, hidden)
    image = axes.imshow(shown, cmap=_COLOURS, norm=scale, interpolation="nearest", aspect="equal")
    if len(weights) <= _MOST_NUMBERS:
        for i, j in zip(*np.nonzero(~hidden), strict=True):
            colour = "white" if scale(weights[i, j]) > 0.6 else "0.15"
            axes.text(j, i, f"{weights[i, j]:.2f}", ha="center", va="center", fontsize=7, color=colour)
    return image


def _name(axes: Axes, labels: Sequence[str], families: Sequence[str], side: float, left: bool, below: bool) -> None:
    """Label the words on the outer sides of the grid; label every k-th word if there are too many."""
    n = len(labels)
    letters = min(9.0, 0.8 * 72 * side / n)
    step = max(1, round(5.5 / letters + 0.2))
    places = range(0, n, step)
    # `parse_math`: a dollar sign in a word does not start mathematics.
    style: dict[str, Any] = {"fontsize": max(letters, 5.5), "fontfamily": list(families), "parse_math": False}
    axes.set_xticks(places, [labels[i] for i in places] if below else [], rotation=90, **style)
    axes.set_yticks(places, [labels[i] for i in places] if left else [], **style)
    axes.tick_params(length=0)
