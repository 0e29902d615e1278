"""The tables of the page as text, for the templates, and the bars that show the time intervals of their rows."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import formatting
from harness.analysis.claims_table import Verdict
from harness.analysis.fitted_laws import FittedLaw
from harness.analysis.predict import HeldOut
from harness.analysis.table1 import BeyondRow, Cell, Table1Row
from harness.report.html.charts import time_band
from harness.report.text import laws as law_text
from harness.report.text.costs import METRIC_NAMES, SettingLabel, between_text, cost_text
from harness.report.text.laws import signed_share
from harness.report.text.quality import Failure
from harness.results.table import CaseResult

# The most cases to name among those that failed alike.
_NAMED = 8


def claim_rows(verdicts: Sequence[Verdict]) -> list[tuple[tuple[str, str], list[Verdict]]]:
    """Group the verdicts by layer and setting."""
    where = SettingLabel.among(one.setting for one in verdicts)
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for one in verdicts:
        groups.setdefault((one.impl, where(one.setting)), []).append(one)
    return list(groups.items())


def omitted_claims(metrics: Iterable[str], most: int) -> int:
    """How many rows are left out of tables that show at most `most` rows of each metric."""
    return sum(max(0, number - most) for number in Counter(metrics).values())


def law_rows(laws: Sequence[FittedLaw], most: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """(metric, its first `most` rows) for each metric that has cost models."""
    where = SettingLabel.among(fitted.series.setting for fitted in laws)
    groups: dict[str, list[dict[str, Any]]] = {}
    for fitted in laws:
        rows = groups.setdefault(METRIC_NAMES[fitted.series.metric], [])
        if len(rows) < most:
            rows.append(_law(fitted, where))
    return list(groups.items())


def _law(fitted: FittedLaw, where: SettingLabel) -> dict[str, Any]:
    return {
        "impl": fitted.series.impl,
        "where": where(fitted.series.setting),
        "formula": law_text.law_formula(fitted),
        "exact": fitted.law.exact,
        "begins": law_text.break_text(fitted),
        "reason": "" if fitted.law.determined else fitted.law.reason,
        "terms": [] if fitted.law.exact else law_text.coefficient_text(fitted),
        "exponent_n": law_text.exponent_text(fitted.exponent_n),
        "exponent_d": law_text.exponent_text(fitted.exponent_d),
        "error": _error(fitted),
    }


def _error(fitted: FittedLaw) -> str:
    if fitted.law.exact or fitted.cv_error is None or not math.isfinite(fitted.cv_error):
        return ""
    return formatting.share(fitted.cv_error)


def held_out_rows(held_out: Sequence[HeldOut], most: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """(metric, rows) for each metric: the `most` predictions with the largest errors, in their original order."""
    where = SettingLabel.among(one.setting for one in held_out)
    groups: dict[str, list[HeldOut]] = {}
    for one in held_out:
        groups.setdefault(one.metric, []).append(one)
    found = []
    for metric, predictions in groups.items():
        worst = {id(one) for one in sorted(predictions, key=lambda one: -abs(one.error))[:most]}
        found.append((metric, [_held_out(one, where) for one in predictions if id(one) in worst]))
    return found


def _held_out(one: HeldOut, where: SettingLabel) -> dict[str, Any]:
    return {
        "impl": one.impl,
        "metric": METRIC_NAMES[one.metric],
        "where": ", ".join(filter(None, (f"n = {one.n}, d = {one.d}, h = {one.h}", where(one.setting)))),
        "fitted_to": one.fitted_to,
        "predicted": cost_text(one.metric, one.predicted),
        "between": between_text(one.lo, one.hi, lambda end: cost_text(one.metric, end))
        if one.lo < one.hi
        else "exactly",
        "measured": cost_text(one.metric, one.measured),
        "error": signed_share(one.error),
        "covered": one.covered,
    }


def failure_rows(failures: Iterable[Failure]) -> list[dict[str, Any]]:
    """A row for each kind of failure."""
    return [
        {
            "impl": one.impl,
            "status": one.status,
            "reason": one.reason,
            "number": len(one.lines),
            "which": _which_setting(one),
        }
        for one in failures
    ]


def _which_setting(failure: Failure) -> str:
    named = [f"n={line.seq_len} d={line.d_model} h={line.num_heads} {line.mode}" for line in failure.lines[:_NAMED]]
    more = len(failure.lines) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Measured:
    """The measured text and the verdict of one cell; `note` is the number of its reason, or None."""

    text: str
    verdict: str
    note: int | None


@dataclass
class Kind:
    """One kind of layer: the paper's orders and each measured layer. `none` says why no layer was measured."""

    name: str
    claimed: list[str]
    rows: list[tuple[str, list[Measured]]] = field(default_factory=list)
    none: str = ""


@dataclass
class OrderTable:
    """Table 1, or the table beyond it, as the page shows it: the kinds of layer, and the notes, numbered from 1.

    Each kind has the paper's orders, and the measured layers below. The notes below the table give the reasons.
    """

    kinds: list[Kind]
    notes: list[str]

    @property
    def measured(self) -> bool:
        """Whether any cell has a measured text."""
        return any(cell.text for kind in self.kinds for _, cells in kind.rows for cell in cells)


def order_table(rows: Sequence[Table1Row] | Sequence[BeyondRow]) -> OrderTable:
    """Group the rows by kind of layer, with one note for each reason."""
    kinds: dict[str, Kind] = {}
    notes: list[str] = []
    for row in rows:
        cells = _cells(row)
        kind = kinds.setdefault(row.kind, Kind(row.kind, [cell.claimed for cell in cells]))
        if row.impl is None:
            kind.none = cells[0].reason
        else:
            kind.rows.append((row.impl, [_measured(cell, notes) for cell in cells]))
    return OrderTable(list(kinds.values()), notes)


def _cells(row: Table1Row | BeyondRow) -> list[Cell]:
    if isinstance(row, Table1Row):
        return [row.complexity, row.sequential, row.path]
    return [row.training, row.per_token]


def _measured(cell: Cell, notes: list[str]) -> Measured:
    if cell.reason and cell.reason not in notes:
        notes.append(cell.reason)
    return Measured(cell.measured, cell.verdict, notes.index(cell.reason) + 1 if cell.reason else None)


_LEFT, _RIGHT = 6.0, 154.0


@dataclass(frozen=True)
class Bar:
    """Start, point and end of a bar, in the units of its picture. `lo` and `hi` are None without an interval."""

    lo: float | None
    at: float
    hi: float | None


def bar_widths(lines: Sequence[CaseResult]) -> list[Bar | None]:
    """The time intervals of the lines as bars on one logarithmic scale; None for a line without a time."""
    bands = [time_band(line) for line in lines]
    ends = [end for band in bands if band for end in band if end > 0]
    values = [line.time_s for line in lines if line.time_s is not None] + ends
    if not values:
        return [None for _ in lines]
    low, high = math.log(min(values)), math.log(max(values))

    def place(value: float) -> float:
        share = (math.log(value) - low) / (high - low) if high > low else 0.5
        return round(_LEFT + (_RIGHT - _LEFT) * share, 1)

    return [
        None
        if line.time_s is None
        else Bar(place(max(band[0], math.exp(low))), place(line.time_s), place(band[1]))
        if band
        else Bar(None, place(line.time_s), None)
        for line, band in zip(lines, bands, strict=True)
    ]
