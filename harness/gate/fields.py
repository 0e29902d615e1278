"""Fields of a file that a user may have edited. Each has the right type, or a one-line error names it."""

import math
from collections.abc import Collection
from typing import Any

from harness.errors import did_you_mean


class Damage(ValueError):
    """Why a file is not a baseline. The message follows the file's name."""


class Fields:
    """The fields of one object in the file. `place` names the object in messages.

    Raises Damage for a value that is no object, an unknown field, a missing field or a field of the wrong type.
    """

    def __init__(self, held: object, place: str, names: Collection[str]) -> None:
        if not isinstance(held, dict):
            raise Damage(f"{place} is {_named(held)}, not an object")
        for name in held:
            if name not in names:
                raise Damage(f"{place} has '{name}', which is unknown{did_you_mean(name, names)}")
        for name in names:
            if name not in held:
                raise Damage(f"{place} lacks '{name}'")
        self._held: dict[str, Any] = held
        self._place = place

    def text(self, name: str, one_of: Collection[str] = ()) -> str:
        """A text. If `one_of` is given, it must be one of these."""
        value = self._held[name]
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        if one_of and value not in one_of:
            raise Damage(f"{self._place}: unknown {name} '{value}'{did_you_mean(value, one_of)}")
        return value

    def text_or_none(self, name: str) -> str | None:
        """A text or null."""
        return None if self._held[name] is None else self.text(name)

    def count(self, name: str) -> int:
        """A whole number of at least 0."""
        value = self._held[name]
        if type(value) is not int or value < 0:
            raise self._wrong(name, "a whole number from 0 on")
        return value

    def count_or_none(self, name: str) -> int | None:
        """A whole number of at least 0, or null."""
        return None if self._held[name] is None else self.count(name)

    def number_or_none(self, name: str) -> float | None:
        """A finite number or null."""
        value = self._held[name]
        if value is None:
            return None
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self._wrong(name, "a number")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._held[name]
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def members(self, name: str) -> dict[str, Any]:
        """An object with arbitrary names."""
        value = self._held[name]
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value

    def _wrong(self, name: str, what: str) -> Damage:
        return Damage(f"{self._place}: {name} is {_named(self._held[name])}, not {what}")


def _named(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    said = f"the text '{value}'" if isinstance(value, str) else str(value).lower()
    return said if len(said) <= 60 else f"{said[:59]}…"
