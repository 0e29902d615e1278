"""Turn errors of Hydra and OmegaConf into one line: which setting is wrong, and what it takes."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException, ValidationError

from harness.config.schema import SweepSchema

_TAKES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list[str]: "a list of texts",
}
_MOST_LETTERS = 300


def told(error: BaseException, overrides: Sequence[str]) -> str:
    """What is wrong, and in which override, if an override is the cause."""
    chain = list(_chain(error))
    found = next((one for one in chain if isinstance(one, OmegaConfBaseException) and one.full_key), None)
    if found is None:
        return "; ".join(dict.fromkeys(_short(str(one)) for one in chain[:2] if str(one))) or type(error).__name__
    key = str(found.full_key)
    given = next((text for text in reversed(overrides) if text.partition("=")[0] == key), key)
    if isinstance(found, MissingMandatoryValue):
        return f"{key} has no value: no file that is chosen says one; give {key}=…"
    wanted = takes(key)
    if isinstance(found, ValidationError) and wanted:
        return f"{_short(given)}: it takes {wanted}"
    return f"{_short(given)}: {_short(str(found).partition('full_key:')[0])}"


def _chain(error: BaseException | None) -> Iterable[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def takes(key: str) -> str | None:
    """What the setting takes, in words; None for an unknown setting, or one that takes any value."""
    hint: Any = SweepSchema
    for part in key.split("."):
        if not is_dataclass(hint) or part not in (field.name for field in fields(hint)):
            return None
        hint = get_type_hints(hint)[part]
    of_none: dict[Any, str] = {
        optional | None: f"{words}, or null" for optional, words in _TAKES.items() if optional is not bool
    }
    return {**_TAKES, **of_none}.get(hint)


def _short(text: str) -> str:
    return " ".join(text.split())[:_MOST_LETTERS]
