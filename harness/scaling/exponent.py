"""The scaling exponent of a law at a size: d log cost / d log n, or by another axis.

One exponent cannot describe a whole curve. Attention with its projections costs 8nd² + 4n²d FLOPs. Its exponent rises
from 1 to 2 around n = 2d.
"""

import numpy as np

from harness.scaling.law import Hidden, Law, Range
from harness.scaling.terms import Sizes, design


def exponent(law: Law, axis: str, n: float, d: float, h: float = 1, b: float = 1) -> Range | None:
    """Return the scaling exponent along `axis` ('n', 'd', 'h' or 'b') at a size; None if the axis did not vary.

    The 95 % confidence interval covers every law that the points leave open. It contains the intervals of the law and
    of its rivals, and the law with each hidden term added. The trend that the points may still have widens it.
    """
    if axis not in law.varied or not law.coefficients:
        return None
    size = Sizes.of([(n, d, h, b)])
    each = [_of_one(one, axis, size) for one in (law, *law.rivals)]
    each += [_with_hidden(law, hidden, axis, size, each[0].value) for hidden in law.hidden]
    down, up = law.trends.get(axis, (0.0, 0.0))
    return Range(each[0].value, min(one.lo for one in each) + down, max(one.hi for one in each) + up)


def _of_one(law: Law, axis: str, size: Sizes) -> Range:
    """The exponent of one law, its interval by propagation of the covariance.

    d exponent / d c_j = (term_j / cost) · (exponent_j − exponent).
    """
    values = design(law.terms, size)[0]
    powers = np.array([float(term.exponent(axis, size)[0]) for term in law.terms])
    cost = float(values @ law.values)
    mean = float((values * law.values) @ powers) / cost
    if law.exact:
        return Range(mean, mean, mean)
    reach = law.error(values / cost * (powers - mean))
    if len(law.terms) > 1:  # a sum grows no slower than its slowest term and no faster than its fastest
        return Range(mean, max(mean - reach, float(powers.min())), min(mean + reach, float(powers.max())))
    return Range(mean, mean, mean)


def _with_hidden(law: Law, hidden: Hidden, axis: str, size: Sizes, without: float) -> Range:
    """The range from the law's own exponent to the exponent with the largest possible hidden term."""
    cost, added = float(law(size)[0]), hidden.most * float(hidden.term(size)[0])
    share = added / (cost + added)
    value = (1 - share) * without + share * float(hidden.term.exponent(axis, size)[0])
    return Range(without, min(without, value), max(without, value))
