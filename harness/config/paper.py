"""`paper=NAME scale=full|cpu`: a published setting, at the published sizes or at sizes for a machine without a GPU.

For Hydra, the scales of a paper are the group of files `paper/NAME/`. Users need not know this.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.case import AXES
from harness.config.overrides import key_of
from harness.errors import UsageError, did_you_mean

SCALE, PAPER = "scale", "paper"
# Groups of sizes that the sizes of a paper would replace silently.
_ELSEWHERE = ("shape", "preset")
_SETTINGS = (*AXES, "together")


def scaled(overrides: Sequence[str], directories: Iterable[Path]) -> tuple[list[str], list[str]]:
    """`(overrides without scale, overrides that replace scale for Hydra)`.

    Raises UsageError for an unknown scale, and for a scale without a paper.
    """
    rest = [override for override in overrides if key_of(override) != SCALE]
    scale, paper = _last(overrides, SCALE), _last(overrides, PAPER)
    if scale is None:
        return rest, []
    if paper in (None, "null"):
        raise UsageError(f"scale={scale} is of a published setting: give paper=NAME too")
    known = sorted({file.stem for directory in directories for file in (directory / PAPER / paper).glob("*.yaml")})
    if known and scale not in known:
        raise UsageError(f"unknown scale '{scale}'{did_you_mean(scale, known)}")
    return rest, [f"{PAPER}/{paper}@_global_={scale}"] if known else []  # an unknown paper is reported elsewhere


def check_paper(given: Any, overrides: Sequence[str]) -> dict[str, Any]:
    """The publication as a dictionary, with the overrides that `changed` its setting; empty without a paper.

    Raises UsageError if the paper's file states no name or another name than its own. Sizes from a shape or a preset
    are an error too.
    """
    asked = _last(overrides, PAPER)
    if asked in (None, "null"):
        return {}
    if not isinstance(given, Mapping) or given.get("name") != asked:
        raise UsageError(
            f"paper={asked}: its file must begin with `# @package _global_`, and have `paper: {{name: {asked}, …}}`"
        )
    for override in overrides:
        if key_of(override) in _ELSEWHERE:
            raise UsageError(f"{override}: paper={asked} has sizes of its own; override those: seq_len=…, d_model=…")
    changed = [override for override in overrides if key_of(override) in _SETTINGS]
    return {**given, "changed": changed} if changed else dict(given)


def _last(overrides: Iterable[str], key: str) -> str | None:
    values = [override.partition("=")[2].strip() for override in overrides if key_of(override) == key]
    return values[-1] if values else None
