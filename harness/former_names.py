"""Former names of axes, keys, columns and statuses, which old files and old commands may still use."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

STATUSES = {"wrong": "incorrect"}


def complement(value: Any) -> Any:
    """One minus the value, in nested lists too. Anything else stays, so that a later check names it."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [complement(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return round(1.0 - value, 12)
    except OverflowError:
        return value


def _same(value: Any) -> Any:
    return value


def _is_two(value: Any) -> Any:
    return None if value is None or str(value) in ("nan", "<NA>") else value == 2


def _points(value: Any) -> Any:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return [present(point) if isinstance(point, Mapping) else point for point in value]


# The present name of each former name, and what turns the old value into the new one.
FORMER: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "real_share": ("padding_fraction", complement),
    "source_len": ("kv_len", _same),
    "together": ("points", _points),
    "floor": ("threshold", _same),
    "pulse_s": ("probe_s", _same),
    "humps": ("bimodal", _is_two),
    "hump_fast_s": ("bimodal_fast_s", _same),
    "hump_slow_s": ("bimodal_slow_s", _same),
    "hump_cause": ("bimodal_cause", _same),
}


def present(data: Mapping[str, Any]) -> dict[str, Any]:
    """The items of `data` under their present names. A present name in `data` takes precedence."""
    renewed = {}
    for name, value in data.items():
        new, convert = FORMER.get(name, (name, _same))
        if new == name or new not in data:
            renewed[new] = convert(value)
    return renewed


def present_status(status: Any) -> Any:
    """The present name of a case's status."""
    return STATUSES.get(status, status) if isinstance(status, str) else status
