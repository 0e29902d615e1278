"""An exponent as a number that knows how well it is known, and measures once more before a comparison with it fails.

What a comparison says, `law.exponent <= 1.1` for instance:

- holds, where the exponent of a determined law does: a margin is the test's to leave;
- holds or fails, of whatever law, where the whole interval says so;
- is left open by the rest: what the measured value denies, and its interval does not, or what a law says that the
  points do not determine. Then as much is measured again, twice at most, and the question is put anew. If it stays
  open, the value decides where the law is determined; where it is not, the test is skipped, with the reason, and so
  neither passes nor fails by chance.

Of exact counts that no exact law gives, the sizes in between are looked at too, once; then the value decides: it is the
same in every run.
"""

import operator
from collections.abc import Callable
from typing import Any, Protocol

from harness.pytest_plugin.found import range_text
from harness.scaling.law import Range


class Quantity(Protocol):
    """Whose exponent it is: `harness.pytest_plugin.quantity`."""

    @property
    def exponent_range(self) -> Range: ...
    def decide(self, holds: Callable[[float], bool]) -> bool: ...


class Exponent(float):
    """d log cost / d log size at the largest sizes; `lo` and `hi`, between what it lies with 95 %."""

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
        """As it is known now: a comparison may have measured more."""
        return range_text(self._quantity.exponent_range)

    __str__ = __repr__

    def _decide(self, holds: Callable[[Any, Any], bool], other: Any) -> Any:
        __tracebackhide__ = True
        if not isinstance(other, int | float):
            return NotImplemented
        return self._quantity.decide(lambda exponent: holds(exponent, float(other)))
