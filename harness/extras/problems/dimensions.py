"""Which sizes a dimension is the product of, found by doubling each size."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from harness.core.model.sweep_axes import LETTERS

Shape = Sequence[int]
# What is left for the letters of a file's own axes after those of n, d, h and the like.
_RESERVED = {*LETTERS, "D", "t", "e"}
_LETTERS = "abcefgijklopqrsuvwxyzABCEFGHIJKLMNOPQRSTUVWXYZαβγδεζηθκλμνξπρστφχψω"


def letters_for(names: Iterable[str]) -> dict[str, str]:
    """A letter for each name, its first one that is free."""
    letters: dict[str, str] = {}
    for name in names:
        free = (letter for letter in (*name, *_LETTERS) if letter.isalpha() and letter not in _RESERVED)
        letters[name] = next(letter for letter in free if letter not in letters.values())
    return letters


def exponents(base: int, doubled: Mapping[str, int], all_doubled: int) -> dict[str, int] | None:
    """The exponent of each size in a dimension that is `base`, and `doubled[size]` if that size is twice as large.

    None if the dimension is no product: its value with all sizes doubled then differs, or a factor is no power of two.
    """
    powers = {}
    for name, value in doubled.items():
        power = _power_of_two(base, value)
        if power is None:
            return None
        powers[name] = power
    is_product = _power_of_two(base, all_doubled) == sum(powers.values())
    return powers if is_product else None


def _power_of_two(base: int, value: int) -> int | None:
    """The p of value = 2ᵖ·base; None if there is none."""
    if not base or not value:
        return 0 if base == value else None
    larger, smaller = max(base, value), min(base, value)
    factor, rest = divmod(larger, smaller)
    if rest or factor.bit_count() != 1:
        return None
    return (factor.bit_length() - 1) * (1 if value >= base else -1)


def formula(base: int, powers: Mapping[str, int], sizes: Mapping[str, int], letters: Mapping[str, str]) -> str | None:
    """The dimension as a formula, such as `3n` or `nd/h`; None if its constant factor is no whole number."""
    above = prod(sizes[name] ** power for name, power in powers.items() if power > 0)
    below = prod(sizes[name] ** -power for name, power in powers.items() if power < 0)
    constant, rest = divmod(base * below, above)
    if rest:
        return None
    factors = [
        f"{letters[name]}^{power}" if power > 1 else letters[name] for name, power in powers.items() if power > 0
    ]
    divisors = [f"/{letters[name]}" * -power for name, power in powers.items() if power < 0]
    written = "".join(factors)
    return (written if constant == 1 and written else f"{constant}{written}") + "".join(divisors)
