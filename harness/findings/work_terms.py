"""The terms of counted FLOPs for table 1: exact, and sorted by power of n."""

from collections.abc import Iterable, Sequence
from math import comb
from typing import NamedTuple


class WorkTerm(NamedTuple):
    """A coefficient times powers of n, d, h, b and log n."""

    coefficient: float
    n: int
    d: int
    h: int = 0
    b: int = 0
    log: int = 0

    @property
    def most_d(self) -> int:
        """The highest power of d that the term can reach, since 1 ≤ h ≤ d. The table has no h and no b."""
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
    """Write the terms as a sum, the highest power of n first: `4n²d + 8nd²`."""
    return "".join(
        (" − " if term.coefficient < 0 else " + " if i else "") + str(term)
        for i, term in enumerate(sorted(terms, key=lambda term: (-term.n, -term.d, -term.h)))
    )


def of_one_token_more(terms: Sequence[WorkTerm]) -> list[WorkTerm]:
    """Return W(n) − W(n − 1) exactly, for the polynomial W in n. The list is empty if W contains log n."""
    if any(term.log for term in terms):
        return []
    found: dict[WorkTerm, float] = {}
    for term in terms:
        for power in range(term.n):
            part = term._replace(coefficient=0, n=power)
            sign = (-1) ** (term.n - power + 1)
            found[part] = found.get(part, 0) + sign * comb(term.n, power) * term.coefficient
    return [part._replace(coefficient=value) for part, value in found.items() if value]
