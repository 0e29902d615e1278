"""How many times faster each layer is than naive attention, over (n, d): a heat map for each layer and h."""

import math

import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from harness.formatting import shortened
from harness.report.facets import Panel, PanelSetting
from harness.report.plots.style import THEME, title

BASELINE = "attention.naive"
# Beyond this factor the colour no longer changes; the number in the cell still gives the factor.
_FULL_COLOUR = 8.0


def speedup(setting: PanelSetting) -> Figure | None:
    """Draw the figure for one setting; None if the baseline, or everything else, was not measured."""
    impls = sorted({impl for panel in setting.panels for impl in panel.impls()} - {BASELINE})
    heads = sorted({panel.num_heads for panel in setting.panels})
    widths = sorted({panel.d_model for panel in setting.panels})
    sizes = sorted({line.seq_len for panel in setting.panels for line in panel.lines})
    grids = {
        (h, impl): np.array([[_ratio(setting, d, h, impl, n) for n in sizes] for d in widths])
        for h in heads
        for impl in impls
    }
    if not impls or all(np.isnan(grid).all() for grid in grids.values()):
        return None
    with sns.axes_style("white", rc=THEME), sns.plotting_context(rc=THEME):
        figure = Figure(
            figsize=(max(5.5, 0.62 * len(sizes) * len(heads) + 2.0), (0.42 * len(widths) + 0.45) * len(impls) + 1.4),
            layout="constrained",
        )
        cells = figure.subplots(len(impls), len(heads), squeeze=False)
        for row, impl in enumerate(impls):
            for column, h in enumerate(heads):
                axes = cells[row][column]
                grid = grids[h, impl]
                sns.heatmap(
                    np.log2(grid),
                    ax=axes,
                    annot=[[_cell(ratio) for ratio in line] for line in grid],
                    fmt="",
                    cmap="PuOr",
                    center=0,
                    vmin=-math.log2(_FULL_COLOUR),
                    vmax=math.log2(_FULL_COLOUR),
                    cbar=False,
                    linewidths=0.5,
                    annot_kws={"fontsize": 9},
                    xticklabels=sizes if row == len(impls) - 1 else False,
                    yticklabels=widths if column == 0 else False,
                )
                axes.set_facecolor("0.9")
                axes.set_title(f"{shortened(impl)}, h = {h}")
                axes.tick_params(axis="y", rotation=0)
                axes.tick_params(axis="x", rotation=45 if len(sizes) > 4 else 0)
        title(
            figure,
            f"Times faster than {BASELINE}: {setting.title}\n(purple: faster; orange: slower; grey: not measured)",
        )
        figure.supxlabel("sequence length n")
        figure.supylabel("width d")
    return figure


def _ratio(setting: PanelSetting, d: int, h: int, impl: str, n: int) -> float:
    for panel in setting.panels:
        if (panel.d_model, panel.num_heads) == (d, h):
            base, own = _time(panel, BASELINE, n), _time(panel, impl, n)
            return base / own if base and own else math.nan
    return math.nan


def _time(panel: Panel, impl: str, n: int) -> float | None:
    return next((line.time_s for line in panel.lines if line.impl == impl and line.seq_len == n), None)


def _cell(ratio: float) -> str:
    if math.isnan(ratio):
        return ""
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2f}"
