"""Which findings belong to which panel."""

from collections.abc import Collection, Iterable
from typing import Any

from harness.findings.crossovers import Crossover
from harness.findings.roofline import Roof, RoofPoint
from harness.report.panels import SETTING_AXES, Panel, Setting

# A setting's values, a width, and a number of heads. A finding about layers without heads has None there and belongs to
# every panel of its width.
Place = tuple[tuple[Any, ...], int, int | None]


def places(setting: Setting, panel: Panel) -> list[Place]:
    """The places whose findings belong to a panel."""
    return [(setting.values, panel.d_model, heads) for heads in (panel.num_heads, None)]


def roof_of(roofs: Iterable[Roof], setting: Setting) -> Roof | None:
    """The roof of a setting, or None. A GPU's roof does not depend on how many CPU threads feed it."""
    at = dict(zip(SETTING_AXES, setting.values, strict=True))
    alike = (roof for roof in roofs if (roof.dtype, roof.device) == (at["dtype"], at["device"]))
    return next((roof for roof in alike if roof.device != "cpu" or roof.threads == at["threads"]), None)


def by_place(crossovers: Iterable[Crossover], without_heads: Collection[str]) -> dict[Place, list[Crossover]]:
    """Group the crossovers by place; `without_heads` is the result of `crossovers.headless`."""
    placed: dict[Place, list[Crossover]] = {}
    for c in crossovers:
        heads = None if {c.slower, c.faster} <= set(without_heads) else c.num_heads
        values = tuple(c.batch_size if axis == "batch_size" else getattr(c.setting, axis) for axis in SETTING_AXES)
        placed.setdefault((values, c.d_model, heads), []).append(c)
    return placed


def points_by_place(points: Iterable[RoofPoint], without_heads: Collection[str]) -> dict[Place, list[RoofPoint]]:
    """Group the points of a roofline by place; `without_heads` as for `by_place`."""
    placed: dict[Place, list[RoofPoint]] = {}
    for point in points:
        line = point.line
        heads = None if line.impl in without_heads else line.num_heads
        values = tuple(getattr(line, axis) for axis in SETTING_AXES)
        placed.setdefault((values, line.d_model, heads), []).append(point)
    return placed
