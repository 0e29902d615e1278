"""What a layer does with a sequence, shown: its attention weights, and how far back and how fast a gradient fades.

Each becomes a picture, a CSV file with every number, and a short table with sentences for the terminal.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import LogLocator, NullLocator

from harness.core.model import file_io, formatting
from harness.core.model.sweep_axes import Case
from harness.core.stats.interval import Floats
from harness.extras import mean_interval
from harness.study.report.chart import Look, nth_look
from harness.study.report.document import Table
from harness.study.report.plots.style import canvas, save

PLOTS = "plots"


@dataclass(frozen=True)
class Finding:
    """The picture, the rows of `NAME.csv` under their `header`, and what the terminal shows."""

    name: str
    figure: Figure
    header: Sequence[str]
    rows: Iterable[Sequence[Any]]
    parts: Sequence[Table | str]

    def write(self, directory: Path) -> list[Path]:
        """Write `plots/NAME.png`, `plots/NAME.svg` and `NAME.csv`, and return their paths.

        Invalid characters, which a broken argument can contain, are written as escapes.
        """
        (directory / PLOTS).mkdir(parents=True, exist_ok=True)
        table = directory / f"{self.name}.csv"
        written = [*save(self.figure, directory / PLOTS / self.name), table]
        rows = [list(map(_escaped, row)) for row in self.rows]
        table.write_text(file_io.to_csv(pd.DataFrame(rows, columns=list(self.header))), encoding="utf-8")
        return written


def _escaped(cell: Any) -> Any:
    return cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) else cell


def _whose(is_own: bool, seeds: str) -> str:
    """Whose weights the layer had, in words. Random weights do not show what a layer learns."""
    return "own weights" if is_own else f"untrained, {seeds}"


def gradient_finding(outcomes: Mapping[str, Sequence[Mapping[str, Any]]], n: int, d: int) -> Finding:
    """How far back gradients reach in each layer, from its outcomes: one for each seed."""
    norms = {
        impl: np.array([outcome["norms"] for outcome in of_seeds]) for impl, of_seeds in outcomes.items()
    }  # (seeds, n)
    with_own_weights = {impl for impl, of_seeds in outcomes.items() if of_seeds[0]["own_weights"]}
    decays = {impl: decay(of_seeds) for impl, of_seeds in norms.items()}
    last = max(map(len, outcomes.values())) - 1
    whose = _whose(with_own_weights == norms.keys(), f"seeds 0 to {last}" if last else "seed 0")
    legend = {
        impl: f"{formatting.shortened(impl)}: {f'keeps {fitted.rate.value:.3f} a step' if fitted.rate else 'no rate'}"
        + ", own weights" * (impl in with_own_weights)
        for impl, fitted in decays.items()
    }
    columns = {"impl": "", **dict.fromkeys(("a step", "with 95 %", "half after", "at 0", f"at {n - 1}"), "n")}
    rows = [
        (impl, *rate_cells(fitted), *(f"{end:.2g}" for end in np.median(norms[impl][:, [0, -1]], axis=0)))
        for impl, fitted in decays.items()
    ]
    sentences = (
        f"{impl}{' (own weights)' * (impl in with_own_weights)}: {gradient_reach_sentence(fitted)}"
        for impl, fitted in decays.items()
    )
    return Finding(
        "gradient_reach",
        gradient_reach(norms, legend, f"How far back the last output feels its input: n = {n}, d = {d}\n{whose}"),
        ("impl", "seed", "distance", "norm"),
        (
            (impl, seed, distance, f"{norm:.9g}")
            for impl, of_seeds in norms.items()
            for (seed, distance), norm in np.ndenumerate(of_seeds)
        ),
        [f"What each step back keeps ({whose}):", Table(columns, rows), *sentences],
    )


# How fast a gradient fades with distance: a straight line through its logarithm.
#
#     log y(k) = a + k · log r,   k = 1, 2, …
#
# Each step keeps the share `r`. One line is fitted for each seed, by least squares. The interval is computed over
# seeds, because their lines are independent and the points of one line are not. Distance 0 is left out: a position
# reaches itself by other paths.

# Smaller float64 values lose digits before they become 0, so they are no longer measurements.
FLOOR = 1e-290
# With fewer points, the fit cannot show whether they lie on a line.
_LEAST_POINTS = 4
# Two rates count as equal if their logarithms differ by less than this share of the larger one.
_ALIKE = 0.2


@dataclass(frozen=True)
class Rate:
    """The share that each step keeps, with its 95 % interval over seeds. With one seed the interval is unbounded."""

    value: float
    lo: float
    hi: float

    @property
    def half_distance(self) -> float:
        """The number of steps after which a half is left; infinite if nothing is lost."""
        return math.log(0.5) / math.log(self.value) if self.value < 1 else math.inf


@dataclass(frozen=True)
class Decay:
    """The `rate` over distances 1 to `fitted`; None if there are too few distances.

    The shares that each step keeps in the two `halves` of this range are None if one line describes both. The farthest
    distance with a value above 0 is `reach`; `ends` says whether farther distances exist. If `underflows`, values
    beyond `fitted` may exist but be too small for a float64.
    """

    rate: Rate | None
    halves: tuple[float, float] | None
    fitted: int
    reach: int
    ends: bool
    underflows: bool


def decay(norms: Floats) -> Decay:
    """Fit the decay of `norms`, shape (seeds, n), over distances 0 to n − 1. No norm may be negative."""
    farthest = norms.shape[1] - 1
    reach = int(max(np.flatnonzero((norms > 0).any(axis=0)), default=0))
    # From there on, the norms of some seed are 0 or too small to be exact.
    lost = int(min(np.flatnonzero((norms < FLOOR).any(axis=0)), default=farthest + 1))
    fitted = max(0, lost - 1)
    last = norms[:, fitted]
    underflows = fitted < farthest and bool(((last > 0) & (last < FLOOR / np.finfo(float).eps)).any())
    rate = halves = None
    if fitted >= _LEAST_POINTS:
        logs = np.log(norms[:, 1 : fitted + 1])
        rate = _rate(_slopes(logs))
        near, far = _slopes(logs[:, : fitted // 2]), _slopes(logs[:, fitted // 2 :])
        if not _steady(near, far, fitted):
            halves = _rate(near).value, _rate(far).value
    return Decay(rate, halves, fitted, reach, reach < farthest, underflows)


def _slopes(logs: Floats) -> Floats:
    """The slope of the least-squares line through each row, shape (seeds,); `logs` is (seeds, k)."""
    place = np.arange(logs.shape[1]) - (logs.shape[1] - 1) / 2
    return logs @ place / (place @ place)


def _rate(slopes: Floats) -> Rate:
    with np.errstate(over="ignore"):  # a value that overflows becomes infinite
        return Rate(*np.exp(mean_interval(slopes)).tolist())


def _steady(near: Floats, far: Floats, fitted: int) -> bool:
    """Whether one line describes both halves.

    It does if the slopes differ only by chance, by less than a factor of 2 over one half, or by a small share.
    """
    difference, lo, hi = mean_interval(far - near)
    small = abs(difference) * fitted / 2 < math.log(2)
    return lo <= 0 <= hi or small or abs(difference) < _ALIKE * max(abs(near.mean()), abs(far.mean()))


# How far the axis reaches below its top. Still smaller values would squeeze everything comparable to the top.
_DEEPEST = 1e-24
_QUARTERS = (0.25, 0.5, 0.75)


def gradient_reach(norms: Mapping[str, Floats], legends: Mapping[str, str], heading: str) -> Figure:
    """Draw how far back the last output depends on its input: ‖∂h_n/∂x_t‖ over n − t, on a logarithmic axis.

    Exponential decay is a falling straight line on this axis. Each layer's `norms` are (seeds, n), by distance, and
    `legends` holds its text in the legend.
    """
    with canvas(8.8, 4.6, heading) as figure:
        axes = figure.subplots()
        axes.set_yscale("log")
        for i, (impl, of_seeds) in enumerate(norms.items()):
            # By place in this figure, not in the registry: the few layers here, of dozens, must look different.
            _line(axes, of_seeds, nth_look(i), legends[impl])
        values = np.concatenate([of_seeds[of_seeds > 0] for of_seeds in norms.values()])
        if len(values):
            top = float(values.max())
            axes.set_ylim(max(float(values.min()), top * _DEEPEST) / 3, top * 3)
        axes.yaxis.set_major_locator(LogLocator(numticks=9))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set(xlabel="distance n − t, in tokens", ylabel="‖∂h_n/∂x_t‖")
        figure.legend(loc="outside right center", frameon=False)
    return figure


def _line(axes: Axes, norms: Floats, look: Look, says: str) -> None:
    """Draw the median and the middle half of the seeds. Distances where a seed has 0 are gaps on this axis."""
    is_positive = (norms > 0).all(axis=0)
    distance = np.arange(norms.shape[1])
    lo, median, hi = np.where(is_positive, np.quantile(norms, _QUARTERS, axis=0), np.nan)
    axes.fill_between(distance, lo, hi, color=look.colour, alpha=0.2, lw=0)
    marks = {"marker": look.marker, "markevery": max(1, norms.shape[1] // 8), "ms": 6}
    axes.plot(distance, median, lw=1.8, label=says, color=look.colour, mec="white", mew=0.6, **marks)


# A rate matters only if it changes the gradient by at least this factor over all distances.
_MATTERS = 2.0


def gradient_reach_sentence(fitted: Decay) -> str:
    """How far back a gradient reaches: what each step back keeps of it, and what to know about that rate."""
    if fitted.rate is None:
        return f"too few distances to tell a rate.{_beyond_text(fitted)}"
    halves = ""
    if fitted.halves:
        near, far = fitted.halves
        halves = f" Not at one rate: {near:.3f} a step up to {fitted.fitted // 2} tokens, {far:.3f} beyond."
    return f"{_trend(fitted, fitted.rate)}{halves}{_beyond_text(fitted)}"


def _trend(fitted: Decay, rate: Rate) -> str:
    value, interval, half = rate_cells(fitted)
    several_seeds = rate.hi < math.inf
    keeps = f"{value} ({interval})" if several_seeds else value
    if 1 / _MATTERS < rate.value**fitted.fitted < _MATTERS:
        return f"no fading over {fitted.fitted} tokens: each step back keeps {keeps} of it."
    if rate.lo <= 1 <= rate.hi and several_seeds:
        return f"each step back keeps {keeps} of it, by seeds too few or too unlike to tell whether it fades."
    if rate.value > 1:
        return f"it grows: each step back makes it {keeps} times as large."
    return f"each step back keeps {keeps} of it; half is gone after {half} tokens."


def _beyond_text(fitted: Decay) -> str:
    if fitted.underflows:
        return f" Beyond {fitted.fitted} tokens it is below {FLOOR:g}, too small for a float64."
    if fitted.reach > fitted.fitted:
        return f" It has gaps: from {fitted.fitted + 1} tokens back comes nothing, from {fitted.reach} something."
    tokens = f"{fitted.reach} token{'' if fitted.reach == 1 else 's'}"
    return f" Nothing from more than {tokens} back has any influence: exactly 0." if fitted.ends else ""


def rate_cells(fitted: Decay) -> tuple[str, str, str]:
    """The rate, its interval between seeds, and the tokens after which half is left; all empty without a rate.

    The interval is `one seed` if there is only one. The tokens are `∞` from 10 times the fitted distance on.
    """
    if fitted.rate is None:
        return "", "", ""
    value, lo, hi, half = fitted.rate.value, fitted.rate.lo, fitted.rate.hi, fitted.rate.half_distance
    interval = f"{lo:.3f} to {hi:.3f}" if hi < math.inf else "one seed"
    return f"{value:.3f}", interval, f"{half:.3g}" if half < 10 * fitted.fitted else "∞"


# Words in a plot come from outside and may have any letters: find the fonts that have them.
_FIRST = "DejaVu Sans"  # comes with matplotlib
_BOXES = "Last Resort"  # has a box for every character, and comes with matplotlib too


def label_text(word: str, most: int) -> str:
    """The word in at most `most` characters, with invisible ones written out."""
    shown = formatting.printable(word)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """Font families that together have the texts' letters, and the letters that no installed font has."""
    missing = set("".join(texts)) - _letters(font_manager.findfont(_FIRST))
    families = [_FIRST]
    for font in font_manager.fontManager.ttflist if missing else ():
        if font.style != "normal" or font.name in families or font.name.startswith(_BOXES):
            continue
        letters = missing & _letters(font.fname)
        if letters:
            families.append(font.name)
            missing -= letters
    return families, "".join(sorted(missing))


