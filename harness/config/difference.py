"""What differs between the configuration that a run was begun with and another."""

from collections.abc import Iterator, Mapping
from typing import Any

# What says where a sweep writes, how far it goes now, and what others have published, and nothing of what is measured
# and how.
_NOT_COMPARED = ("out", "retry", "launcher", "wait", "paper")
_COMPARED = ("paper.name", "paper.scale")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """`"seq_len=64,128 before and 64,256 now"` for each setting that is another; a value and a list of it are alike.

    A setting that came later than the run was begun is one that was left as it is by default, if that is nothing.
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
    """One value and a list of it alone are the same."""
    return value if isinstance(value, list) else [value]


def _written(value: Any) -> str:
    return ",".join("null" if item is None else str(item) for item in listed(value))
