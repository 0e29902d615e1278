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

_POWERS = {"": 1, "²": 2, "³": 3, "⁴": 4}
_SUPERSCRIPT = {power: text for text, power in _POWERS.items()}
_SIGN = re.compile(r"\s*([+−-]?)\s*")
_TERM = re.compile(r"(\d*)((?:[ndh][²³⁴]?)*)( ?log n)?((?:/h[²³⁴]?)?)")
_FACTOR = re.compile(r"([ndh])([²³⁴]?)")


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
    """Read a formula: whole coefficients, n, d and h with ², ³ or ⁴, `log n`, `/h`, joined by + and −.

    Raises UsageError.
    """
    terms: list[Term] = []
    place = 0
    while place < len(text):
        sign = _SIGN.match(text, place)
        term = _TERM.match(text, sign.end()) if sign else None
        if not sign or not term or not term[0].strip() or (terms and not sign[1]) or term[0].startswith("/"):
            raise _malformed(text)
        powers = dict.fromkeys("ndh", 0)
        for name, power in _FACTOR.findall(term[2]):
            powers[name] += _POWERS[power]
        if term[4]:
            powers["h"] -= _POWERS[term[4][2:]]
        coefficient = int(term[1] or 1) * (1 if sign[1] in ("", "+") else -1)
        terms.append(Term(coefficient, **powers, log=bool(term[3]) * 1))
        place = term.end()
    if not terms:
        raise _malformed(text)
    return Polynomial(text, tuple(terms))


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


def _malformed(text: str) -> UsageError:
    return UsageError(f"claim '{text}' is no sum of terms in n, d and h, as 8nd² + 4n²d is")


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
            raise UsageError(f"unknown claim '{claim}'{did_you_mean(claim, CLAIMS)} (there are {', '.join(CLAIMS)})")
        claims[claim] = parse(str(text))
    return claims
