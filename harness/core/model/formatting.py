"""Text for people: numbers with units, text made safe for terminals and Markdown, and shortened names of layers."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import expm1, isfinite

# Numbers with units are short enough for a table or an axis.
BYTE_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
# Units that options take too: `8GB` is decimal, `64M` is what Linux and Slurm mean by it.
MORE_BYTE_UNITS = {
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
}
# Writes a number with its unit.
NumberText = Callable[[float], str]
# The rows of a table: the name of each, and its text.
NamedTexts = Iterator[tuple[str, str]]
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"), (1e-15, "fs"))
_MULTIPLES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_MOST_LISTED = 4
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def seconds(value: float) -> str:
    """`0.00213` -> `2.13 ms`."""
    return _scaled(value, _SECONDS) if value else "0 s"


def size(value: float) -> str:
    """Bytes in powers of 1024: `6291456` -> `6.00 MiB`."""
    return (
        f"{value:.0f} B"
        if abs(value) < 1024
        else _scaled(value, [(scale, unit) for unit, scale in reversed(BYTE_UNITS.items())])
    )


def duration(value: float) -> str:
    """Seconds as a time to wait: `90 s`, `12 min` or `3.4 h`."""
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def count(value: float, most: float = 2**53) -> str:
    """A whole number with all digits below `most`, as long as a float holds them: `1073741824` -> `1,073,741,824`."""
    return f"{value:,.0f}" if abs(value) < most else power_of_ten(value)


def counted(number: int, noun: str) -> str:
    """The number with its noun in the singular or plural: `1 more case`, `3 more cases` for the noun `more case`."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def listed(names: Sequence[str], noun: str = "") -> str:
    """The names as a list in words: `A`, `A and B`. With a noun, names after the fourth are counted.

    `A, B, C, D and 2 more layers` for the noun `layer`.
    """
    left = len(names) - _MOST_LISTED
    shown = [*names[:_MOST_LISTED], counted(left, f"more {noun}")] if noun and left > 0 else names
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def flops_rate(value: float) -> str:
    """FLOP/s in powers of 1000: `2.04e11` -> `204 GFLOP/s`."""
    return f"{_scaled(value, _MULTIPLES)}FLOP/s"


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    scale, unit = _unit_of(value, units)
    return f"{three(value / scale)} {unit}"


def _unit_of(value: float, units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The first of the units, in descending order, that is at most as large as the value, or else the last one."""
    return next(((scale, unit) for scale, unit in units if abs(value) >= scale), units[-1])


def kernels_sentence(impl: str, kernels: Mapping[str, object]) -> str:
    """Say that the layer ran different kernels, by the place of each measurement, such as `on the base`.

    Empty if the known kernels are one. A kernel that is None is unknown.
    """
    if len({*kernels.values()} - {None}) < 2:
        return ""
    ran = " and ".join(f"{kernel} {place}" for place, kernel in kernels.items() if kernel)
    return f"{impl} ran {ran}: the times are of different kernels."


def share(value: float) -> str:
    """A fraction in per cent: `0.0312` -> `3.1 %`."""
    return f"{100 * value:.0f} %" if abs(value) >= 0.0995 else f"{100 * value:.1f} %"


def change(log_ratio: float) -> str:
    """A log ratio as a change in per cent: `0.0488` -> `+5.0 %`."""
    return f"{100 * expm1(log_ratio):+.1f} %"


def between(lo: float, hi: float, text: NumberText) -> str:
    """An interval: `1.98 ms to 2.40 ms`; with an unknown end `at least 1.98 ms` or the like."""
    if isfinite(lo) and isfinite(hi):
        return f"{text(lo)} to {text(hi)}"
    if isfinite(lo):
        return f"at least {text(lo)}"
    return f"at most {text(hi)}" if isfinite(hi) else "not bounded"


def seconds_range(lo: float, hi: float) -> str:
    """An interval of times in the unit of its upper end: `9.02 – 41.0 ms`."""
    scale, unit = _unit_of(hi, _SECONDS)
    return f"{three(lo / scale)} – {three(hi / scale)} {unit}"


def power_of_ten(value: float) -> str:
    """Any number with three digits: `3.2e-12` -> `3.20·10⁻¹²`; without a power where that is short."""
    if value == 0 or 1e-2 <= abs(value) < 1e5:
        return three(value) if value != int(value) else f"{value:.0f}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}"


def round_text(text: str) -> str:
    """`1.00 ms` -> `1 ms`, for the round numbers of ticks; `1,000` and `5.00·10¹⁸` stay."""
    number, _, unit = text.partition(" ")
    if number.replace(".", "").isdecimal():
        number = f"{float(number):g}"
    return f"{number} {unit}".rstrip()


def if_known(value: float | None, text: NumberText) -> str:
    """The text of a value; empty if it is not known."""
    return "" if value is None else text(value)


def three(value: float) -> str:
    """Three significant digits, without an exponent."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


# Control and format characters, lone surrogates, and separators of lines and paragraphs.
# Terminals and bidirectional text obey them.
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str) -> str:
    """Return the text with invisible characters written out, as `\\x1b` or `\\n`: safe to print on a terminal."""
    if text.isprintable():
        return text
    hidden = {sign: sign.encode("unicode_escape").decode() for sign in text if unicodedata.category(sign) in _INVISIBLE}
    return "".join(hidden.get(sign, sign) for sign in text)


def code(text: str) -> str:
    """Return `text` on one line as a Markdown code span, between more backticks than it contains."""
    flat = printable(" ".join(text.split()))
    fence = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


LONGEST_NAME = 28


def shortened(impl: str) -> str:
    """Shorten a layer's name to at most `LONGEST_NAME` characters, with control characters written out.

    In `module:Class`, the class stays whole if possible and the module loses its end. Other names lose their middle.
    """
    name = printable(impl)
    if len(name) <= LONGEST_NAME:
        return name
    module, colon, class_name = name.rpartition(":")
    room = LONGEST_NAME - len(class_name) - 2
    if colon and room >= 4:
        return f"{module[:room]}…:{class_name}"
    half = (LONGEST_NAME - 1) // 2
    return f"{name[: LONGEST_NAME - 1 - half]}…{name[-half:]}"
