"""From columns of numbers, NaN where there is none, to cells of a line, None where there is none."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def cells(column: Floats) -> list[float | None]:
    """The column's (N,) numbers as Python has them."""
    return [None if value != value else value for value in column.tolist()]


def ratio(part: Floats, whole: Floats) -> Floats:
    """`part / whole`; NaN where either is not known, or there is nothing to be a part of."""
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=(whole != 0) & ~np.isnan(whole))


def medians(values: Floats) -> Floats:
    """The median of the numbers that are known of each (cases, N); NaN where none is."""
    ordered = np.sort(values, axis=1)  # what is not known comes last
    number = np.maximum((~np.isnan(values)).sum(axis=1), 1)
    every = np.arange(len(values))
    return (ordered[every, (number - 1) // 2] + ordered[every, number // 2]) / 2
