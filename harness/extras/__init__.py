"""Extras: each folder adds itself to the tables of the harness (see `harness.core.model.extra_tables`)."""

from typing import Any


def mean_interval(values: Any) -> tuple[float, float, float]:
    """The mean of the values, and the ends of its 95 % t-interval, which are infinite for a single value."""

    from scipy.special import stdtrit

    mean, number = float(sum(values) / len(values)), len(values)
    if number < 2:
        return mean, float("-inf"), float("inf")
    half = float(
        stdtrit(number - 1, 0.975) * (sum((value - mean) ** 2 for value in values) / (number - 1) / number) ** 0.5
    )
    return mean, mean - half, mean + half
