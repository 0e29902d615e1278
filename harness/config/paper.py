"""`paper=NAME scale=full|cpu`: a published setting, at the published sizes or at some for a machine without a GPU.

Hydra knows the scales of a paper as the group of files `paper/NAME/`; a user need not know of that.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError, did_you_mean

SCALE, PAPER = "scale", "paper"


def scaled(overrides: Sequence[str], directories: Iterable[Path]) -> tuple[list[str], list[str]]:
    """`(overrides without scale, what Hydra is told instead)`. Raises UsageError for a scale that there is not."""
    rest = [override for override in overrides if _key(override) != SCALE]
    scale, paper = _last(overrides, SCALE), _last(overrides, PAPER)
    if scale is None:
        return rest, []
    if paper in (None, "null"):
        raise UsageError(f"scale={scale} is of a published setting: give paper=NAME too")
    known = sorted({file.stem for directory in directories for file in (directory / PAPER / paper).glob("*.yaml")})
    if known and scale not in known:
        raise UsageError(f"unknown scale '{scale}'{did_you_mean(scale, known)}")
    return rest, [f"{PAPER}/{paper}@_global_={scale}"] if known else []  # of a paper that there is not, others tell


def check_paper(given: Any) -> dict[str, Any]:
    """What is published, as a dictionary; empty where no paper was asked for."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise UsageError("paper takes the name of one of the files in conf/paper/")
    return dict(given)


def _key(override: str) -> str:
    return override.partition("=")[0].strip()


def _last(overrides: Iterable[str], key: str) -> str | None:
    values = [override.partition("=")[2].strip() for override in overrides if _key(override) == key]
    return values[-1] if values else None
