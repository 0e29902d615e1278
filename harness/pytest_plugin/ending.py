"""How a test ends that asks for what there is not: at its own line, with one sentence."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from harness.errors import UsageError
from harness.summary import Line

_Given = TypeVar("_Given")


def or_fail(take: Callable[[], _Given]) -> _Given:
    """What it gives; what the test has got wrong, a UsageError, fails it."""
    __tracebackhide__ = True
    try:
        return take()
    except UsageError as error:
        message = str(error)
    return pytest.fail(message)


def fine(layer: str, lines: Sequence[Line]) -> Sequence[Line]:
    """The lines, if all are fine: a layer that goes wrong fails the test, one that there cannot be so skips it."""
    __tracebackhide__ = True
    for line in sorted(lines, key=lambda line: line.status == "unsupported"):
        where = f"{layer} at seq_len={line.seq_len} d_model={line.d_model} num_heads={line.num_heads}"
        if line.status == "unsupported":
            pytest.skip(f"{where}: {line.reason}")
        if line.status != "ok":
            pytest.fail(f"{where}: {line.status}: {line.reason}")
    return lines
