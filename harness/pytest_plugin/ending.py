"""End a test that cannot continue: at its own line, with one sentence."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from harness.errors import UsageError
from harness.summary import Line

_Given = TypeVar("_Given")


def or_fail(take: Callable[[], _Given]) -> _Given:
    """Return what `take` returns. A UsageError is a mistake in the test and fails it."""
    __tracebackhide__ = True
    try:
        return take()
    except UsageError as error:
        message = str(error)
    return pytest.fail(message)


def fine(layer: str, lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines if all are `ok`.

    A layer with any other status fails the test, but an unsupported case only skips it.
    """
    __tracebackhide__ = True
    for line in sorted(lines, key=lambda line: line.status == "unsupported"):
        where = f"{layer} at seq_len={line.seq_len} d_model={line.d_model} num_heads={line.num_heads}"
        if line.status == "unsupported":
            pytest.skip(f"{where}: {line.reason}")
        if line.status != "ok":
            pytest.fail(f"{where}: {line.status}: {line.reason}")
    return lines
