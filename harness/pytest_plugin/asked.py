"""Turn a test's arguments into cases: the layer, the axis along which it grows, and the fixed axes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from harness.case import AXES, DEFAULTS, Case, grid
from harness.config.axes import check_axes
from harness.config.files import conf_directory
from harness.config.schema import Precision
from harness.errors import UsageError, did_you_mean
from harness.pytest_plugin.naming import name_of

# The axes along which a cost model can be fitted, and their letters in formulas.
SIZES = {"seq_len": "n", "d_model": "d", "num_heads": "h", "batch_size": "b"}
# The default sizes of each axis along which a cost model is fitted.
OVER: dict[str, tuple[int, ...]] = {
    "seq_len": (64, 128, 256, 512, 1024),
    "d_model": (32, 64, 128, 256),
    "num_heads": (1, 2, 4, 8),
    "batch_size": (1, 2, 4, 8),
}
# The default value of each axis. One thread: otherwise the memory that a fused kernel allocates may depend on the
# number of processors, and so may an exact assertion.
USUAL: dict[str, Any] = {**DEFAULTS, "seq_len": 256, "d_model": 64, "num_heads": 4, "device": "cpu", "threads": 1}
_PRECISIONS = ("quick", "standard", "strict")


@dataclass(frozen=True)
class Asked:
    """The cases that a test needs.

    All `cases` differ only in sizes. The cost model is fitted along `axis`. People read the name `layer`.
    """

    layer: str
    axis: str
    cases: tuple[Case, ...]
    precision: Precision

    @property
    def letter(self) -> str:
        """The axis as a letter in formulas."""
        return SIZES[self.axis]

    @property
    def varied(self) -> tuple[str, ...]:
        """The sizes that take several values."""
        return tuple(name for name in SIZES if len({getattr(case, name) for case in self.cases}) > 1)

    def between(self) -> list[Case]:
        """The cases halfway between neighbours along the axis."""
        found: dict[Case, None] = {}
        for case in self.cases:
            more = [getattr(c, self.axis) for c in self.cases if getattr(c, self.axis) > getattr(case, self.axis)]
            if more:
                found[replace(case, **{self.axis: (getattr(case, self.axis) + min(more)) // 2})] = None
        return [case for case in found if case not in self.cases]

    def at(self, sizes: Mapping[str, Any]) -> Case:
        """The case at these sizes. Raises UsageError for an unknown or invalid size, or a missing one that varies."""
        unknown = sizes.keys() - SIZES.keys()
        if unknown:
            name = min(unknown)
            raise UsageError(f"at({name}=…): there is no such size{did_you_mean(name, SIZES)}")
        missing = [name for name in self.varied if name not in sizes]
        if missing:
            raise UsageError(f"at(…): say {' and '.join(f'{name}=…' for name in missing)}")
        checked = check_axes({**self.cases[0].as_dict(), **sizes, "impl": self.cases[0].impl})
        at = {name: checked[name] for name in sizes}
        if any(len(values) != 1 for values in at.values()):
            raise UsageError("at(…) takes one value of each size")
        return replace(self.cases[0], **{name: values[0] for name, values in at.items()})


def ask(
    layer: object,
    axis: str,
    over: Iterable[int] | None,
    precision: str,
    given: Mapping[str, Any],
    has_heads: Callable[[str], bool],
) -> Asked:
    """The cases that `scaling(layer, axis, over, …)` means. `has_heads(impl)` says whether an impl has heads.

    Raises UsageError if an argument is invalid.
    """
    if axis not in SIZES:
        raise UsageError(f"axis={axis!r}: a law is along {', '.join(SIZES)}{did_you_mean(str(axis), SIZES)}")
    if axis in given:
        raise UsageError(f"{axis} is the axis: its sizes are over=…")
    sizes = OVER[axis] if over is None else tuple(over)
    axes = _axes(layer, {**given, axis: sizes})
    several = [name for name, values in axes.items() if len(values) > 1 and name not in SIZES]
    if several:
        raise UsageError(f"{several[0]} takes one value here: ask once for each")
    return Asked(_people(layer), axis, tuple(sorted(grid(axes, has_heads))), precision_named(precision))


def one_case(layer: object, given: Mapping[str, Any], has_heads: Callable[[str], bool]) -> Case:
    """The single case that the arguments describe. Raises UsageError if they describe none or several."""
    axes = _axes(layer, given)
    several = [name for name, values in axes.items() if len(values) > 1]
    if several:
        raise UsageError(f"{several[0]} takes one value here")
    return next(iter(grid(axes, has_heads)))


def precision_named(name: str) -> Precision:
    """The precision of that name in `conf/precision/`. Raises UsageError for an unknown name."""
    if name not in _PRECISIONS:
        raise UsageError(f"unknown precision {name!r}{did_you_mean(str(name), _PRECISIONS)}")
    file = conf_directory() / "precision" / f"{name}.yaml"
    return Precision(**yaml.safe_load(file.read_text(encoding="utf-8")))


def _axes(layer: object, given: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    name = name_of(layer)
    unknown = [axis for axis in given if axis not in AXES or axis == "impl"]
    if unknown:
        known = [axis for axis in AXES if axis != "impl"]
        raise UsageError(f"there is no axis {unknown[0]!r}{did_you_mean(unknown[0], known)}")
    values = {axis: list(value) if isinstance(value, tuple | range) else value for axis, value in given.items()}
    usual = {**USUAL, "real_share": 0.75 if given.get("mask") == "padding" else 1.0}
    return check_axes({**usual, **values, "impl": [name]})


def _people(layer: object) -> str:
    """The layer's name in messages."""
    return layer.__qualname__ if isinstance(layer, type) else str(layer)
