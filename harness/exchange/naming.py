"""What a case is called in other tools, which keep a history by name: it must not change when an axis is added.

The sizes are always there; of the other axes those that are not at their default, as they are written after `sweep`.
"""

from collections.abc import Collection
from typing import Any

from harness.case import AXES, DEFAULTS
from harness.report.escaped import printable
from harness.summary import Line

_SIZES = ("seq_len", "d_model", "num_heads")


def axes_of(line: Line) -> dict[str, Any]:
    """The line's axes by name."""
    return line.case.as_dict()


def overrides(line: Line, without: Collection[str] = ()) -> str:
    """`seq_len=64 d_model=128 num_heads=2 mode=train`: what tells the case from others of its impl."""
    axes = axes_of(line)
    named = [axis for axis in AXES if axis in _SIZES or (axis != "impl" and axes[axis] != DEFAULTS[axis])]
    return printable(" ".join(f"{axis}={axes[axis]}" for axis in named if axis not in without))


def label(line: Line) -> str:
    """`attention.fused seq_len=64 d_model=128 num_heads=2`."""
    return f"{printable(line.impl)} {overrides(line)}"
