"""How long compiling took, by the compiler's own word."""

import pytest

from harness.core.trial import compilation
from harness.core.trial.compilation import Stopwatch


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [0.0]
    monkeypatch.setattr(compilation, "perf_counter", lambda: time[0])
    return time


def test_all_times_of_compiling_are_summed_up_and_what_is_between_is_not(now: list[float]) -> None:
    watch = Stopwatch()
    for begin, end in ((1.0, 3.0), (10.0, 10.5)):
        now[0] = begin
        watch.start("whatever it says beside")
        now[0] = end
        watch.stop("whatever it says beside")
    assert watch.seconds == 2.5


def test_compiling_within_compiling_counts_once(now: list[float]) -> None:
    watch = Stopwatch()
    for moment, act in ((1.0, watch.start), (2.0, watch.start), (3.0, watch.stop), (5.0, watch.stop)):
        now[0] = moment
        act()
    assert watch.seconds == 4.0
