"""All findings of a run, computed once and shown in many places."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, TypeVar

from harness.analysis.claims_table import ClaimVerdict, verdicts
from harness.analysis.crossovers import Crossover, crossovers
from harness.analysis.fitted_laws import FittedLaw, fit_laws
from harness.analysis.predict import HeldOut, hold_out
from harness.analysis.published_claims import FigureComparison, JudgedClaim, figures_beside, judge_claims
from harness.analysis.published_papers import Paper, paper_of
from harness.analysis.roofline import Roof, RoofPoint, roof_points, roofs
from harness.analysis.table1 import BeyondRow, Table1Row, rows_beyond_table1, table1
from harness.machine import Machine
from harness.results.columns import CaseResult

_Row = TypeVar("_Row", Table1Row, BeyondRow)


@dataclass(frozen=True)
class PublishedFindings:
    """A paper, its published figures beside the measured ones, and the verdicts on its claims."""

    paper: Paper
    figures: list[FigureComparison]
    claims: list[JudgedClaim]


@dataclass(frozen=True)
class Analysis:
    """The findings of a run. Any list may be empty if the run is too small.

    `published` is None if the run does not use a paper's setting.
    """

    laws: list[FittedLaw] = field(default_factory=list)
    verdicts: list[ClaimVerdict] = field(default_factory=list)
    table1: list[Table1Row] = field(default_factory=list)
    beyond_table1: list[BeyondRow] = field(default_factory=list)
    crossovers: list[Crossover] = field(default_factory=list)
    held_out: list[HeldOut] = field(default_factory=list)
    roofs: list[Roof] = field(default_factory=list)
    roof_points: list[RoofPoint] = field(default_factory=list)
    published: PublishedFindings | None = None


def analyse(
    lines: Sequence[CaseResult], machine: Machine | None = None, config: Mapping[str, Any] | None = None
) -> Analysis:
    """Return all findings of a run's lines.

    The run's machine.json is `machine`; its calibration is needed for the roofline. The run's config.yaml is `config`;
    it may hold what a paper has published for the setting. Raises UsageError if the published part cannot be read.
    """
    held_out = hold_out(lines)
    laws = [replace(fitted, holdout_error=_error(fitted, held_out)) for fitted in fit_laws(lines)]
    known = roofs(machine or {})
    found = verdicts(lines, laws)
    paper = paper_of(config or {})
    published = PublishedFindings(paper, figures_beside(paper, lines), judge_claims(paper, lines)) if paper else None
    return Analysis(
        laws=laws,
        verdicts=found,
        table1=_compared_kinds(table1(lines, laws, found)),
        beyond_table1=_compared_kinds(rows_beyond_table1(lines, laws, found)),
        crossovers=crossovers(lines),
        held_out=held_out,
        roofs=known,
        roof_points=roof_points(lines, known),
        published=published,
    )


def _compared_kinds(rows: list[_Row]) -> list[_Row]:
    """The rows, without those of kinds that were not measured if all layers are of one kind."""
    measured = [row for row in rows if row.impl]
    return rows if len({row.kind for row in measured}) > 1 else measured


def _error(fitted: FittedLaw, held_out: Sequence[HeldOut]) -> float | None:
    """The median absolute error of the predictions of this series; None if none of its cases was held out."""
    own = fitted.series
    errors = [
        abs(one.error) for one in held_out if (one.impl, one.setting, one.metric) == (own.impl, own.setting, own.metric)
    ]
    return median(errors) if errors else None
