"""The settings of one side of `compare`: axes, environment variables and an interpreter, as `side='…'` gives them."""

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.config import SweepConfig, compose
from harness.core.config.key_value_options import present_option
from harness.core.model.background_process import interpreter_of
from harness.core.model.errors import UsageError, unknown_key
from harness.core.model.layer_options import with_options
from harness.core.model.sweep_axes import AXES
from harness.core.run.fork_client import Runtime

from .options import IN_TURNS

_PYTHON, _VARIABLE = "python", re.compile(r"env\.([A-Za-z_]\w*)", re.ASCII)
# Variables that would have no effect, and what to type instead.
_WITHOUT_EFFECT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "the harness sets the number of threads: give threads=N"),
    **dict.fromkeys(("PYTHONPATH", "PYTHONHOME"), "give python=… for another environment"),
}


@dataclass(frozen=True)
class SideSettings:
    """One side, which the user gave as `text`.

    `axes` are the values that only this side has. `config` is the whole configuration with these values. Trials run
    in `runtime`.
    """

    text: str
    axes: Mapping[str, Any]
    config: SweepConfig
    runtime: Runtime

    @property
    def name(self) -> str:
        """The text, or `the default` for a side without settings."""
        return self.text or "the default"

    @property
    def measured(self) -> tuple[Any, ...]:
        """What is measured: the axes of the cases, and the interpreter and variables of their processes."""
        return self.config.axes, self.runtime.python or sys.executable, {**os.environ, **self.runtime.variables}


def read_sides(
    texts: Sequence[str], overrides: Sequence[str], config_dir: Path | None
) -> tuple[SideSettings, SideSettings]:
    """The settings of base and head. `overrides` are those of both sides.

    Raises UsageError for another number of sides, for invalid settings, and if the sides do not differ.
    """
    if len(texts) != 2:
        raise UsageError("compare takes two sides, the base first: side='threads=1' side='threads=8'")
    parsed = [_parsed(text.strip()) for text in texts]
    for option in overrides:
        if all(option.partition("=")[0] in axes for _, axes, _ in parsed):
            raise UsageError(f"{option} has no effect, because both sides set it: leave it out")
    base, head = (
        SideSettings(text, *_configured(text, axes, overrides, config_dir), runtime) for text, axes, runtime in parsed
    )
    if base.measured == head.measured:
        raise UsageError(f"both sides are the same, side='{base.text}' and side='{head.text}': let one setting differ")
    return base, head


def _parsed(text: str) -> tuple[str, dict[str, str], Runtime]:
    """The text of a side, its options by axis, and its runtime."""
    axes: dict[str, str] = {}
    variables: dict[str, str] = {}
    python = None
    seen = set[str]()
    try:
        options = shlex.split(text)
    except ValueError as error:
        raise UsageError(f'side="{text}": a quote is missing') from error
    for option in with_options(map(present_option, options)):
        key, equals, value = option.partition("=")
        key = _PYTHON if key == "env" else key
        if not equals:
            raise UsageError(f"side='{text}': '{option}' is not of the form key=value")
        if key in seen:
            raise UsageError(f"side='{text}': {key} is given twice")
        seen.add(key)
        if variable := _VARIABLE.fullmatch(key):
            if instead := _WITHOUT_EFFECT.get(variable[1]):
                raise UsageError(f"side='{text}': {variable[1]} has no effect, because {instead}")
            variables[variable[1]] = value
        elif key == _PYTHON:
            python = interpreter_of(value)
        elif key == "impl":
            raise UsageError(f"side='{text}': give two layers as impl=A,B, without side=, and their options beside")
        elif key in AXES:
            axes[key] = option
        else:
            keys = [*(axis for axis in AXES if axis != "impl"), _PYTHON, "env.NAME"]
            raise UsageError(f"side='{text}': {unknown_key(key, keys)}")
    return text, axes, Runtime(python, variables)


def _configured(
    text: str, axes: Mapping[str, str], overrides: Sequence[str], config_dir: Path | None
) -> tuple[dict[str, Any], SweepConfig]:
    """The values of the side's own axes, and its whole configuration."""
    shared = [option for option in overrides if option.partition("=")[0] not in axes]
    config = compose([*shared, *axes.values()], config_dir, usual=IN_TURNS)
    for axis in axes:
        if len(config.axes[axis]) != 1:
            raise UsageError(f"side='{text}': a side has one value of {axis}")
    return {axis: config.axes[axis][0] for axis in axes}, config
