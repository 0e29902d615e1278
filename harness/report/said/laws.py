"""A fitted cost model as text: `37.1 ps·n²·d + 12.4 ps·n·d² + 21.0 µs` for time, `4n²·d + 8n·d²` for FLOPs."""

from harness.findings.laws import FittedLaw
from harness.report import units
from harness.report.said.metrics import between
from harness.scaling.law import Range


def formula(fitted: FittedLaw) -> str:
    """The cost model of a series, the fastest growing term first."""
    said = ""
    for c in reversed(fitted.law.coefficients):
        sign = "−" if c.value < 0 else "+"
        written = _written(_coefficient(fitted.series.metric, abs(c.value)), str(c.term))
        said += f" {sign} {written}" if said else written if c.value >= 0 else f"−{written}"
    return said or "0"


def coefficients(fitted: FittedLaw) -> list[tuple[str, str, str]]:
    """(term, coefficient, its interval) of each term, the fastest growing first."""
    metric = fitted.series.metric
    return [
        (str(c.term), _coefficient(metric, c.value), between(c.lo, c.hi, lambda end: _coefficient(metric, end)))
        for c in reversed(fitted.law.coefficients)
    ]


def exponent(found: Range | None) -> str:
    """A scaling exponent with its interval: `1.87 (1.75 to 1.98)`. An exact one is the value alone."""
    if found is None:
        return ""
    if found.hi - found.lo < 0.005:
        return _two(found.value)
    return f"{_two(found.value)} ({between(found.lo, found.hi, _two)})"


def _two(value: float) -> str:
    return f"{value + 0.0:.2f}".replace("-0.00", "0.00").replace("-", "−")


def begins(fitted: FittedLaw) -> str:
    """The n from which the law holds, in words; empty if no other law holds below."""
    return f"from n = {fitted.law.breaks[-1].n:.0f} on" if fitted.law.breaks else ""


def _coefficient(metric: str, value: float) -> str:
    if metric == "time":
        return units.seconds(value)
    if metric == "memory":
        return f"{value:.3g} B" if abs(value) < 1000 else units.size(value)
    return units.power_of_ten(value)


def _written(coefficient: str, term: str) -> str:
    if term == "1":
        return coefficient
    if coefficient == "1":
        return term
    return f"{coefficient}{term}" if coefficient.isdigit() else f"{coefficient}·{term}"
