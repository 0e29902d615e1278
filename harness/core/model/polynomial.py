"""Sums of products of powers of n, d, h, b and log n: read, written, added and evaluated.

The letters are the sequence length n, the width d, the number of heads h and the batch size b, and those of a layer's
own axes. Claims, cost models and Table 1 are made of these terms.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from math import comb, log
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from .errors import UsageError

AXES = ("n", "d", "h", "b")
_FIELDS = ("n", "log", "d", "h", "b")
# The order of a term's factors, as theory writes them: b·h·n²·d.
_SYMBOLS = {"b": "b", "h": "h", "n": "n", "log": "log n", "d": "d"}
_SUPERSCRIPT = {1: "", 2: "²", 3: "³", 4: "⁴"}
# Exponents by the last character of a power as written.
_POWERS = {text: power for power, sign in _SUPERSCRIPT.items() for text in (sign, str(power))}

Number = int | Fraction
# The values of a layer's own axes, by their letters: (("w", 64),).
OwnSize = tuple[tuple[str, float], ...]
# n, d, h, b, and along the layer's own axes.
Size = tuple[int, int, int, int, OwnSize]


@dataclass(frozen=True, order=True)
class Term:
    """The product of powers of n, d, h and b, and of the letters in `own`, times log₂ n to the power `log`."""

    n: int = 0
    log: int = 0
    d: int = 0
    h: int = 0
    b: int = 0
    own: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, powers: Mapping[str, int]) -> "Term":
        """The product of these powers of letters."""
        own = tuple(sorted((letter, power) for letter, power in powers.items() if letter not in _FIELDS and power))
        return cls(**{letter: power for letter, power in powers.items() if letter in _FIELDS}, own=own)

    @property
    def powers(self) -> dict[str, int]:
        """The powers of n, log n, d, h and b, and of the further letters that the term has."""
        return {"n": self.n, "log": self.log, "d": self.d, "h": self.h, "b": self.b, **dict(self.own)}

    def power(self, axis: str) -> int:
        """The power of a letter, 0 without it."""
        return self.powers.get(axis, 0)

    def __call__(self, at: Any) -> Any:
        """Return the term's value at `at`, which has the attributes n, d, h, b and log: numbers, or arrays.

        `at.own` has the values of further letters.
        """
        value = at.n**self.n * at.d**self.d * at.h**self.h * at.b**self.b
        for letter, power in self.own:
            value = value * at.own[letter] ** power
        return value * at.log**self.log if self.log else value

    def exponent(self, axis: str, n: float) -> float:
        """Return the term's exponent along an axis at n, where log n itself has the exponent 1 / ln n."""
        of_log = self.log / log(max(n, 2)) if axis == "n" else 0.0
        return self.power(axis) + of_log

    def growth(self, axis: str = "n") -> tuple[int, int]:
        """The term's growth along an axis: its power and, for n, the power of log n."""
        return self.power(axis), self.log if axis == "n" else 0

    def along(self, axes: Iterable[str]) -> "Term":
        """The term without the axes that are not among `axes`; log n belongs to n."""
        kept = {*axes, "log"} if "n" in axes else set(axes)
        return Term.of({name: power for name, power in self.powers.items() if name in kept})

    def without(self, axis: str) -> "Term":
        """The term without one axis."""
        return self.along(self.powers.keys() - {axis, "log"})

    def text(self, dot: str = "") -> str:
        """The factors with `dot` between them, then those to divide by: `4`, `nd²` or `n·d/h`; `1` without any."""
        powers = {symbol: self.power(name) for name, symbol in _SYMBOLS.items()}
        d = powers.pop("d")
        powers |= {**dict(self.own), "d": d}  # as in n·w·d
        log = powers.pop("log n") if not dot else 0
        above = dot.join(symbol + _SUPERSCRIPT[power] for symbol, power in powers.items() if power > 0)
        below = "".join(f"/{symbol}{_SUPERSCRIPT[-power]}" for symbol, power in powers.items() if power < 0)
        return ((f"{above}·log n" if above else "log n") if log else above or "1") + below

    def __str__(self) -> str:
        return self.text("·")


def leading(terms: Iterable[Term], axis: str) -> tuple[int, int]:
    """The growth of the fastest-growing term along an axis: its power and, for n, the power of log n."""
    return max((term.growth(axis) for term in terms), default=(0, 0))


