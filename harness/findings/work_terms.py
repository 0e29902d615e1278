"""The terms that counted work is made of, as table 1 meets them: exact, and by power of n."""

from collections.abc import Iterable, Sequence
from math import comb
from typing import NamedTuple


class WorkTerm(NamedTuple):
    """A coefficient, powers of n, d, h and b, and of log n."""

    coefficient: float
    n: int
    d: int
    h: int = 0
    b: int = 0
    log: int = 0

    @property
    def most_d(self) -> int:
        """The power of d that it may come to: h is at most d, and at least 1. The table has no h and no b."""
        return self.d + max(self.h, 0)

    def __str__(self) -> str:
        powers = [("b", self.b), ("h", self.h), ("n", self.n), ("d", self.d)]
        above = "".join(_power(name, power) for name, power in powers if power > 0)
        logs = "·log n" if self.log else ""
        below = "".join(f"/{_power(name, -power)}" for name, power in powers if power < 0)
        number = f"{abs(self.coefficient):.15g}"
        return f"{'' if number == '1' and above else number}{above}{logs}{below}"


def _power(name: str, power: int) -> str:
    return name + {1: "", 2: "²", 3: "³", 4: "⁴"}[power]


def written(terms: Iterable[WorkTerm]) -> str:
    """`4n²d + 8nd²`: the highest power of n first."""
    return "".join(
        (" − " if term.coefficient < 0 else " + " if i else "") + str(term)
        for i, term in enumerate(sorted(terms, key=lambda term: (-term.n, -term.d, -term.h)))
    )


def of_one_token_more(terms: Sequence[WorkTerm]) -> list[WorkTerm]:
    """W(n) − W(n − 1) of the polynomial W in n, exactly; nothing where log n makes it none."""
    if any(term.log for term in terms):
        return []
    found: dict[WorkTerm, float] = {}
    for term in terms:
        for power in range(term.n):
            part = term._replace(coefficient=0, n=power)
            sign = (-1) ** (term.n - power + 1)
            found[part] = found.get(part, 0) + sign * comb(term.n, power) * term.coefficient
    return [part._replace(coefficient=value) for part, value in found.items() if value]
