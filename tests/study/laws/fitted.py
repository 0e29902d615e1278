"""Laws that the test chooses, as if they had been fitted."""

from collections.abc import Sequence

import numpy as np

from harness.core.model.polynomial import Term
from harness.core.results.columns import CaseResult
from harness.study.laws.fitted_laws import FittedLaw
from harness.study.laws.laws import Coefficient, Law, Range
from harness.study.laws.series import series_of


def law(parts: dict[Term, float], varied: tuple[str, ...] = ("n", "d"), doubt: str = "", exact: bool = False) -> Law:
    """The law with these coefficients, known to a hundredth."""
    number = len(parts)
    return Law(
        tuple(Coefficient(term, value, 0.99 * value, 1.01 * value) for term, value in parts.items()),
        varied,
        not doubt,
        doubt,
        exact=exact,
        covariance=np.diag([(0.005 * value) ** 2 for value in parts.values()]).reshape(number, number),
        quantile=2.0,
    )


def fitted(lines: Sequence[CaseResult], metric: str, of: Law) -> FittedLaw:
    """As the law of the series of that metric that the lines, of one impl in one setting, hold."""
    one = series_of(lines, metric)
    assert one is not None
    return FittedLaw(one, of, (), Range(1.0, 1.0, 1.0), None)
