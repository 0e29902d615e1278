"""The division of a run's lines into figures and panels, and the look of each layer.

A figure shows one setting, and each of its panels one (d, h). The static plots and the page use the same panels and
looks.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from harness import registry
from harness.analysis.crossovers import Crossover, layers_without_heads
from harness.analysis.roofline import Roof, RoofPoint
from harness.case import SETTINGS
from harness.results.table import CaseResult

SETTING_AXES = ("batch_size", *SETTINGS)

# The most widths, and the most numbers of heads, that one plot has room for.
MOST_SHOWN = 4


@dataclass(frozen=True)
class Panel:
    """Lines to compare with each other: same setting, width and heads, different layer and n."""

    d_model: int
    num_heads: int
    lines: tuple[CaseResult, ...]

    def impls(self) -> list[str]:
        """The layers present, in order of appearance."""
        return list(dict.fromkeys(line.impl for line in self.lines))

    def of(self, impl: str) -> list[CaseResult]:
        """The lines of one layer, in ascending n."""
        return sorted((line for line in self.lines if line.impl == impl), key=lambda line: line.seq_len)


@dataclass(frozen=True)
class PanelSetting:
    """The axes that all cases of a figure share. `name` has only those in which the run's settings differ."""

    values: tuple
    name: str
    title: str
    panels: tuple[Panel, ...]


def panel_settings(lines: Iterable[CaseResult]) -> list[PanelSetting]:
    """Group the run's lines by setting and divide each setting into panels."""
    groups: dict[tuple, list[CaseResult]] = {}
    for line in lines:
        groups.setdefault(tuple(getattr(line, axis) for axis in SETTING_AXES), []).append(line)
    varying = [i for i in range(len(SETTING_AXES)) if len({values[i] for values in groups}) > 1]
    return [
        PanelSetting(values, _name(values, varying), _title(values), tuple(_panels(members)))
        for values, members in sorted(groups.items())
    ]


def readable_setting(setting: PanelSetting, most: int = MOST_SHOWN) -> PanelSetting:
    """Reduce a setting to what one plot can show: at most `most` widths and `most` numbers of heads.

    The first and the last of each stay. The title then gives the number of panels kept and of all panels. The page and
    the tables show every panel.
    """
    widths = sorted({panel.d_model for panel in setting.panels})
    heads = sorted({panel.num_heads for panel in setting.panels})
    some_widths, some_heads = _spread(widths, most), _spread(heads, most)
    if (some_widths, some_heads) == (widths, heads):
        return setting
    kept = tuple(p for p in setting.panels if p.d_model in some_widths and p.num_heads in some_heads)
    left_out = f" ({len(kept)} of {len(setting.panels)} panels)"
    return replace(setting, title=setting.title + left_out, panels=kept)


def _spread(values: Sequence[int], most: int) -> list[int]:
    """At most `most` of the ascending values, evenly spaced from the first to the last."""
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def _name(values: Sequence, varying: Sequence[int]) -> str:
    """`train_threads2`: safe in a file name; the name of its axis precedes a number."""
    return "_".join(f"{SETTING_AXES[i]}{v}" if isinstance(v := values[i], int | float) else str(v) for i in varying)


def _title(values: Sequence) -> str:
    batch_size, mode, dtype, device, threads, allocator, mask, padding_fraction, kv_len = values
    where = f"{device}, {threads} thread{'s' if threads > 1 else ''}" if device == "cpu" else device
    kept = "" if allocator == "default" else f", {allocator} allocator"
    masked = {"none": "", "causal": ", causal", "padding": f", {100 * padding_fraction:.0f} % padding"}[mask]
    source = f", source of {kv_len}" if kv_len else ""
    return f"{mode}{masked}{source}, {dtype}, batch {batch_size}, {where}{kept}"


