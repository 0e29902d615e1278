"""The local exponent of a law: d log cost / d log n, or d, at a size.

One number for a whole curve is not the whole story: with its projections in, attention costs 8nd² + 4n²d and bends
from slope 1 to slope 2 around n = 2d.
"""

import numpy as np

from harness.scaling.law import Hidden, Law, Range
from harness.scaling.terms import Sizes, design


def exponent(law: Law, axis: str, n: float, d: float, h: float = 1, b: float = 1) -> Range | None:
    """The exponent along `axis` ('n', 'd', 'h' or 'b') at a size; None along an axis that did not vary.

    Its interval holds that of every rival, of the law with each term that may be hidden, and what slope the points may
    still have over it: it is as wide as the points leave open which law is the true one.
    """
    if axis not in law.varied or not law.coefficients:
        return None
    size = Sizes.of([(n, d, h, b)])
    each = [_of_one(one, axis, size) for one in (law, *law.rivals)]
    each += [_with_hidden(law, hidden, axis, size, each[0].value) for hidden in law.hidden]
    down, up = law.trends.get(axis, (0.0, 0.0))
    return Range(each[0].value, min(one.lo for one in each) + down, max(one.hi for one in each) + up)


def _of_one(law: Law, axis: str, size: Sizes) -> Range:
    """By propagation of the covariance: d exponent / d c_j = (term_j / cost) · (exponent_j − exponent)."""
    values = design(law.terms, size)[0]
    powers = np.array([float(term.exponent(axis, size)[0]) for term in law.terms])
    cost = float(values @ law.values)
    mean = float((values * law.values) @ powers) / cost
    if law.exact:
        return Range(mean, mean, mean)
    reach = law.error(values / cost * (powers - mean))
    if len(law.terms) > 1:  # no mixture of terms grows slower than the slowest of them or faster than the fastest
        return Range(mean, max(mean - reach, float(powers.min())), min(mean + reach, float(powers.max())))
    return Range(mean, mean, mean)


def _with_hidden(law: Law, hidden: Hidden, axis: str, size: Sizes, without: float) -> Range:
    """Between the law's own exponent and that with as much of the term as there may be."""
    cost, added = float(law(size)[0]), hidden.most * float(hidden.term(size)[0])
    share = added / (cost + added)
    value = (1 - share) * without + share * float(hidden.term.exponent(axis, size)[0])
    return Range(without, min(without, value), max(without, value))
