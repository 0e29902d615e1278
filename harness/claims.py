"""What theory claims of a layer, as formulas in n, d and h that are shown as they stand and evaluated exactly.

`work` is of one sequence, forward; `work_train` of forward and backward; `work_decode` of one token with n in all; a
multiply-add is 2, and elementwise work is not counted. `memory` (words alive at the peak beyond weights and input),
`depth` (sequential operations) and `path` (operations on the longest way between two positions) are by order. See
Vaswani et al. 2017, table 1.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

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
# Claimed by order, where O(…) says no more than what is in it.
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
        """Its powers, without the coefficient."""
        return self.n, self.d, self.h, self.log


@dataclass(frozen=True)
class Polynomial:
    """A sum of terms, such as `8nd² + 4n²d` or `8nd² + 4nd²/h`."""

    text: str
    terms: tuple[Term, ...]

    def __call__(self, n: int, d: int, h: int = 1) -> int:
        """Its value, exactly where all its terms are powers; a logarithm is rounded up to a whole step.

        Raises ValueError where it is no whole number: d is a multiple of h.
        """
        value = sum(
            (t.coefficient * n**t.n * d**t.d * Fraction(h) ** t.h * (n - 1).bit_length() ** t.log for t in self.terms),
            Fraction(0),
        )
        if value.denominator > 1:
            raise ValueError(f"{self.text} is no whole number at n = {n}, d = {d}, h = {h}")
        return int(value)

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        """The difference, term by term: what a backward pass does is that of training less that of a forward pass."""
        left = {term.factors: term.coefficient for term in self.terms}
        for term in other.terms:
            left[term.factors] = left.get(term.factors, 0) - term.coefficient
        terms = tuple(Term(value, n, d, h, log) for (n, d, h, log), value in left.items() if value)
        return Polynomial(_written(terms), terms)

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Polynomial:
    """Read a formula: whole numbers, n, d and h to powers (`d²`, `d^2`, `d**2`), `log n`, `/h`, joined by + and −.

    Of a product the factors stand side by side, or with a space, `*` or `·` between. Raises UsageError.
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
    """A product and its end. A number or whatever follows `log n` needs a sign of multiplication before it."""
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


def _written(terms: tuple[Term, ...]) -> str:
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
    """The work that is claimed of one call in a mode; None where nothing is."""
    if mode == "backward":
        train, forward = claims.get("work_train"), claims.get("work")
        return train - forward if train and forward else None
    return claims.get({"forward": "work"}.get(mode, f"work_{mode}"))


def of_impl(name: str) -> dict[str, Polynomial]:
    """The claims that a registered impl makes, of `CLAIMS`. Raises KeyError for any other name."""
    return {claim: parse(text) for claim in CLAIMS if (text := getattr(IMPLS[name], claim))}


def of_class(layer_class: Any) -> dict[str, Polynomial]:
    """The claims that somebody's own layer has as its attribute `claims`, none if it has none.

    Raises UsageError for a claim that there is not, or that cannot be read.
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
