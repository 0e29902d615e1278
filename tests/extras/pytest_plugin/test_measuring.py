"""One set of measurements for a whole session of tests, whatever single tests do."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import psutil
import pytest

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.extras.pytest_plugin.shared_measurements import PytestSession, precision_named

QUICK = precision_named("quick")
CASE = Case("rnn.elman", 8, 8, 1)
LAYER = """
from torch import nn


class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()

    def forward(self, x):
        return 2 * x
"""


class TooLong(Exception):
    pass


@pytest.fixture(scope="module")
def measuring() -> Iterator[PytestSession]:
    started = PytestSession()
    yield started
    started.close()


def started_by_us() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


def test_a_test_that_is_stopped_while_it_measures_harms_no_other(measuring: PytestSession) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    assert measuring.facts([CASE], QUICK)[0].status == "ok"
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.15)
    try:
        with pytest.raises(TooLong):
            measuring.times([CASE], QUICK)  # four trials of a tenth of a second each
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    other = Case("rnn.elman", 4, 8, 1)
    assert measuring.facts([other], QUICK)[0].status == "ok"


def test_what_a_test_adds_to_the_path_is_found(
    measuring: PytestSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_later.py").write_text(LAYER)
    with pytest.raises(UsageError, match="No module named 'found_later'"):
        measuring.has_heads("found_later:Layer")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert measuring.has_heads("found_later:Layer") is False


def test_nothing_is_left_when_it_is_closed() -> None:
    before = started_by_us()
    measuring = PytestSession()
    assert measuring.facts([CASE], QUICK)[0].flops == 4 * 8 * 8**2
    assert started_by_us() > before
    measuring.close()
    assert started_by_us() == before