def sum_text(parts: Iterable[tuple[float | Fraction, str]]) -> str:
    """Write a sum, given the value of each part and its text without a sign: `8nd² − 2d²`; `0` without parts."""
    text = ""
    for value, part in parts:
        sign = "−" if value < 0 else "+"
        text += (f" {sign} " if text else sign.strip("+")) + part
    return text or "0"


@dataclass(frozen=True)
class Polynomial:
    """A sum of terms with exact coefficients, such as `8nd² + 4n²d` or `8nd² + 4nd²/h`; `text` if somebody wrote it."""

    coefficients: Mapping[Term, Number]
    text: str = field(default="", compare=False)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms, in the order in which they are written."""
        return tuple(self.coefficients)

    def growth(self, axis: str) -> tuple[int, int]:
        """The growth of the fastest-growing term along an axis, as `leading` gives it."""
        return leading(self.terms, axis)

    def value(self, n: int, d: int, h: int = 1, b: int = 1, own: OwnSize = ()) -> Fraction:
        """The exact value at a size; log₂ n is rounded up to a whole number."""
        letters = {letter: Fraction(value) for letter, value in own}
        size = SimpleNamespace(n=n, d=d, h=Fraction(h), b=b, log=(n - 1).bit_length(), own=letters)
        return sum((value * term(size) for term, value in self.coefficients.items()), Fraction(0))

    def __call__(self, n: int, d: int, h: int = 1) -> int:
        """The value at a size of one sequence, as `value`.

        Raises ValueError if the value is not a whole number: d must be a multiple of h.
        """
        value = self.value(n, d, h)
        if value.denominator > 1:
            raise ValueError(f"{self} is no whole number at n = {n}, d = {d}, h = {h}")
        return int(value)

    def __add__(self, other: "Polynomial") -> "Polynomial":
        total = dict(self.coefficients)
        for term, value in other.coefficients.items():
            total[term] = total.get(term, 0) + value
        return Polynomial({term: value for term, value in total.items() if value})

    def __sub__(self, other: "Polynomial") -> "Polynomial":
        return self + other * constant(-1)

    def __mul__(self, other: "Polynomial") -> "Polynomial":
        total = Polynomial({})
        for term, value in self.coefficients.items():
            for factor, times in other.coefficients.items():
                powers = {name: term.power(name) + factor.power(name) for name in (term.powers | factor.powers)}
                total += Polynomial({Term.of(powers): value * times})
        return total

    def difference(self) -> "Polynomial | None":
        """W(n) − W(n − 1) exactly, for this polynomial W; None if it contains log n."""
        if any(term.log for term in self.terms):
            return None
        total = Polynomial({})
        for term, value in self.coefficients.items():
            for power in range(term.n):
                times = (-1) ** (term.n - power + 1) * comb(term.n, power)
                total += Polynomial({replace(term, n=power): times * value})
        return total

    def at(self, own: OwnSize) -> "Polynomial":
        """The same sum at a size along a layer's own axes, whose letters it no longer has."""
        total, values = Polynomial({}), {letter: Fraction(value) for letter, value in own}
        for term, value in self.coefficients.items():
            letters = [(letter, power) for letter, power in term.own if letter not in values]
            for letter, power in term.own:
                value *= values.get(letter, 1) ** power
            total += Polynomial({replace(term, own=tuple(letters)): value})
        return total if any(term.own for term in self.terms) else self

    def part(self, term: Term) -> "Polynomial":
        """One term of the sum, with its coefficient."""
        return Polynomial({term: self.coefficients[term]})

    def by_growth(self) -> "Polynomial":
        """The same sum, with the highest power of n first: `4n²d + 8nd²`."""
        terms = sorted(self.coefficients, key=attrgetter("n", "log", "d", "h"), reverse=True)
        return Polynomial({term: self.coefficients[term] for term in terms})

    def __str__(self) -> str:
        return self.text or sum_text((value, _part_text(term, value)) for term, value in self.coefficients.items())


def constant(value: Number) -> Polynomial:
    """Return the polynomial that is `value` everywhere."""
    return Polynomial({Term(): value})


