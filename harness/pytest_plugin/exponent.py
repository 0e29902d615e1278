"""An exponent that knows its uncertainty. Before a comparison with it fails, more is measured.

A comparison such as `law.exponent <= 1.1` ends in one of three ways:

- It is true if the cost model is determined and its exponent satisfies the comparison. The test chooses its own margin.
- It is true or false, for any cost model, if the whole interval agrees.
- Otherwise it is open. The measured value fails and part of its interval does not, or the points do not determine the
  cost model. Then as much is measured again, at most twice, and the comparison is repeated. If it stays open, the value
  decides for a determined cost model. For an undetermined one the test is skipped, with the reason. So the test neither
  passes nor fails by chance.

Exact counts without an exact cost model are also measured at the sizes in between, once. Then the value decides,
because it is the same in every run.
"""

import operator
from collections.abc import Callable
from typing import Any, Protocol

from harness.pytest_plugin.found import range_text
from harness.scaling.law import Range


class Quantity(Protocol):
    """The owner of an exponent: implemented in `harness.pytest_plugin.quantity`."""

    @property
    def exponent_range(self) -> Range: ...
    def decide(self, holds: Callable[[float], bool]) -> bool: ...


class Exponent(float):
    """d log cost / d log size at the largest sizes. `lo` and `hi` are the ends of its 95 % interval."""

    lo: float
    hi: float
    _quantity: Quantity

    def __new__(cls, quantity: Quantity, known: Range) -> "Exponent":
        made = super().__new__(cls, known.value)
        made.lo, made.hi, made._quantity = known.lo, known.hi, quantity
        return made

    def __le__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._decide(operator.le, other)

    def __lt__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._decide(operator.lt, other)

    def __ge__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._decide(operator.ge, other)

    def __gt__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._decide(operator.gt, other)

    def __repr__(self) -> str:
        """The exponent as known now: a comparison may have measured more."""
        return range_text(self._quantity.exponent_range)

    __str__ = __repr__

    def _decide(self, holds: Callable[[Any, Any], bool], other: Any) -> Any:
        __tracebackhide__ = True
        if not isinstance(other, int | float):
            return NotImplemented
        return self._quantity.decide(lambda exponent: holds(exponent, float(other)))
