"""Measure the costs of sequence layers: time, memory, FLOPs and sequential depth over n, h and d.

From a notebook: `run = harness.load("results/latest")`; `run.table`, `run.laws`, `run.plot.overview()`.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"


def _added(name: str) -> Any:
    """Return what an extra adds to this package by its table PUBLIC. Raises AttributeError if none has the name."""
    from harness.core.model.extra_tables import (  # imported here: pytest loads this package in any test suite
        entries,
        referenced,
    )

    places = dict(entries("PUBLIC"))
    if name not in places:
        raise AttributeError(f"module 'harness' has no attribute '{name}', and no package in harness/extras adds one")
    return referenced(places[name])


def __dir__() -> list[str]:
    from harness.core.model.extra_tables import entries

    return [*globals(), *dict(entries("PUBLIC"))]


if TYPE_CHECKING:  # a checker would take any misspelt name for one that `__getattr__` returns
    load: Any
    laws_of: Any
    plots_of: Any
else:
    __getattr__ = _added
