"""What was recorded beside the timed trials, as one number each."""

import pytest
from rows import PRECISION, row

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.summarise import summarise

CASE = Case("attention.naive", 512, 256, 8)


def timed(number: int, time_s: float, faults: float, probe_s: float = 1e-4, **others: object) -> dict:
    """A trial of 10 samples of 2 calls each."""
    return row(
        CASE,
        "time",
        number,
        samples_s=[time_s] * 10,
        calls_per_sample=2,
        wall_s=40 * time_s,
        sampling_s=20 * time_s,
        cpu_s=40 * time_s,
        minor_faults=20 * faults,
        involuntary_switches=4,
        steal_ticks=number,
        machine_ticks=20,
        compile_s=0.0,
        probe_s=probe_s,
        **others,
    )


def line_of(*rows: dict) -> CaseResult:
    (line,) = summarise(rows, PRECISION)
    return line


def test_faults_are_counted_per_call_and_cpu_time_per_wall_time() -> None:
    counted = line_of(timed(1, 0.001, 100.0), timed(2, 0.001, 300.0), timed(3, 0.001, 101.0))
    assert counted.minor_faults_per_call == 101.0
    assert counted.cpu_over_wall == pytest.approx(2.0)
    assert counted.involuntary_switches == 4.0
    assert counted.steal_share == pytest.approx(6 / 60)
    assert counted.compile_s == 0.0


def test_what_was_not_recorded_is_none() -> None:
    counted = line_of(row(CASE, "time", 1, samples_s=[1.0], probe_s=None))
    assert counted.minor_faults_per_call is None
    assert counted.sm_clock_mhz is None
    assert counted.host_bound is None
    assert counted.steal_share is None


def test_most_trials_say_whether_the_host_is_the_bound() -> None:
    trials = [timed(i, 0.001, 0.0, host_bound=i < 3, wall_call_s=0.002, sm_clock_mhz=1980) for i in range(4)]
    counted = line_of(*trials)
    assert (counted.host_bound, counted.wall_call_s, counted.sm_clock_mhz) == (True, 0.002, 1980)


def test_a_layer_with_two_times_has_two_humps_in_its_line_and_what_goes_with_them() -> None:
    rows = [timed(i, *(0.0046, 12.0) if i % 2 else (0.0082, 4100.0)) for i in range(4)]
    line = line_of(*rows)
    assert line.bimodal
    assert line.bimodal_cause == "slow trials paid 4,100 page faults a call, fast ones 12"


def test_a_machine_with_two_speeds_gives_no_layer_two_humps() -> None:
    rows = [timed(i, *(0.0046, 12.0, 1.0e-4) if i % 2 else (0.0064, 12.0, 1.4e-4)) for i in range(8)]
    assert line_of(*rows).bimodal is False


def test_a_counter_that_some_trials_lack_is_that_of_the_others() -> None:
    trials = [timed(i, 0.001, 10.0 * i, sm_clock_mhz=mhz) for i, mhz in enumerate([None, 1500, 1400, None, 1980])]
    trials.append(row(CASE, "time", 5, samples_s=[0.001], probe_s=1e-4))
    counted = line_of(*trials)
    assert counted.sm_clock_mhz == 1500
    assert counted.minor_faults_per_call == 20.0
    assert counted.steal_share == pytest.approx(10 / 100)


def test_two_trials_are_no_humps_nor_one() -> None:
    line = line_of(timed(1, 0.001, 0.0), timed(2, 0.002, 9000.0))
    assert (line.bimodal, line.bimodal_slow_s, line.bimodal_cause) == (None, None, None)
