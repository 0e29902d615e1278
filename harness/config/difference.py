"""List the differences between the configuration that a run was created with and another."""

from collections.abc import Iterator, Mapping
from typing import Any

# These settings say where a sweep writes, which part of the work it does now, and what others have published. None of
# them affects what is measured or how.
_NOT_COMPARED = ("out", "retry", "launcher", "wait", "paper")
_COMPARED = ("paper.name", "paper.scale")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """`"seq_len=64,128 before and 64,256 now"` for each setting that differs.

    A single value equals a list of it alone. A setting added after the run was created counts as unchanged if it is
    null now.
    """
    then, today = dict(_flat(before)), dict(_flat(now))
    names = [name for name in dict.fromkeys([*then, *today]) if _is_compared(name)]
    return [
        f"{name}={_written(then.get(name))} before and {_written(today.get(name))} now"
        for name in names
        if listed(then.get(name)) != listed(today.get(name))
    ]


def _is_compared(name: str) -> bool:
    return name in _COMPARED or name.partition(".")[0] not in _NOT_COMPARED


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def listed(value: Any) -> list[Any]:
    """`value` as a list, so that a single value equals a list of it alone."""
    return value if isinstance(value, list) else [value]


def _written(value: Any) -> str:
    return ",".join("null" if item is None else str(item) for item in listed(value))
