"""A cost of any metric as text."""

import math
from collections.abc import Callable

from harness.report import units

NAMES = {"time": "time", "memory": "peak memory", "flops": "work", "depth": "sequential depth"}


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e6 else units.power_of_ten(value)


_TEXT: dict[str, Callable[[float], str]] = {
    "time": units.seconds,
    "memory": units.size,
    "flops": lambda value: f"{_count(value)} FLOPs",
    "depth": _count,
}


def cost(metric: str, value: float) -> str:
    """A cost with its unit: `2.13 ms`, `6.00 MiB`, `4.19·10⁸ FLOPs`, `770`. Raises KeyError for an unknown metric."""
    return _TEXT[metric](value)


def between(lo: float, hi: float, text: Callable[[float], str]) -> str:
    """An interval: `1.98 ms to 2.40 ms`; with an unknown end `at least 1.98 ms` or the like."""
    if math.isfinite(lo) and math.isfinite(hi):
        return f"{text(lo)} to {text(hi)}"
    return (
        f"at least {text(lo)}" if math.isfinite(lo) else f"at most {text(hi)}" if math.isfinite(hi) else "not bounded"
    )