def _letters(path: Any) -> set[str]:
    try:
        return set(map(chr, font_manager.get_font(path).get_charmap()))
    except (OSError, RuntimeError):  # a bitmap font, as of colour emoji: matplotlib cannot draw with it
        return set()


# Up to these numbers of words and heads, the strongest weights are printed too.
_PRINTED_WORDS, _PRINTED_HEADS = 16, 6


def attention_finding(case: Case, words: Sequence[str], outcome: Mapping[str, Any], seed: int) -> Finding:
    """The attention weights of a layer for a sentence."""
    weights = np.array(outcome["weights"])  # (h, n, n)
    whose = _whose(outcome["own_weights"], f"seed {seed}")
    causal = case.mask == "causal"
    heading = f"{case.impl}: d = {case.d_model}, h = {len(weights)}{', causal' * causal}, {whose}"
    text = [f"Every row sums to 1, to within {outcome['row_error']:.1e}."]
    if fonts_for(words)[1]:
        text.append("No font here has all of its letters: they are boxes in the .png, and text in the .svg.")
    short = len(words) <= _PRINTED_WORDS and len(weights) <= _PRINTED_HEADS
    strongest = (f"Each word looks most at ({whose}):", _strongest(words, weights)) if short else ()
    return Finding(
        "attention_map",
        attention_map(words, weights, causal, heading),
        ("head", "query", "query_position", "key", "key_position", "weight"),  # positions count from 1
        (
            (head + 1, words[i], i + 1, words[j], j + 1, f"{weight:.9g}")
            for (head, i, j), weight in np.ndenumerate(weights)
        ),
        [*strongest, *text],
    )