def _panels(lines: Sequence[CaseResult]) -> list[Panel]:
    """A panel for each (d, h). A layer without heads is in every panel of its d, beside the layers with heads."""
    without = layers_without_heads(lines)
    with_heads = [line for line in lines if line.impl not in without] or list(lines)
    result = []
    for d in sorted({line.d_model for line in lines}):
        for h in sorted({line.num_heads for line in with_heads if line.d_model == d} or {1}):
            # `replace`: each panel shows the lines without heads as if measured at its h.
            own = [line for line in with_heads if (line.d_model, line.num_heads) == (d, h)]
            others = [replace(line, num_heads=h) for line in lines if line.impl in without and line.d_model == d]
            members = sorted({*own, *others}, key=lambda line: (line.impl, line.seq_len))
            result.append(Panel(d, h, tuple(members)))
    return result


# The place of a finding: a setting's values, a width, and a number of heads. A finding about layers without heads has
# None as its number of heads, and belongs to every panel of its width.
Facet = tuple[tuple[Any, ...], int, int | None]


def facets(setting: PanelSetting, panel: Panel) -> list[Facet]:
    """The facets whose findings belong to a panel."""
    return [(setting.values, panel.d_model, heads) for heads in (panel.num_heads, None)]


def roof_of_facet(roofs: Iterable[Roof], setting: PanelSetting) -> Roof | None:
    """The roof of a setting, or None. A GPU's roof does not depend on how many CPU threads feed it."""
    at = dict(zip(SETTING_AXES, setting.values, strict=True))
    alike = (roof for roof in roofs if (roof.dtype, roof.device) == (at["dtype"], at["device"]))
    return next((roof for roof in alike if roof.device != "cpu" or roof.threads == at["threads"]), None)


def lines_by_facet(crossovers: Iterable[Crossover], without_heads: Collection[str]) -> dict[Facet, list[Crossover]]:
    """Group the crossovers by facet. `without_heads` is the result of `layers_without_heads`."""
    placed: dict[Facet, list[Crossover]] = {}
    for c in crossovers:
        heads = None if {c.slower, c.faster} <= set(without_heads) else c.num_heads
        values = tuple(c.batch_size if axis == "batch_size" else getattr(c.setting, axis) for axis in SETTING_AXES)
        placed.setdefault((values, c.d_model, heads), []).append(c)
    return placed


def points_by_facet(points: Iterable[RoofPoint], without_heads: Collection[str]) -> dict[Facet, list[RoofPoint]]:
    """Group the points of a roofline by facet. `without_heads` is the result of `layers_without_heads`."""
    placed: dict[Facet, list[RoofPoint]] = {}
    for point in points:
        line = point.line
        heads = None if line.impl in without_heads else line.num_heads
        values = tuple(getattr(line, axis) for axis in SETTING_AXES)
        placed.setdefault((values, line.d_model, heads), []).append(point)
    return placed


# seaborn's "colorblind" palette: readers with any common kind of colour blindness can tell its colours apart. Given by
# value, so that the page needs no drawing library.
PALETTE = (
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"),
    *("#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9"),
)
MARKERS = "osD^vP*Xph"
# Lengths in points, on and off. A colour is used again only with another dash pattern.
DASHES = ((), (5, 1.5), (1.5, 1.5), (6, 1.5, 1.5, 1.5))
# The layers of the default sweep get the first colours, since there are fewer colours than layers.
FIRST = ("rnn.elman", "rnn.torch", "attention.naive", "attention.packed", "attention.fused")


class LineStyle(NamedTuple):
    """How a layer is drawn: colour, matplotlib marker, and the dashes of its line. A solid line has no dashes."""

    colour: str
    marker: str
    dash: tuple[float, ...]


def looks_of(impls: Iterable[str]) -> dict[str, LineStyle]:
    """Return the look of each layer by name, including all built-in layers.

    A built-in layer looks the same in every run, in every plot and on the page. The layers measured most often have
    colours of their own.
    """
    ours = [*FIRST, *(name for name in registry.names() if name not in FIRST)]
    order = [*ours, *sorted(set(impls) - set(ours))]
    return {
        impl: LineStyle(
            PALETTE[i % len(PALETTE)],
            MARKERS[(i + i // len(PALETTE)) % len(MARKERS)],
            DASHES[i // len(PALETTE) % len(DASHES)],
        )
        for i, impl in enumerate(order)
    }
