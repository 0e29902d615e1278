"""Convert columns of numbers, where NaN marks a missing value, to cells of a line, where None does."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def cells(column: Floats) -> list[float | None]:
    """The numbers (N,) of a column as Python floats, with None for NaN."""
    return [None if value != value else value for value in column.tolist()]


def ratio(part: Floats, whole: Floats) -> Floats:
    """Return `part / whole`; NaN if either is NaN or `whole` is 0."""
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=(whole != 0) & ~np.isnan(whole))


def medians(values: Floats) -> Floats:
    """The median of each row (cases, N), ignoring NaN; NaN for a row of NaN only."""
    ordered = np.sort(values, axis=1)  # NaN is sorted last
    number = np.maximum((~np.isnan(values)).sum(axis=1), 1)
    every = np.arange(len(values))
    return (ordered[every, (number - 1) // 2] + ordered[every, number // 2]) / 2