def _inverse(of: Polynomial) -> Polynomial | None:
    """One over a polynomial; None if it is 0, or a sum."""
    if len(of.terms) != 1 or not all(of.coefficients.values()):
        return None
    ((term, value),) = of.coefficients.items()
    return Polynomial({Term.of({name: -power for name, power in term.powers.items()}): 1 / Fraction(value)})


def own_letter(symbol: str) -> Polynomial:
    """Return the polynomial that is a letter of a layer's own axis."""
    return Polynomial({Term.of({symbol: 1}): 1})


def _part_text(term: Term, value: Number) -> str:
    """A term and the absolute value of its coefficient: `8nd²`."""
    size = abs(Fraction(value))
    number = str(size) if size.denominator == 1 else f"{float(size):.15g}"
    factors = term.text()
    if factors.startswith("1"):
        return number + factors[1:]
    return factors if number == "1" else f"{number}{'·' if factors.startswith('log') else ''}{factors}"


_READ = {symbol: Polynomial({Term.of({name: 1}): 1}) for name, symbol in _SYMBOLS.items()}
_READ["/h"] = Polynomial({Term(h=-1): 1})


@cache
def _patterns(letters: str, divisors: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns of a product with its sign, and of one factor in it, with these letters, some of them divisors."""
    power = r"(?:\s*(?:\^|\*\*)\s*[1-4]|[²³⁴])?"
    symbol = rf"log n|[{letters}]{power}"
    times = r"\s*(?:\*(?!\*)|·)\s*"
    product = rf"(?:[0-9]+|{symbol})(?:{times}(?:[0-9]+|{symbol})|(?<!log n)\s*(?:{symbol}))*"
    signed = rf"\s*([+−-]?)\s*({product}(?:\s*/\s*[{divisors}]{power})*)\s*"
    return re.compile(signed), re.compile(rf"([0-9]+)|(log n|/?)\s*([{letters}]?)({power})")


def parse(text: str, letters: Mapping[str, Polynomial] | None = None) -> Polynomial:
    """Parse a formula: a sum of products, joined by + and −.

    Factors are whole numbers, `log n`, and n, d and h to powers (`d²`, `d^2`, `d**2`). A product may end in `/h`. Its
    factors are adjacent, or separated by a space, `*` or `·`. A multiplication sign is required before a number, and
    before any factor that follows `log n`. Formulas in `letters` replace further letters, and a product may end in them
    as in `/h`, if they are one term.

    The result is written as `text`. If `text` repeats a term or contains such letters, it is written as its sum.
    Raises UsageError for an unparsable formula.
    """
    symbols = _READ | dict(letters or {})
    divisors = {letter: over for letter, value in (letters or {}).items() if (over := _inverse(value))}
    symbols |= {f"/{letter}": over for letter, over in divisors.items()}
    names = "".join(("n", "d", "h", *(letters or ())))
    signed, factor = _patterns(names, "".join(("h", *divisors)))
    total, products, place = Polynomial({}), 0, 0
    while place < len(text.rstrip()) or not products:
        match = signed.match(text, place)
        if not match or (products and not match[1]):
            raise _malformed(text, place, names)
        product = constant(-1 if match[1] in ("−", "-") else 1)
        for number, prefix, name, power in filter(any, factor.findall(match[2])):
            times = constant(int(number)) if number else symbols[prefix + name]
            for _ in range(_POWERS[power[-1:]]):
                product *= times
        too_large = any(not -(2**63) < factor < 2**63 for factor in product.coefficients.values())
        if too_large or any(term.log > 1 or max(term.powers.values()) > max(_SUPERSCRIPT) for term in product.terms):
            raise _malformed(text, 0, names)
        total, products, place = total + product, products + 1, match.end()
    summed = len(total.terms) < products or any(letter in text for letter in letters or ())
    return total if summed else replace(total, text=text)


def _malformed(text: str, place: int, names: str) -> UsageError:
    part = text[place:].strip()
    where = f": '{part}' cannot be read" if part and part != text.strip() else ""
    grammar = "powers as d², d^2 or d**2, products as nd, n d, n*d or n·d, /h at a term's end, + and −"
    letters = ", ".join(names)
    return UsageError(
        f"claim '{text}' is no sum of terms in n, d and h, as 8nd² + 4n²d is{where}; it takes whole numbers, {letters} "
        f"and log n, {grammar}. To use another letter, declare it: axes = {{'window': ('w', 128)}}"
    )
