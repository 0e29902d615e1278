"""Theoretical claims about a layer: formulas in n, d and h, shown as written and evaluated exactly.

`work` counts the FLOPs of a forward pass over one sequence, `work_train` those of forward and backward. For one token,
with n in all, the claim is `work_decode`. A multiply-add is 2, and elementwise work is not counted.

The other claims are orders (see Vaswani et al. 2017, table 1). Words alive at the peak beyond weights and input are
`memory`. The sequential depth is `depth`. Operations on the longest path between two positions are `path`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any, NamedTuple

from harness.errors import UsageError, did_you_mean
from impls.registry import IMPLS

CLAIMS = ("work", "work_train", "work_decode", "memory", "depth", "path")

_POWERS = {"": 1, "²": 2, "³": 3, "⁴": 4, "1": 1, "2": 2, "3": 3, "4": 4}
_SUPERSCRIPT = {1: "", 2: "²", 3: "³", 4: "⁴"}
_POWER = r"(?:\s*(?:\^|\*\*)\s*([1-4])|([²³⁴]))?"
_SIGN = re.compile(r"\s*([+−-]?)\s*")
_TIMES = re.compile(r"\s*(\*(?!\*)|·)?\s*")
_FACTOR = re.compile(rf"(?P<number>[0-9]+)|(?P<log>log n)|(?P<name>[ndh]){_POWER}")
_OVER = re.compile(rf"\s*/\s*h{_POWER}")
_BIG_O = re.compile(r"\s*O\((.*)\)\s*")
# Claims of an order, so `O(…)` around the formula adds nothing.
_BY_ORDER = ("memory", "depth", "path")
_GRAMMAR = (
    "it takes whole numbers, n, d, h and log n, powers as d², d^2 or d**2, products as nd, n d, n*d or n·d, "
    "/h at a term's end, + and −"
)


@dataclass(frozen=True)
class Term:
    """`coefficient` times n, d and h to their powers, times log₂ n to the power `log`."""

    coefficient: int
    n: int = 0
    d: int = 0
    h: int = 0
    log: int = 0

    @property
    def factors(self) -> tuple[int, int, int, int]:
        """The powers of n, d, h and log n, without the coefficient."""
        return self.n, self.d, self.h, self.log


@dataclass(frozen=True)
class Polynomial:
    """A sum of terms, such as `8nd² + 4n²d` or `8nd² + 4nd²/h`."""

    text: str
    terms: tuple[Term, ...]

    def __call__(self, n: int, d: int, h: int = 1) -> int:
        """The value at n, d and h. Powers are exact; log₂ n is rounded up to a whole number.

        Raises ValueError if the value is not a whole number: d must be a multiple of h.
        """
        value = sum(
            (t.coefficient * n**t.n * d**t.d * Fraction(h) ** t.h * (n - 1).bit_length() ** t.log for t in self.terms),
            Fraction(0),
        )
        if value.denominator > 1:
            raise ValueError(f"{self.text} is no whole number at n = {n}, d = {d}, h = {h}")
        return int(value)

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        """The difference, term by term. FLOPs of a backward pass are those of training minus those of forward."""
        left = {term.factors: term.coefficient for term in self.terms}
        for term in other.terms:
            left[term.factors] = left.get(term.factors, 0) - term.coefficient
        terms = tuple(Term(value, n, d, h, log) for (n, d, h, log), value in left.items() if value)
        return Polynomial(_formula_text(terms), terms)

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Polynomial:
    """Parse a formula: a sum of products, joined by + and −.

    Factors are whole numbers, `log n`, and n, d and h to powers (`d²`, `d^2`, `d**2`). A product may end in `/h`. Its
    factors are adjacent, or separated by a space, `*` or `·`. Raises UsageError for an unparsable formula.
    """
    terms: list[Term] = []
    place = 0
    while place < len(text.rstrip()):
        sign = _SIGN.match(text, place)
        if not sign or (terms and not sign[1]):
            raise _malformed(text, place)
        term, place = _term(text, sign.end(), -1 if sign[1] in ("−", "-") else 1)
        terms.append(term)
    if not terms:
        raise _malformed(text, 0)
    return Polynomial(text, tuple(terms))


def _term(text: str, place: int, coefficient: int) -> tuple[Term, int]:
    """The product that starts at `place`, and the position after it.

    A multiplication sign is required before a number and before any factor that follows `log n`.
    """
    powers = dict.fromkeys(("n", "d", "h", "log"), 0)
    factor = _FACTOR.match(text, place)
    if not factor:
        raise _malformed(text, place)
    while factor:
        if factor["number"]:
            coefficient *= int(factor["number"])
        else:
            powers[factor["name"] or "log"] += _POWERS[factor[4] or factor[5] or ""]
        place = factor.end()
        times = _TIMES.match(text, place)
        following = _FACTOR.match(text, times.end()) if times else None
        if times and times[1] and not following:
            raise _malformed(text, place)
        if following and not (times and times[1]) and (following["number"] or factor["log"]):
            raise _malformed(text, following.start())
        factor = following
    if over := _OVER.match(text, place):
        powers["h"] -= _POWERS[over[1] or over[2] or ""]
        place = over.end()
    if powers["log"] > 1 or max(powers.values()) > max(_SUPERSCRIPT):
        raise _malformed(text, 0)
    return Term(coefficient, **powers), place


def _formula_text(terms: tuple[Term, ...]) -> str:
    parts = []
    for term in terms:
        powers = (("n", term.n), ("d", term.d), ("h", term.h))
        factors = "".join(name + _SUPERSCRIPT[power] for name, power in powers if power > 0)
        log = f"{' ' if factors else ''}log n" if term.log else ""
        below = f"/h{_SUPERSCRIPT[-term.h]}" if term.h < 0 else ""
        number = "" if abs(term.coefficient) == 1 and (factors or log) else str(abs(term.coefficient))
        sign = "−" if term.coefficient < 0 else "+"
        parts.append((sign, f"{number}{factors}{log}{below}"))
    if not parts:
        return "0"
    first = ("−" if parts[0][0] == "−" else "") + parts[0][1]
    return " ".join([first, *(f"{sign} {part}" for sign, part in parts[1:])])


def _malformed(text: str, place: int) -> UsageError:
    part = text[place:].strip()
    where = f": '{part}' cannot be read" if part and part != text.strip() else ""
    return UsageError(f"claim '{text}' is no sum of terms in n, d and h, as 8nd² + 4n²d is{where}; {_GRAMMAR}")


def work_of(claims: Mapping[str, Polynomial], mode: str) -> Polynomial | None:
    """The claimed FLOPs of one call in `mode`; None without a claim. Those of `backward` are training minus forward."""
    if mode == "backward":
        train, forward = claims.get("work_train"), claims.get("work")
        return train - forward if train and forward else None
    return claims.get({"forward": "work"}.get(mode, f"work_{mode}"))


def claims_of_impl(name: str) -> dict[str, Polynomial]:
    """The claims of a registered layer, by their names in `CLAIMS`. Raises KeyError for any other name."""
    return {claim: parse(text) for claim in CLAIMS if (text := getattr(IMPLS[name], claim))}


def claims_of_class(layer_class: Any) -> dict[str, Polynomial]:
    """The claims in the attribute `claims` of a user's own layer; empty without that attribute.

    Raises UsageError if `claims` is not a mapping, and for an unknown claim or an unparsable formula.
    """
    claims = {}
    stated = getattr(layer_class, "claims", {})
    if not isinstance(stated, Mapping):
        raise UsageError(f"claims is {stated!r}: it must be {{'work': '8nd² + 4n²d', …}}")
    for claim, text in stated.items():
        if claim not in CLAIMS:
            raise UsageError(
                f"unknown claim '{claim}'{did_you_mean(str(claim), CLAIMS)} (there are {', '.join(CLAIMS)})"
            )
        claims[claim] = _claimed(claim, str(text))
    return claims


def _claimed(claim: str, text: str) -> Polynomial:
    of_order = _BIG_O.fullmatch(text)
    if of_order and claim not in _BY_ORDER:
        raise UsageError(
            f"claims['{claim}'] is '{text}': an order is no count, and work is claimed to the last digit, as "
            f"8nd² + 4n²d; {', '.join(_BY_ORDER)} may be O(…)"
        )
    try:
        return parse(of_order[1] if of_order else text)
    except UsageError as error:
        raise UsageError(f"claims['{claim}']: {error}") from error


class WorkTerm(NamedTuple):
    """A term of counted FLOPs, for table 1: a coefficient times powers of n, d, h, b and log n."""

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


def work_text(terms: Iterable[WorkTerm]) -> str:
    """Write the terms as a sum, the highest power of n first: `4n²d + 8nd²`."""
    return "".join(
        (" − " if term.coefficient < 0 else " + " if i else "") + str(term)
        for i, term in enumerate(sorted(terms, key=lambda term: (-term.n, -term.d, -term.h)))
    )


def work_of_next_token(terms: Sequence[WorkTerm]) -> list[WorkTerm]:
    """Return W(n) − W(n − 1) exactly, for the FLOPs W as a polynomial in n. The list is empty if W contains log n."""
    if any(term.log for term in terms):
        return []
    found: dict[WorkTerm, float] = {}
    for term in terms:
        for power in range(term.n):
            part = term._replace(coefficient=0, n=power)
            sign = (-1) ** (term.n - power + 1)
            found[part] = found.get(part, 0) + sign * comb(term.n, power) * term.coefficient
    return [part._replace(coefficient=value) for part, value in found.items() if value]
