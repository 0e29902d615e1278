"""The columns of a case's line that come from a facts row."""

from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from harness.summary.line import Line

# Columns that have the same name in the row …
_SAME = (
    "peak_bytes",
    "peak_resident_bytes",
    "peak_traced_bytes",
    "flops",
    "flops_full",
    "flops_claimed",
    "ops",
    "depth",
    "depth_declared",
    "min_bytes",
    "weights_bytes",
    "inputs_bytes",
    "saved_bytes",
    "transient_bytes",
    "backend",
    "backend_fallback",
    "claims",
)
# … followed by the reasons for missing facts, joined into one string.
FACTS = (*_SAME, "facts_unknown")
# Counts must fit into eight bytes. Only `transient_bytes`, the remainder of a peak, may be negative.
_MOST = 2**63
_NEGATIVE = "transient_bytes"
_TYPES = tuple(str if str in get_args(get_type_hints(Line)[name]) else (int, float) for name in _SAME)


def facts_of(row: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The cells of `FACTS`, with None for each that the row lacks. Return None if any value is invalid."""
    cells = tuple(row.get(name) for name in _SAME)
    unknown = row.get("facts_unknown", [])
    for name, cell, types in zip(_SAME, cells, _TYPES, strict=True):
        if cell is None:
            continue
        if not isinstance(cell, types):
            return None
        if (
            not isinstance(cell, str) and not (-_MOST if name == _NEGATIVE else 0) <= cell < _MOST
        ):  # false for NaN as well
            return None
    if not isinstance(unknown, list) or not all(isinstance(reason, str) for reason in unknown):
        return None
    return *cells, "; ".join(unknown) or None
