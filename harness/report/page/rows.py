"""The rows of the page's tables as text, for the templates."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from harness.findings.holdout import HeldOut
from harness.findings.laws import FittedLaw
from harness.findings.verdicts import Verdict
from harness.report import units
from harness.report.failures import Failure
from harness.report.said import laws as law_text
from harness.report.said.held_out import signed
from harness.report.said.metrics import NAMES, between, cost
from harness.report.said.where import Where

# The most cases to name among those that failed alike.
_NAMED = 8


def claim_rows(verdicts: Sequence[Verdict]) -> list[tuple[tuple[str, str], list[Verdict]]]:
    """Group the verdicts by layer and setting."""
    where = Where.among(one.setting for one in verdicts)
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for one in verdicts:
        groups.setdefault((one.impl, where(one.setting)), []).append(one)
    return list(groups.items())


def left_out(metrics: Iterable[str], most: int) -> int:
    """How many rows are left out of tables that show at most `most` rows of each metric."""
    return sum(max(0, number - most) for number in Counter(metrics).values())


def law_rows(laws: Sequence[FittedLaw], most: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """(metric, its first `most` rows) for each metric that has cost models."""
    where = Where.among(fitted.series.setting for fitted in laws)
    groups: dict[str, list[dict[str, Any]]] = {}
    for fitted in laws:
        rows = groups.setdefault(NAMES[fitted.series.metric], [])
        if len(rows) < most:
            rows.append(_law(fitted, where))
    return list(groups.items())


def _law(fitted: FittedLaw, where: Where) -> dict[str, Any]:
    return {
        "impl": fitted.series.impl,
        "where": where(fitted.series.setting),
        "formula": law_text.formula(fitted),
        "exact": fitted.law.exact,
        "begins": law_text.begins(fitted),
        "reason": "" if fitted.law.determined else fitted.law.reason,
        "terms": [] if fitted.law.exact else law_text.coefficients(fitted),
        "exponent_n": law_text.exponent(fitted.exponent_n),
        "exponent_d": law_text.exponent(fitted.exponent_d),
        "error": _error(fitted),
    }


def _error(fitted: FittedLaw) -> str:
    if fitted.law.exact or fitted.cv_error is None or not math.isfinite(fitted.cv_error):
        return ""
    return units.share(fitted.cv_error)


def held_out_rows(held_out: Sequence[HeldOut], most: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """(metric, rows) for each metric: the `most` predictions with the largest errors, in their original order."""
    where = Where.among(one.setting for one in held_out)
    groups: dict[str, list[HeldOut]] = {}
    for one in held_out:
        groups.setdefault(one.metric, []).append(one)
    found = []
    for metric, predictions in groups.items():
        worst = {id(one) for one in sorted(predictions, key=lambda one: -abs(one.error))[:most]}
        found.append((metric, [_held_out(one, where) for one in predictions if id(one) in worst]))
    return found


def _held_out(one: HeldOut, where: Where) -> dict[str, Any]:
    return {
        "impl": one.impl,
        "metric": NAMES[one.metric],
        "where": ", ".join(filter(None, (f"n = {one.n}, d = {one.d}, h = {one.h}", where(one.setting)))),
        "fitted_to": one.fitted_to,
        "predicted": cost(one.metric, one.predicted),
        "between": between(one.lo, one.hi, lambda end: cost(one.metric, end)) if one.lo < one.hi else "exactly",
        "measured": cost(one.metric, one.measured),
        "error": signed(one.error),
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
            "which": _which(one),
        }
        for one in failures
    ]


def _which(failure: Failure) -> str:
    named = [f"n={line.seq_len} d={line.d_model} h={line.num_heads} {line.mode}" for line in failure.lines[:_NAMED]]
    more = len(failure.lines) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")
