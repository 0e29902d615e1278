"""Which layers and sizes `bench_registry.py` is to time, as the environment says."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, get_type_hints

import pytest

from harness.core.model.sweep_axes import AXES, Case
from impls.registry import IMPLS

OTHERS = tuple(axis for axis in AXES if axis not in ("impl", "seq_len"))


def impls(said: Mapping[str, str]) -> list[str]:
    """The layers that one of the globs in HARNESS_BENCH_IMPLS fits; without it all that need no compiling."""
    globs = said.get("HARNESS_BENCH_IMPLS")
    if not globs:
        return [name for name, impl in IMPLS.items() if not impl.compiled]
    found = [name for name in IMPLS if any(fnmatchcase(name, glob) for glob in globs.split(","))]
    if not found:
        raise pytest.UsageError(f"HARNESS_BENCH_IMPLS={globs}: there is no such layer")
    return found


def lengths(said: Mapping[str, str]) -> list[int]:
    """HARNESS_BENCH_SEQ_LENS."""
    text = said.get("HARNESS_BENCH_SEQ_LENS", "64,128,256,512")
    if not all(part.isdecimal() and int(part) for part in text.split(",")):
        raise pytest.UsageError(f"HARNESS_BENCH_SEQ_LENS={text}: it takes whole numbers such as 64,128")
    return [int(part) for part in text.split(",")]


def others(said: Mapping[str, str]) -> dict[str, Any]:
    """The axes but impl and seq_len, by HARNESS_BENCH_CASE, each of its own type."""
    hints, values = get_type_hints(Case), {"d_model": "64", "num_heads": "4"}
    for pair in said.get("HARNESS_BENCH_CASE", "").split():
        axis, _, value = pair.partition("=")
        if axis not in OTHERS:
            raise pytest.UsageError(f"HARNESS_BENCH_CASE: '{pair}' is none of {', '.join(OTHERS)}")
        values[axis] = value
    try:
        return {axis: hints[axis](value) for axis, value in values.items()}
    except ValueError as error:
        raise pytest.UsageError(f"HARNESS_BENCH_CASE: {error}") from error
