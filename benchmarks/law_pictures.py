"""Draw the pictures of docs/explanation/laws.md from a run of the default sweep.

    .venv/bin/python benchmarks/law_pictures.py results/latest     writes docs/pictures/law_*.png

The run needs the columns `block_sizes` and `page_fault_s`.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes

from harness.core.results.columns import CaseResult
from harness.core.results.stored_run import read_run_directory
from harness.core.stats.interval import NORMAL
from harness.study.laws.fitted_laws import FittedLaw, laws_of_layer
from harness.study.laws.laws import Sizes
from harness.study.laws.series import Point
from harness.study.laws.smoothing import smooth_points

DIRECTORY = Path(__file__).resolve().parents[1] / "docs" / "pictures"
RAW, SMOOTHED, LAW = "#9aa5b1", "#1b6ca8", "#c1440e"


def _time_law(lines: Iterable[CaseResult]) -> FittedLaw:
    return next(law for law in laws_of_layer(list(lines)) if law.series.metric == "time")


def _without_faults(lines: Iterable[CaseResult]) -> list[CaseResult]:
    return [replace(line, block_sizes=None, page_fault_s=None) for line in lines]


def _beside_law(axes: Axes, fitted: FittedLaw, title: str) -> None:
    """Each case's time divided by the law's, with its own interval and with the one that borrows from the law."""
    points = fitted.series.points
    smoothed = smooth_points(fitted.law, points)
    assert smoothed is not None
    law = fitted.law(Sizes.of(point.size for point in points))
    places = _places(points)
    axes.axhline(1, color=LAW, linewidth=1.2, label="cost model")
    raw = np.array([(point.lo, point.value, point.hi) for point in points]).T / law
    axes.errorbar(
        places - 0.04, raw[1], [raw[1] - raw[0], raw[2] - raw[1]], fmt="o", color=RAW, markersize=3.5, label="alone"
    )
    middle, reach = np.exp(smoothed.means) / law, np.exp(NORMAL * smoothed.deviations)
    ends = [middle - middle / reach, middle * reach - middle]
    axes.errorbar(places + 0.04, middle, ends, fmt="o", color=SMOOTHED, markersize=3.5, label="with the cost model")
    axes.set_yscale("log")
    axes.set_yticks([0.5, 0.7, 1, 1.4, 2, 3], ["0.5", "0.7", "1", "1.4", "2", "3"])
    axes.minorticks_off()
    sizes = sorted({point.n for point in points})
    axes.set_xticks(np.log2(sizes), [str(n) for n in sizes])
    axes.set(xlabel="sequence length n", ylabel="time / cost model")
    axes.set_title(f"{title}\nmisfit {smoothed.misfit:.0%}, borrowed {np.median(smoothed.borrowed):.0%} (median)")


def _places(points: Sequence[Point]) -> np.ndarray:
    """log₂ n, with the cases of the same n side by side."""
    others = sorted({point.size[1:] for point in points})
    step = 0.7 / len(others)
    beside = [step * (others.index(point.size[1:]) - (len(others) - 1) / 2) for point in points]
    return np.log2([point.n for point in points]) + beside


def draw_smoothing(lines: Sequence[CaseResult]) -> None:
    """One series whose law holds."""
    _, axes = plt.subplots(figsize=(7, 3.8))
    _beside_law(axes, _time_law(line for line in lines if line.impl == "rnn.torch"), "rnn.torch")
    axes.legend(loc="upper right", ncols=3)
    axes.set_ylim(0.6, 1.9)
    _save("law_smoothing")


def draw_misfit(lines: Sequence[CaseResult]) -> None:
    """Packed attention, whose law holds with page faults and fails without them."""
    packed = [line for line in lines if line.impl == "attention.packed"]
    _, both = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    _beside_law(both[0], _time_law(packed), "attention.packed, with page faults")
    without = _time_law(_without_faults(packed))
    _beside_law(both[1], replace(without, series=replace(without.series, faults=None)), "… and without: the law fails")
    both[1].set_ylabel("")
    both[0].set_ylim(0.3, 4)
    both[0].legend(loc="upper left")
    _save("law_misfit")


def draw_page_faults(lines: Sequence[CaseResult]) -> None:
    """Packed attention at large n, predicted from small n with and without page faults."""
    packed = [line for line in lines if line.impl == "attention.packed"]
    _, both = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    for axes, (d, h) in zip(both, ((128, 2), (256, 8)), strict=True):
        own = [line for line in packed if (line.d_model, line.num_heads) == (d, h)]
        small = [line for line in packed if line.seq_len <= 512]
        grid = np.unique(np.geomspace(64, 2600, 160).round()).astype(int)
        for known, color, label in (
            (small, SMOOTHED, "with page faults"),
            (_without_faults(small), LAW, "without"),
        ):
            fitted = _time_law(known)
            found = [fitted.predict(int(n) + int(n in (64, 128, 256, 512)), d, h, 1) for n in grid]
            axes.plot(grid, [1e3 * one.value for one in found], color=color, label=f"model of n ≤ 512, {label}")
            axes.fill_between(
                grid, [1e3 * one.lo for one in found], [1e3 * one.hi for one in found], color=color, alpha=0.13, lw=0
            )
        times = np.array([(line.time_lo_s, line.time_s, line.time_hi_s) for line in own], dtype=float).T * 1e3
        ends = [times[1] - times[0], times[2] - times[1]]
        sizes = [line.seq_len for line in own]
        axes.errorbar(sizes, times[1], ends, fmt="o", color="black", markersize=4, label="measured")
        axes.axvline(512, color="0.8", linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks([64, 128, 256, 512, 1024, 2048], ["64", "128", "256", "512", "1024", "2048"])
        axes.set(xlabel="sequence length n", ylabel="time of one call, ms", title=f"attention.packed, d = {d}, h = {h}")
    both[1].set_ylabel("")
    both[0].legend(loc="upper left")
    _save("law_page_faults")


def _save(name: str) -> None:
    DIRECTORY.mkdir(exist_ok=True)
    plt.tight_layout()
    plt.savefig(DIRECTORY / f"{name}.png", dpi=110)
    plt.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: law_pictures.py RUN")
    measured = read_run_directory(Path(sys.argv[1])).lines
    plain = {"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
    sns.set_theme(style="ticks", context="notebook", font_scale=0.85, rc=plain)
    for draw in (draw_smoothing, draw_page_faults, draw_misfit):
        draw(measured)
