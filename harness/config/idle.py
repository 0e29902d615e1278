"""Reject options without effect, instead of ignoring them silently.

Defaults may be without effect: the user did not choose them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from harness.errors import UsageError


def check_masks(asked: Collection[str], axes: Mapping[str, Sequence[Any]]) -> None:
    """Raise UsageError for an explicit mask, or share of real tokens, that no case would have.

    `asked` are the axes that the user has set, `axes` the values of all axes.
    """
    if "padding" in axes["mask"]:
        return
    # Without padding all tokens are real, and the key of the case records that.
    if "real_share" in asked and any(share != 1 for share in axes["real_share"]):
        said = _said("real_share", axes)
        raise UsageError(f"{said} says how much of a padded batch is real: give mask=padding too, or leave it out")
    if "mask" in asked and set(axes["mode"]) == {"decode"}:
        seen = {"none" if source else "causal" for source in axes["source_len"]}
        if not seen.intersection(axes["mask"]):
            why = "comes after all others" if "causal" in seen else "sees all of a source"
            instead = " or ".join(f"mask={mask}" for mask in sorted(seen))
            said = _said("mask", axes)
            raise UsageError(f"{said}: with mode=decode a token {why}: give {instead}, or leave mask out")


def _said(axis: str, axes: Mapping[str, Sequence[Any]]) -> str:
    return f"{axis}={','.join(map(str, axes[axis]))}"