def _strongest(words: Sequence[str], weights: Floats) -> Table:
    """The word that each word attends to most, by head."""
    rows = [
        (
            label_text(word, 24),
            *(f"{label_text(words[of_word.argmax()], 16)} {of_word.max():.2f}" for of_word in weights[:, i]),
        )
        for i, word in enumerate(words)
    ]
    return Table(dict.fromkeys(("word", *(f"head {head + 1}" for head in range(len(weights)))), ""), rows)


_COLOURS = "Blues"  # light means a small weight
_HIDDEN = "0.88"
# Up to this many words, a cell has room for its weight as a number.
_MOST_NUMBERS = 8
_MOST_LETTERS = 16
# Inches of a panel's side: for each word, at least, and at most.
_PER_WORD, _LEAST, _MOST = 0.33, 1.8, 9.0


def attention_map(words: Sequence[str], weights: Floats, causal: bool, heading: str) -> Figure:
    """Draw one heat map for each head, with queries down the side and keys along the bottom.

    `weights` is (h, n, n), rows being queries and columns keys. Causally masked cells are grey.
    """
    heads, n = weights.shape[:2]
    labels = [label_text(word, _MOST_LETTERS) for word in words]
    columns = min(heads, 4 if n <= 16 else 2)
    rows = -(-heads // columns)
    # Inches. Each word of a long sentence gets less, down to what can still be read.
    side = min(_MOST, max(_LEAST, min(_PER_WORD * n, 2.6 + 0.11 * n)))
    families, _ = fonts_for(labels)
    room = 0.07 * max(map(len, labels)) + 0.2  # for the words beside and below
    width, height = max(5.0, columns * (side + 0.1) + room + 1.3), rows * (side + 0.3) + room + 0.3
    with canvas(width, height, heading, style="white") as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        # Under a causal mask the first word has a weight of 1. A linear scale would hide all other weights beside it.
        scale = PowerNorm(0.5, 0, float(weights.max()))
        for head, axes in enumerate(grid.flat[:heads]):
            image = _panel(axes, weights[head], causal, scale)
            axes.set_title(f"head {head + 1}" if heads > 1 else "")
            _name(axes, labels, families, side, left=head % columns == 0, below=head + columns >= heads)
        for empty in grid.flat[heads:]:
            empty.set_axis_off()
        figure.colorbar(image, ax=grid, label="attention weight", shrink=min(1.0, 3.5 / (rows * side)), aspect=18)
        names = (axes.set_xlabel, axes.set_ylabel) if heads == 1 else (figure.supxlabel, figure.supylabel)
        for name, says in zip(names, ("is looked at (key)", "looks (query)"), strict=True):
            name(says, fontsize=10)
    return figure


def _panel(axes: Axes, weights: Floats, causal: bool, scale: Normalize) -> AxesImage:
    hidden = np.triu(np.full_like(weights, causal, dtype=bool), k=1)
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
    style: dict[str, Any] = {"fontsize": max(letters, 5.5), "fontfamily": families, "parse_math": False}
    axes.set_xticks(places, [labels[i] for i in places] if below else [], rotation=90, **style)
    axes.set_yticks(places, [labels[i] for i in places] if left else [], **style)
    axes.tick_params(length=0)
