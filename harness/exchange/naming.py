"""Names of cases in other tools.

These tools keep a history by name, so a name must not change when an axis is added. Sizes are always part of it. Other
axes are part of it only if they differ from their defaults. All are written as on the command line of `sweep`.
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
    """The axes that tell the case from others of its impl: `seq_len=64 d_model=128 num_heads=2 mode=train`."""
    axes = axes_of(line)
    named = [axis for axis in AXES if axis in _SIZES or (axis != "impl" and axes[axis] != DEFAULTS[axis])]
    return printable(" ".join(f"{axis}={axes[axis]}" for axis in named if axis not in without))


def label(line: Line) -> str:
    """The case's full name: `attention.fused seq_len=64 d_model=128 num_heads=2`."""
    return f"{printable(line.impl)} {overrides(line)}"
