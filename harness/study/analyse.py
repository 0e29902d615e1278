"""All findings of a run, computed once and shown in many places."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from harness.core.config.machine import Machine
from harness.core.model.extra_tables import entries, referenced
from harness.core.results.columns import CaseResult

from .claims.claims_table import ClaimVerdict, verdicts
from .claims.table1 import BeyondRow, Table1Row, table1
from .laws.crossovers import Crossover, crossovers
from .laws.fitted_laws import FittedLaw, fit_laws
from .laws.predict import HeldOut, hold_out
from .laws.roofline import Roof, RoofPoint, roof_points, roofs

if TYPE_CHECKING:
    import pandas as pd

_Row = TypeVar("_Row", Table1Row, BeyondRow)


class MoreFindings(Protocol):
    """What an extra has found in a run.

    - `title`: a word for its section, such as `Published`.
    - `kind`: one of its `sentences` in words, such as `published claim`.
    - `sentences`: for the terminal, the most important first.
    - `tables`: the files to write beside the others.
    """

    title: str
    kind: str

    sentences: list[str]
    tables: "Mapping[str, pd.DataFrame]"

    def section(self, hardware: str) -> Any:
        """Return its section of the report. `hardware` is that of the run; it is empty if unknown."""


@dataclass(frozen=True)
class Analysis:
    """The findings of a run. Any list may be empty if the run is too small.

    `more` holds the findings of extras.
    """

    laws: Sequence[FittedLaw] = ()
    verdicts: Sequence[ClaimVerdict] = ()
    table1: Sequence[Table1Row] = ()
    beyond_table1: Sequence[BeyondRow] = ()
    crossovers: Sequence[Crossover] = ()
    held_out: Sequence[HeldOut] = ()
    roofs: Sequence[Roof] = ()
    roof_points: Sequence[RoofPoint] = ()
    more: Sequence[MoreFindings] = ()


def analyse(
    lines: Sequence[CaseResult],
    machine: Machine | None = None,
    config: Mapping[str, Any] | None = None,
    laws: Sequence[FittedLaw] = (),
) -> Analysis:
    """Return all findings of a run's lines. Their `laws` are fitted unless they are given.

    The run's machine.json is `machine`; its calibration is needed for the roofline. The run's config.yaml is `config`.
    Raises UsageError as `more_findings` does.
    """
    held_out = hold_out(lines)
    laws = [replace(fitted, holdout_error=_error(fitted, held_out)) for fitted in laws or fit_laws(lines)]
    known = roofs(machine or {})
    found = verdicts(lines, laws)
    rows, beyond = table1(lines, laws, found)
    return Analysis(
        laws=laws,
        verdicts=found,
        table1=_compared_kinds(rows),
        beyond_table1=_compared_kinds(beyond),
        crossovers=crossovers(lines, laws),
        held_out=held_out,
        roofs=known,
        roof_points=roof_points(lines, known),
        more=more_findings(config or {}, lines),
    )


def more_findings(config: Mapping[str, Any], lines: Sequence[CaseResult]) -> list[MoreFindings]:
    """Return what extras find in the lines of a run with this configuration.

    Raises UsageError if an extra cannot read its part of the configuration.
    """
    found = [referenced(place)(config, lines) for place in entries("FINDINGS")]
    return [one for one in found if one is not None]


def _compared_kinds(rows: list[_Row]) -> list[_Row]:
    """The rows, without those of kinds that were not measured if all layers are of one kind."""
    measured = [row for row in rows if row.impl]
    return rows if len({row.kind for row in measured}) > 1 else measured


def _error(fitted: FittedLaw, held_out: Sequence[HeldOut]) -> float | None:
    """The median absolute error of the predictions of this series; None if none of its cases was held out."""
    name = attrgetter("impl", "setting", "metric")
    errors = [abs(case.error) for case in held_out if name(case) == name(fitted.series)]
    return median(errors) if errors else None
