"""Plots of what a layer does with a sequence: its attention weights, and how far back a gradient reaches."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray

from harness.formatting import printable
from harness.report.facets import MARKERS, PALETTE
from harness.report.plots.style import THEME, title

Norms = NDArray[np.float64]

# How far the axis reaches below its top. Still smaller values would squeeze everything comparable to the top.
_DEEPEST = 1e-24
_QUARTERS = (0.25, 0.5, 0.75)


def gradient_reach(norms: Mapping[str, Norms], said: Mapping[str, str], heading: str) -> Figure:
    """Draw how far back the last output depends on its input: ‖∂h_n/∂x_t‖ over n − t, on a logarithmic axis.

    Exponential decay is a falling straight line on this axis. Each layer's `norms` are (seeds, n), by distance, and
    `said` holds its text in the legend.
    """
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


# Words in a plot come from outside and may have any letters: find the fonts that have them.
_FIRST = "DejaVu Sans"  # comes with matplotlib
_BOXES = "Last Resort"  # has a box for every character, and comes with matplotlib too


def label_text(word: str, most: int) -> str:
    """The word in at most `most` characters, with invisible ones written out."""
    shown = printable(word)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """Font families that together have the texts' letters, and the letters that no installed font has."""
    missing = set("".join(texts)) - _letters(font_manager.findfont(_FIRST))
    families = [_FIRST]
    for font in font_manager.fontManager.ttflist if missing else ():
        if font.style != "normal" or font.name in families or font.name.startswith(_BOXES):
            continue
        found = missing & _letters(font.fname)
        if found:
            families.append(font.name)
            missing -= found
    return families, "".join(sorted(missing))


def _letters(path: Any) -> set[str]:
    try:
        return set(map(chr, font_manager.get_font(path).get_charmap()))
    except (OSError, RuntimeError):  # a bitmap font, as of colour emoji: matplotlib cannot draw with it
        return set()


Weights = NDArray[np.float64]

_COLOURS = "Blues"  # light means a small weight
_HIDDEN = "0.88"
# Up to this many words, a cell has room for its weight as a number.
_MOST_NUMBERS = 8
_MOST_LETTERS = 16
# Inches of a panel's side: for each word, at least, and at most.
_PER_WORD, _LEAST, _MOST = 0.33, 1.8, 9.0


def attention_map(words: Sequence[str], weights: Weights, causal: bool, heading: str) -> Figure:
    """Draw one heat map for each head, with queries down the side and keys along the bottom.

    `weights` is (h, n, n), rows being queries and columns keys. Causally masked cells are grey.
    """
    heads, n = weights.shape[:2]
    labels = [label_text(word, _MOST_LETTERS) for word in words]
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
