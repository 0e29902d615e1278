"""A record of a simulated GPU has its parameters, and a GPU made of the record has the same ones again."""

import json
from typing import Any

import pytest
from core.trial.timing.cuda.recorder import record
from core.trial.timing.cuda.records import gpu_of
from core.trial.timing.cuda.simulated_gpu import SimClock, SimGpu

PARAMETERS: dict[str, Any] = {
    "depth": 1022,
    "launch_s": 2.5e-6,
    "event_launch_s": 1.5e-6,
    "wait_s": 8e-6,
    "query_s": 0.4e-6,
    "event_s": 1.6e-6,
    "tick_s": 0.5e-6,
    "gap_s": 1.2e-6,
    "graph_gap_s": 0.8e-6,
    "graph_launch_s": 5e-6,
    "graph_node_s": 0.3e-6,
    "lazy_s": 0.5e-3,
    "jitter": 0.2,
    "l2_bytes": 50 * 2**20,
    "bytes_per_s": 3.3e12,
    "evicted": 0.5,
}
# A tick is as coarse as half a microsecond.
TOLERANCE = {
    "event_s": 0.3,
    "graph_launch_s": 0.25,
    "graph_node_s": 0.1,
    "jitter": 0.15,
    "evicted": 0.15,
    "depth": 0.005,
    "bytes_per_s": 0.1,
}


def recorded(gpu: SimGpu) -> dict[str, Any]:
    def rest(seconds: float) -> None:
        gpu.now += seconds

    with pytest.MonkeyPatch.context() as patch:
        return json.loads(json.dumps(record(gpu.device(patch), gpu.time, rest)))


@pytest.fixture(scope="module")
def first() -> dict[str, Any]:
    return recorded(SimGpu(**PARAMETERS, clock=SimClock(1.98e9, 1.55e9, 60e-3)))


def test_a_record_has_the_parameters_of_its_gpu(first: dict[str, Any]) -> None:
    for name, value in PARAMETERS.items():
        assert first[name] == pytest.approx(value, rel=TOLERANCE.get(name, 0.05)), name
    assert first["boost_hz"] == pytest.approx(1.98e9, rel=0.01)
    assert first["sustained_hz"] == pytest.approx(1.55e9, rel=0.03)
    assert first["tau_s"] == pytest.approx(60e-3, rel=0.35)


def test_a_gpu_that_is_slow_at_rest_is_recorded_with_its_highest_rate() -> None:
    clock = SimClock(boost_hz=1.98e9, sustained_hz=1.9e9, tau_s=30e-3, rest_hz=0.6e9)
    found = recorded(SimGpu(**PARAMETERS, clock=clock))
    assert found["boost_hz"] == pytest.approx(1.9e9, rel=0.02)
    assert found["sustained_hz"] == pytest.approx(1.9e9, rel=0.02)


def test_it_takes_less_than_a_minute(first: dict[str, Any]) -> None:
    assert first["took_s"] < 60


def test_a_hold_is_never_shorter_than_asked(first: dict[str, Any]) -> None:
    assert all(1.0 <= ratio < 1.4 for ratio in first["hold_over_asked"].values())


def test_a_gpu_made_of_a_record_is_recorded_as_the_same(first: dict[str, Any]) -> None:
    again = recorded(gpu_of(first))
    for name in PARAMETERS:
        assert again[name] == pytest.approx(first[name], rel=TOLERANCE.get(name, 0.05)), name
    assert again["boost_hz"] == pytest.approx(first["boost_hz"], rel=0.01)
    assert again["tau_s"] == pytest.approx(first["tau_s"], rel=0.35)
