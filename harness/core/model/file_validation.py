"""Typed models of the files that people or other programs write, and one sentence for content that does not fit."""

import re
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar

import pydantic

from .errors import UsageError, did_you_mean

_Given = ParamSpec("_Given")
_Held = TypeVar("_Held")
# Entries of an object in a list that name it in messages.
_NAMES = ("title", "says", "name")
_MOST_SHOWN = 60
_MOST_OF_A_KEY = 200


class Damaged(ValueError):
    """Why a file does not hold what it should. The message follows the file's name."""


class OpenModel(pydantic.BaseModel):
    """An object in a file. Values have exactly the declared types; names that are not declared have no effect."""

    model_config = pydantic.ConfigDict(strict=True)


class FileModel(OpenModel):
    """An object in a file that has no other names than the declared ones."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _names(cls, content: Any) -> Any:
        for name in content if isinstance(content, Mapping) else ():
            _check_name(name, cls.model_fields)
        return content


def one_of(names: Collection[str]) -> pydantic.AfterValidator:
    """The validator of a text that must be one of the known names."""
    return pydantic.AfterValidator(lambda name: _check_name(name, names))


def validator(function: Callable[_Given, _Held]) -> Callable[_Given, _Held]:
    """Decorate a function for pydantic: it raises ValueError, with the same message, instead of UsageError."""

    @wraps(function)
    def validate(*args: _Given.args, **kwargs: _Given.kwargs) -> _Held:
        try:
            return function(*args, **kwargs)
        except UsageError as error:
            raise ValueError(str(error)) from error

    return validate


def checked(kind: type[_Held], content: object) -> _Held:
    """The content of a file as a model or dataclass. Raises Damaged, with the first place that does not fit."""
    try:
        return pydantic.TypeAdapter(kind).validate_python(content)
    except pydantic.ValidationError as invalid:
        error = invalid.errors(include_url=False)[0]
        place = _place(error["loc"], content)
        expected = re.sub(r" or (an )?instance of .*", "", error["msg"]).replace("Input should be", "not")
        message = f"{place or 'it'} is {_shown(error['input'])}, {expected}"
        cause = error.get("ctx", {}).get("error")
        if cause is not None:
            message = f"{place}: {cause}" if place else str(cause)
        if error["type"] == "missing":
            message = f"{place} is missing"
        raise Damaged(message) from invalid


def _check_name(name: Any, names: Collection[str]) -> Any:
    if name not in names:
        raise ValueError(f"unknown '{str(name)[:_MOST_OF_A_KEY]}'{did_you_mean(str(name), names)}")
    return name


def _place(path: tuple[Any, ...], value: Any) -> str:
    """The names on the way to a value. An object in a list goes by its own name, anything else by its number."""
    parts = list[str]()
    for step in (step for step in path if step != "[key]"):
        if isinstance(step, str) and not isinstance(value, Mapping):
            continue  # the name of one of several types
        is_inside = isinstance(value, list) or (isinstance(value, Mapping) and step in value)
        value = value[step] if is_inside else None
        entries = value if isinstance(value, Mapping) else {}
        names = [entries[name] for name in _NAMES if isinstance(entries.get(name), str)]
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


# What is used of a run's `machine.json`, which `harness.core.config.machine.describe_machine` makes.
_Text = Annotated[str, pydantic.Field(max_length=4000)]
Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
_Rate = Annotated[pydantic.FiniteFloat, pydantic.Field(gt=0)]
_Texts = dict[_Text, _Text | None]
_Rates = dict[_Text, _Rate]
_State = dict[_Text, _Text | bool | Count | pydantic.FiniteFloat | None]


def _part(texts: str, counts: str = "", **types: Any) -> Any:
    """An object whose entries have these types: texts and counts by name, and others. Each may be missing or null."""
    types |= dict.fromkeys(texts.split(), _Text) | dict.fromkeys(counts.split(), Count)
    entries: Any = {name: (kind | None, None) for name, kind in types.items()}
    return pydantic.create_model("_Part", __base__=OpenModel, **entries)


_MACHINE = _part(
    "host kernel libc python project_commit user_commit calibration_note",
    "memory_bytes",
    cpu=_part("model", "threads usable"),
    torch=_part("version cuda triton gpu cpu_capability", "cudnn", gpu_states=dict[_Text, _State]),
    **dict.fromkeys(("libraries", "packages", "environment", "environments"), _Texts),
    layers=dict[_Text, _Texts],
    calibration=_part(
        "device verdict",
        "threads",
        noise_floor=Annotated[pydantic.FiniteFloat, pydantic.Field(ge=0)],
        best_probe_s=_Rate,
        bandwidth=_part("", "cache_bytes buffer_bytes", bandwidth_bytes_per_s=_Rate),
        peak_flops_per_s=_Rates,
        sustained_flops_per_s=_Rates,
        advice=list[_part("level text")],  # type: ignore[misc]
    ),
)


def known_machine(content: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a machine's description says, and why each entry that does not fit is left out. It costs no other entry."""
    machine = dict[str, Any]()
    damages = []
    for name, value in content.items():
        entries = [{name: {key: inner}} for key, inner in value.items()] if isinstance(value, dict) else [{name: value}]
        for entry in entries or [{name: value}]:
            try:
                checked_entry = checked(_MACHINE, entry).model_dump(exclude_unset=True)
            except Damaged as damage:
                damages.append(f"{damage}, left out")
                continue
            for key, part in checked_entry.items():
                machine[key] = {**machine.get(key, {}), **part} if isinstance(part, dict) else part
    return machine, damages
