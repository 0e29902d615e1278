"""What the sampler relies on, of the simulated GPU and, marked `cuda`, of the real one.

If a real GPU breaks one of these statements, the simulation is wrong, and so is what was found with it.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, pstdev
from typing import Any

import pytest
from trial.timing.cuda.recorder import record
from trial.timing.cuda.simulated_gpu import SimClock, SimGpu
from trial.timing.cuda.test_sample import USUAL

from harness.trial.timing import cuda_device
from harness.trial.timing.cuda_device import TorchDevice
from harness.trial.timing.cuda_sampling import Sampling


@dataclass
class Bench:
    """A device, the clock of its host, a way to let both rest, and its record."""

    device: TorchDevice
    clock: Callable[[], float]
    rest: Callable[[float], None]
    record: dict[str, Any]

    @property
    def sampling(self) -> Sampling:
        made = Sampling(lambda: None, self.device, self.clock)
        made.clock_s, made.spin_s = self.record["event_s"], self.record["event_s"]
        return made

    def elapsed_s(self, *calls: Callable[[], Any]) -> list[float]:
        """The seconds between events around each call, while the queue is held."""
        self.device.hold(2e-3)
        marks = [self.device.mark()]
        for call in calls:
            call()
            marks.append(self.device.mark())
        self.device.sync()
        return [before.elapsed_time(after) / 1e3 for before, after in pairwise(marks)]


@pytest.fixture(
    scope="module",
    params=[
        "simulation",
        pytest.param(
            "gpu",
            marks=[
                pytest.mark.cuda,
                pytest.mark.skipif(not cuda_device.torch.cuda.is_available(), reason="torch sees no CUDA device here"),
            ],
        ),
    ],
)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "gpu":
            device, clock, rest = TorchDevice(), time.perf_counter, time.sleep
        else:
            gpu = SimGpu(**{**USUAL, "event_make_s": 0.0}, clock=SimClock(1.98e9, 1.6e9, 50e-3), l2_bytes=50 * 2**20)
            device, clock = gpu.device(patch), gpu.time
            rest = lambda seconds: setattr(gpu, "now", gpu.now + seconds)  # noqa: E731
        yield Bench(device, clock, rest, record(device, clock, rest))


@pytest.mark.parametrize("asked_s", [0.2e-3, 1e-3, 5e-3])
def test_a_hold_lasts_at_least_as_long_as_asked_and_not_twice_as_long(bench: Bench, asked_s: float) -> None:
    start = bench.device.mark()
    bench.device.hold(asked_s)
    end = bench.device.mark()
    bench.device.sync()
    assert 0.98 * asked_s <= start.elapsed_time(end) / 1e3 < 2 * asked_s


def test_an_event_behind_a_hold_is_not_reached_before_its_end_and_then_it_is(bench: Bench) -> None:
    bench.device.hold(5e-3)
    event = bench.device.mark()
    assert not event.query()
    bench.device.sync()
    assert event.query()


def test_an_event_before_a_hold_is_reached_during_it(bench: Bench) -> None:
    event = bench.device.mark()
    bench.device.hold(20e-3)
    began = bench.clock()
    while not event.query() and bench.clock() - began < 15e-3:
        pass
    assert event.query()
    bench.device.sync()


def test_the_host_goes_on_during_a_hold(bench: Bench) -> None:
    began = bench.clock()
    bench.device.hold(20e-3)
    bench.device.tick()
    assert bench.clock() - began < 5e-3
    bench.device.sync()
    assert bench.clock() - began >= 0.98 * 20e-3


def test_no_time_between_events_is_negative(bench: Bench) -> None:
    assert min(bench.elapsed_s(*[bench.device.tick] * 50)) >= 0


def test_times_between_events_add_up(bench: Bench) -> None:
    bench.device.hold(2e-3)
    marks = [bench.device.mark()]
    for _ in range(3):
        bench.device.spin(200_000)
        marks.append(bench.device.mark())
    bench.device.sync()
    parts = sum(before.elapsed_time(after) for before, after in pairwise(marks))
    assert parts == pytest.approx(marks[0].elapsed_time(marks[-1]), abs=4e-3)


def test_an_empty_pair_of_events_takes_less_than_five_microseconds(bench: Bench) -> None:
    assert 0 < bench.record["event_s"] < 5e-6


def test_events_resolve_two_microseconds(bench: Bench) -> None:
    assert 0 <= bench.record["tick_s"] < 2e-6


def test_the_queue_has_room_for_some_hundred_to_some_thousand_launches(bench: Bench) -> None:
    assert 500 <= bench.record["depth"] <= 5000


def test_a_launch_takes_the_host_one_to_thirty_microseconds(bench: Bench) -> None:
    assert 0.5e-6 < bench.record["launch_s"] < 30e-6


def test_asking_whether_an_event_was_reached_is_cheaper_than_a_wait(bench: Bench) -> None:
    assert bench.record["query_s"] < bench.record["wait_s"] < 200e-6


def test_work_of_twice_the_cycles_takes_twice_as_long(bench: Bench) -> None:
    pairs = [bench.elapsed_s(lambda: bench.device.spin(400_000), lambda: bench.device.spin(800_000)) for _ in range(9)]
    assert median(long / short for short, long in pairs) == pytest.approx(2.0, rel=0.03)


def test_the_same_work_takes_the_same_time_again(bench: Bench) -> None:
    times = [bench.elapsed_s(lambda: bench.device.spin(400_000))[0] for _ in range(20)]
    assert pstdev(times) / median(times) < 0.02


def test_a_flush_evicts_what_was_in_the_cache_and_a_part_of_it_does_not(bench: Bench) -> None:
    evicted = {float(share): of[1] for share, of in bench.record["eviction"].items()}
    assert evicted[2.0] == pytest.approx(1.0)
    assert evicted[0.125] < 0.5
    warm_s, cold_s = bench.record["eviction"]["0.0"][0], bench.record["eviction"]["2.0"][0]
    assert cold_s > 1.2 * warm_s


def test_the_flush_of_the_device_is_as_good_as_a_larger_one(bench: Bench) -> None:
    torch = cuda_device.torch
    array = torch.zeros(bench.record["l2_bytes"] // 2 // 4, device="cuda")
    out = torch.zeros((), device="cuda")

    def read() -> None:
        torch.sum(array, dim=0, out=out)

    def cold_s(flushes: int) -> float:
        flush = [lambda: bench.device.flush_l2(clean=True)] * flushes
        return median(bench.elapsed_s(read, *flush, read)[-1] for _ in range(9))

    read()
    assert cold_s(1) == pytest.approx(cold_s(2), rel=0.05)


def test_the_clock_rate_is_no_higher_under_load_than_at_rest(bench: Bench) -> None:
    assert bench.record["sustained_hz"] <= 1.02 * bench.record["boost_hz"]
    assert 0.5e9 < bench.record["sustained_hz"] < 3.2e9
    curve = [hz for _, hz in bench.record["clock_curve"]]
    assert median(curve[-20:]) == pytest.approx(bench.record["sustained_hz"], rel=0.05)


def test_a_graph_is_one_launch_and_its_kernels_follow_each_other_no_later_than_launched_ones(bench: Bench) -> None:
    def chain() -> None:
        for _ in range(200):
            bench.device.spin(2_000)

    replay = bench.device.capture(chain)
    replay()
    bench.device.sync()
    began = bench.clock()
    replay()
    assert bench.clock() - began < 200 * bench.record["launch_s"]
    bench.device.sync()
    launched_s, replayed_s = (median(bench.elapsed_s(call)[0] for _ in range(9)) for call in (chain, replay))
    assert replayed_s < 1.1 * launched_s + bench.record["graph_launch_s"]


def test_a_call_that_waits_cannot_be_captured_and_leaves_the_device_usable(bench: Bench) -> None:
    with pytest.raises(RuntimeError):
        bench.device.capture(bench.device.sync)
    bench.device.sync()
    assert bench.elapsed_s(bench.device.tick)[0] > 0


def test_a_record_takes_less_than_a_minute(bench: Bench) -> None:
    assert bench.record["took_s"] < 60
