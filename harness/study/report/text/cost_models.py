"""Cost models as text: their formulas, a table of them, and how well they predict."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter

from harness.core.model import formatting
from harness.core.model.polynomial import sum_text
from harness.study.laws.fitted_laws import FittedLaw
from harness.study.laws.laws import exponent_text
from harness.study.laws.predict import HeldOut, scores
from harness.study.report.document import Cell, Groups, Table

from .claims import numbered_notes
from .costs import COST_TEXTS, METRIC_NAMES, setting_label


def law_formula(fitted: FittedLaw) -> str:
    """The cost model of a series, the fastest growing term first.

    `37.1 ps·n²·d + 12.4 ps·n·d² + 21.0 µs` for time, `4n²·d + 8n·d²` for FLOPs. A known cost comes last.
    """
    if not fitted.law.coefficients:
        return str(fitted.law)
    text = partial(_coefficient, fitted.series.metric)
    terms = ((c.value, _written(text(abs(c.value)), str(c.term))) for c in reversed(fitted.law.coefficients))
    return sum_text(terms) + fitted.law.known_text


def break_text(fitted: FittedLaw) -> str:
    """The n or the blocks from which the law holds, in words; empty if no other law holds below."""
    if not fitted.law.breaks:
        return ""
    last = fitted.law.breaks[-1]
    return f"from n = {last.n:.0f} on" if last.bytes is None else f"from blocks of {formatting.size(last.bytes)} on"


def _coefficient(metric: str, value: float) -> str:
    if metric == "time":
        return formatting.seconds(value)
    if metric == "memory":
        return f"{value:.3g} B" if abs(value) < 1000 else formatting.size(value)
    return formatting.power_of_ten(value)


def _written(coefficient: str, term: str) -> str:
    if term == "1":
        return coefficient
    if coefficient == "1":
        return term
    return f"{coefficient}{term}" if coefficient.isdigit() else f"{coefficient}·{term}"


def laws_table(laws: Sequence[FittedLaw]) -> Table:
    """The cost models as a table with a group for each metric."""
    where = setting_label(fitted.series.shown_setting for fitted in laws)
    concerned = (
        (fitted.law.reason, METRIC_NAMES[fitted.series.metric], fitted.series.impl)
        for fitted in laws
        if fitted.law.reason
    )
    numbers, notes = numbered_notes(concerned)
    groups: Groups = {}
    for fitted in laws:
        law, error = fitted.law, fitted.law.cv_error
        exact = "exact at the measured sizes" if law.exact else ""
        kinds = exact, break_text(fitted), "" if law.determined else "undetermined"
        aside, text = " ".join(filter(None, kinds)), partial(_coefficient, fitted.series.metric)
        uncertain = () if law.exact else reversed(law.coefficients)
        details = [f"{c.term}: {text(c.value)} ({formatting.between(c.lo, c.hi, text)})" for c in uncertain]
        row = (
            Cell(fitted.series.impl, aside=where(fitted.series.shown_setting)),
            Cell(law_formula(fitted), aside=aside, note=numbers.get(law.reason), details=details),
            exponent_text(fitted.exponent_n, law.determined),
            exponent_text(fitted.exponent_d, law.determined),
            "" if law.exact or error is None or not math.isfinite(error) else formatting.share(error),
        )
        groups.setdefault((Cell(METRIC_NAMES[fitted.series.metric]),), []).append(row)
    exponents = {"exponent of n": "n", "exponent of d": "n", "cross-validation error": "n"}
    notes = [f"undetermined: {note}" for note in notes]
    return Table({"layer": "layer", "cost model": "formula", **exponents}, groups=groups, notes=notes)


def held_out_sentences(held_out: Sequence[HeldOut]) -> list[str]:
    """For each metric, how well cost models predicted cases that they were not fitted to.

    It gives the size of the errors, how many cases lie in the prediction interval, and how wide the intervals are.
    """
    text = []
    for score in scores(held_out):
        of_metric = [prediction for prediction in held_out if prediction.metric == score.metric]
        worst = worst_first(of_metric)[0]
        fitted, predicted = ({*map(attrgetter(size), of_metric)} for size in ("fitted_to", "n"))
        to = f"n ≤ {fitted.pop()}" if len(fitted) == 1 else "a quarter of the largest n and below"
        at = f"at n = {predicted.pop()}" if len(predicted) == 1 else "at the largest n"
        text.append(
            f"Prediction check: cost models fitted to {to} predict the {METRIC_NAMES[score.metric]} {at} with a median "
            f"error of {formatting.share(score.error)} (worst: {formatting.share(abs(worst.error))}, {worst.impl} "
            f"n={worst.n} d={worst.d} h={worst.h}). The 95 % prediction intervals contain {score.covered} of "
            f"{score.predictions} values; their median width is a factor of {score.width:.3g}."
        )
    return text


def worst_first(held_out: Iterable[HeldOut]) -> list[HeldOut]:
    """The predictions by the size of their errors, the largest first."""
    return sorted(held_out, key=lambda prediction: -abs(prediction.error))


def held_out_table(held_out: Sequence[HeldOut]) -> Table:
    """The predictions beside the measurements, with a group for each metric."""
    where = setting_label(prediction.setting for prediction in held_out)
    groups: Groups = {}
    for case in held_out:
        text = COST_TEXTS[case.metric]
        between = formatting.between(case.lo, case.hi, text) if case.lo < case.hi else "exactly"
        costs = text(case.measured), text(case.predicted), signed_share(case.error)
        source = [f"m = {value}" for letter, value in case.own if letter == "m"]
        at = ", ".join(filter(None, (f"n = {case.n}, d = {case.d}, h = {case.h}", *source, where(case.setting))))
        row = (case.impl, *costs, "yes" if case.covered else "no", between, at, str(case.fitted_to))
        groups.setdefault((Cell(METRIC_NAMES[case.metric]),), []).append(row)
    numbers = {"measured": "n", "predicted": "n", "error": "n", "within": "verdict", "between": "n soft"}
    return Table({"layer": "layer", **numbers, "at": "at", "fitted to n ≤": "n"}, groups=groups)


def signed_share(error: float) -> str:
    """A relative error with its sign: `+12 %`, `−3.1 %`."""
    return ("−" if error < 0 else "+") + formatting.share(abs(error))
