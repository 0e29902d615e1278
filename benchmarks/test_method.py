from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from benchmarks.peers import method
from benchmarks.peers.method import OneProcess, Readings, child
from harness.core.model.sweep_axes import Case


class Peer(OneProcess):
    """Takes two seconds to start and, of the time it is given, nine tenths; the clock is a number."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def run(self, cases: Sequence[Case], share_s: float) -> Readings:
        self.now += 2.0 + 0.9 * share_s * len(cases)
        return {"median": dict.fromkeys(cases, 1.0)}


def test_a_repeat_comes_to_take_the_wall_time_asked_of_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    monkeypatch.setattr(method, "time", SimpleNamespace(monotonic=lambda: peer.now))
    peer.probe([case])
    for _ in range(8):
        began = peer.now
        peer.measure([case], wall_s=10.0)
    assert peer.now - began == pytest.approx(10.0, rel=0.02)


def test_a_wall_time_shorter_than_the_start_still_measures(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    monkeypatch.setattr(method, "time", SimpleNamespace(monotonic=lambda: peer.now))
    peer.probe([case])
    assert peer.measure([case], wall_s=1.0) == {"median": {case: 1.0}}


def test_a_child_answers_a_request_and_its_failure_is_told() -> None:
    echo = "import json, sys; print(json.load(sys.stdin)['x'])"
    assert child(["-c", echo], request={"x": 3}) == "3\n"
    with pytest.raises(RuntimeError, match="no such thing"):
        child(["-c", "raise SystemExit('no such thing')"])
