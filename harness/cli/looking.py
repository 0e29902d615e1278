"""What the commands that look inside a layer share: their numbers, where their pictures go, and one layer's heads."""

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

# A command waits for no layer longer than this.
TIMEOUT_S = 60.0
_PLOTS = "plots"


def number(given: Mapping[str, str], name: str, default: int, most: int, least: int = 1) -> int:
    """The whole number of a key. Raises UsageError where it is none, or out of bounds."""
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text[:20]) <= most):
        raise UsageError(f"{name}={text}: it takes a whole number from {least} to {most}")
    return int(text)


def place(out: str | None, own: str) -> Path:
    """The directory of `out`, a new one in results/ if it is None; nothing is made yet.

    Raises UsageError unless it is new, empty, a run, or holds `own`, the table that the command wrote there before.
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
    """The directory's pictures, in a directory that is made now."""
    (directory / _PLOTS).mkdir(parents=True, exist_ok=True)
    return directory / _PLOTS


def runner() -> Runner:
    """Where layers are looked at: in processes of their own, so that this one needs no torch."""
    return Runner(seed=0, trial_s=1.0, timeout_s=TIMEOUT_S, memory_limit=None)


def with_heads(case: Case, started: Runner) -> Case:
    """The case, of one head where the layer has none. Raises UsageError where its sizes cannot be."""
    has_heads = describe_impl(case.impl, started).has_heads
    reason = unsupported_reason(case, has_heads)
    if reason:
        raise UsageError(reason)
    return case if has_heads else Case(**{**case.as_dict(), "num_heads": 1})


def weights_said(own: bool, seeds: str) -> str:
    """Whose weights a layer was looked at with: random ones say nothing of what a layer learns."""
    return "own weights" if own else f"untrained, {seeds}"
