"""How many layers a setting's plots show, and which cases they leave out if the layers are many."""

from collections.abc import Sequence
from dataclasses import replace

from harness.report.absent import absent
from harness.report.panels import Panel
from harness.report.plots.cost import Cost, known
from harness.report.plots.style import MANY


def told(panels: Sequence[Panel], cost: Cost) -> list[Panel]:
    """The panels without layers that are always unsupported; if they are crowded, without any unsupported case."""
    gone = absent(line for panel in panels for line in panel.lines)
    crowded = is_crowded(panels, cost)
    return [
        replace(
            panel,
            lines=tuple(
                line for line in panel.lines if line.impl not in gone and not (crowded and line.status == "unsupported")
            ),
        )
        for panel in panels
    ]


def is_crowded(panels: Sequence[Panel], cost: Cost) -> bool:
    """Whether there are more curves than one pair of axes has room for."""
    return len(drawn(panels, cost)) > MANY


def drawn(panels: Sequence[Panel], cost: Cost) -> list[str]:
    """The layers that have a curve in at least one panel."""
    return [impl for impl in impls_of(panels) if any(known(panel, impl, cost) for panel in panels)]


def impls_of(panels: Sequence[Panel]) -> list[str]:
    """The layers of all panels, in order of appearance."""
    return list(dict.fromkeys(impl for panel in panels for impl in panel.impls()))
