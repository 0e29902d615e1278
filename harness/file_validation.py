"""Typed models of the files that people or other programs write, and one sentence for content that does not fit."""

import re
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from harness.errors import UsageError, did_you_mean

_Given = ParamSpec("_Given")
_Held = TypeVar("_Held")
# Entries of an object in a list that name it in messages.
_NAMES = ("title", "says", "name")
_MOST_SHOWN = 60
_MOST_OF_A_KEY = 200


class Damaged(ValueError):
    """Why a file does not hold what it should. The message follows the file's name."""


class OpenModel(BaseModel):
    """An object in a file. Values have exactly the declared types; names that are not declared have no effect."""

    model_config = ConfigDict(strict=True)


class FileModel(OpenModel):
    """An object in a file that has no other names than the declared ones."""

    @model_validator(mode="before")
    @classmethod
    def _names(cls, held: Any) -> Any:
        for name in held if isinstance(held, Mapping) else ():
            _check_name(name, cls.model_fields)
        return held


def one_of(known: Collection[str]) -> AfterValidator:
    """The validator of a text that must be one of the known names."""
    return AfterValidator(lambda name: _check_name(name, known))


def validator(function: Callable[_Given, _Held]) -> Callable[_Given, _Held]:
    """Decorate a function for pydantic: it raises ValueError, with the same message, instead of UsageError."""

    @wraps(function)
    def validate(*args: _Given.args, **kwargs: _Given.kwargs) -> _Held:
        try:
            return function(*args, **kwargs)
        except UsageError as error:
            raise ValueError(str(error)) from error

    return validate


def checked(kind: type[_Held], held: object) -> _Held:
    """The content of a file as a model or dataclass. Raises Damaged, with the first place that does not fit."""
    try:
        return TypeAdapter(kind).validate_python(held)
    except ValidationError as found:
        error = found.errors(include_url=False)[0]
        place = _place(error["loc"], held)
        cause = error.get("ctx", {}).get("error")
        if cause is not None:
            raise Damaged(f"{place}: {cause}" if place else str(cause)) from found
        if error["type"] == "missing":
            raise Damaged(f"{place} is missing") from found
        expected = re.sub(r" or (an )?instance of .*", "", error["msg"]).replace("Input should be", "not")
        raise Damaged(f"{place or 'it'} is {_shown(error['input'])}, {expected}") from found


def _check_name(name: Any, known: Collection[str]) -> Any:
    if name not in known:
        raise ValueError(f"unknown '{str(name)[:_MOST_OF_A_KEY]}'{did_you_mean(str(name), known)}")
    return name


def _place(path: tuple[Any, ...], held: Any) -> str:
    """The names on the way to a value. An object in a list goes by its own name, anything else by its number."""
    parts: list[str] = []
    for step in (step for step in path if step != "[key]"):
        if not isinstance(held, list if isinstance(step, int) else Mapping):
            continue  # the name of one of several types
        held = held[step] if isinstance(held, list) or step in held else None
        names = [held[name] for name in _NAMES if isinstance(held.get(name), str)] if isinstance(held, Mapping) else []
        if isinstance(step, int) and names:
            parts[-1] = " ".join(names[0].split())
        else:
            parts.append(str(step + 1 if isinstance(step, int) else step)[:_MOST_OF_A_KEY])
    return ": ".join(parts)


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping | list):
        return "a list" if isinstance(value, list) else "an object"
    shown = f"the text '{value}'" if isinstance(value, str) else str(value).lower()
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[: _MOST_SHOWN - 1]}…"
