"""Helpers of the commands that look inside a layer: their numbers, their output directory, and a layer's heads."""

import time
from collections.abc import Mapping
from pathlib import Path

from harness.case import Case
from harness.catalog import unsupported_reason
from harness.cli.sweep_out import RESULTS
from harness.errors import UsageError
from harness.store.directory import check_run
from harness.sweep.configured import describe_impl
from harness.sweep.runner import Runner

# The longest time that a command waits for a layer.
TIMEOUT_S = 60.0
_PLOTS = "plots"


def number(given: Mapping[str, str], name: str, default: int, most: int, least: int = 1) -> int:
    """The whole number given for a key, or its default. Raises UsageError if it is invalid or out of bounds."""
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text[:20]) <= most):
        raise UsageError(f"{name}={text}: it takes a whole number from {least} to {most}")
    return int(text)


def place(out: str | None, own: str) -> Path:
    """The directory `out`, or a new one in `results/` if `out` is None. Does not create the directory.

    Raises UsageError unless the directory is new, empty, a run, or contains `own`. That is the table that the command
    wrote there before.
    """
    if out is None:
        return RESULTS / time.strftime("%Y-%m-%d_%H-%M-%S")
    if not out:
        raise UsageError("out= names no directory")
    directory = Path(out)
    try:
        if directory.exists() and not directory.is_dir():
            raise UsageError(f"out={out} is a file: name a directory")
        if directory.is_dir() and any(directory.iterdir()) and not (directory / own).is_file():
            check_run(directory)
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror}") from error
    return directory


def plots(directory: Path) -> Path:
    """The directory for pictures in `directory`, created if missing."""
    (directory / _PLOTS).mkdir(parents=True, exist_ok=True)
    return directory / _PLOTS


def runner() -> Runner:
    """A runner that examines layers in separate processes, so that this process needs no torch."""
    return Runner(seed=0, trial_s=1.0, timeout_s=TIMEOUT_S, memory_limit=None)


def with_heads(case: Case, started: Runner) -> Case:
    """The case, with one head if the layer has none. Raises UsageError if its sizes are impossible."""
    has_heads = describe_impl(case.impl, started).has_heads
    reason = unsupported_reason(case, has_heads)
    if reason:
        raise UsageError(reason)
    return case if has_heads else Case(**{**case.as_dict(), "num_heads": 1})


def weights_said(own: bool, seeds: str) -> str:
    """Whose weights the layer had, in words. Random weights do not show what a layer learns."""
    return "own weights" if own else f"untrained, {seeds}"
