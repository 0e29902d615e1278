"""What theory claims of a layer, as formulas in n, d and h that are shown as they stand and evaluated exactly.

`work` is of one sequence, forward; `work_train` of forward and backward; a multiply-add is 2, and elementwise work is
not counted. `memory` (words alive at the peak beyond weights and input), `depth` (sequential operations) and `path`
(operations on the longest way between two positions) are by order. See Vaswani et al. 2017, table 1.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError, did_you_mean
from impls.registry import IMPLS

CLAIMS = ("work", "work_train", "memory", "depth", "path")

_POWERS = {"": 1, "²": 2, "³": 3, "⁴": 4}
_SIGN = re.compile(r"\s*([+−-]?)\s*")
_TERM = re.compile(r"(\d*)((?:[ndh][²³⁴]?)*)")
_FACTOR = re.compile(r"([ndh])([²³⁴]?)")


@dataclass(frozen=True)
class Term:
    """`coefficient` times n, d and h to their powers."""

    coefficient: int
    n: int = 0
    d: int = 0
    h: int = 0


@dataclass(frozen=True)
class Polynomial:
    """A sum of terms, such as `8nd² + 4n²d`."""

    text: str
    terms: tuple[Term, ...]

    def __call__(self, n: int, d: int, h: int = 1) -> int:
        """Its value, exactly."""
        return sum(t.coefficient * n**t.n * d**t.d * h**t.h for t in self.terms)

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Polynomial:
    """Read a formula: whole coefficients, n, d and h with ², ³ or ⁴, joined by + and −. Raises UsageError."""
    terms: list[Term] = []
    place = 0
    while place < len(text):
        sign = _SIGN.match(text, place)
        term = _TERM.match(text, sign.end()) if sign else None
        if not sign or not term or not term[0] or (terms and not sign[1]):
            raise _malformed(text)
        powers = dict.fromkeys("ndh", 0)
        for name, power in _FACTOR.findall(term[2]):
            powers[name] += _POWERS[power]
        coefficient = int(term[1] or 1) * (1 if sign[1] in ("", "+") else -1)
        terms.append(Term(coefficient, **powers))
        place = term.end()
    if not terms:
        raise _malformed(text)
    return Polynomial(text, tuple(terms))


def _malformed(text: str) -> UsageError:
    return UsageError(f"claim '{text}' is no sum of terms in n, d and h, as 8nd² + 4n²d is")


def of_impl(name: str) -> dict[str, Polynomial]:
    """The claims of a registered impl, by `CLAIMS`. Raises KeyError for any other name."""
    return {claim: parse(getattr(IMPLS[name], claim)) for claim in CLAIMS}


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
