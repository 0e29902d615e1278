"""Sampling, on a clock that the test turns."""

import pytest

from harness.core.trial.environment import Usage
from harness.core.trial.timing import sampler
from harness.core.trial.timing.sampler import MIN_SAMPLE_S, MIN_SAMPLES, take_samples


class FakeTime:
    """A clock, and a call that takes the given seconds on it, the last ones for ever."""

    def __init__(self, *durations: float, reading: float = 0.0) -> None:
        self.now, self.durations, self.reading, self.calls = 0.0, list(durations), reading, 0

    def clock(self) -> float:
        self.now += self.reading
        return self.now

    def call(self) -> None:
        self.now += self.durations[min(self.calls, len(self.durations) - 1)]
        self.calls += 1


def nothing() -> None:
    pass


def test_a_sample_spans_so_many_calls_that_it_is_long_and_is_given_per_call() -> None:
    time = FakeTime(1e-5)
    result = take_samples(time.call, nothing, 0.01, time.clock)
    assert result.calls_per_sample == pytest.approx(MIN_SAMPLE_S / 1e-5, abs=1)
    assert result.samples_s == pytest.approx([1e-5] * len(result.samples_s))
    assert result.sampling_s >= 0.01


def test_the_clocks_own_cost_stays_under_one_per_cent_of_a_sample_even_of_a_slow_clock() -> None:
    time = FakeTime(1e-5, reading=1e-4)
    result = take_samples(time.call, nothing, 0.1, time.clock)
    assert result.clock_s == pytest.approx(1e-4)
    assert result.samples_s[0] == pytest.approx(1e-5, rel=0.011)


def test_a_long_call_is_sampled_a_few_times_whatever_the_budget() -> None:
    time = FakeTime(2.0)
    result = take_samples(time.call, nothing, 0.1, time.clock)
    assert result.samples_s == pytest.approx([2.0] * MIN_SAMPLES)
    assert time.calls == 1 + MIN_SAMPLES


def test_an_earlier_call_as_long_as_a_warm_up_was_one() -> None:
    time = FakeTime(0.5)
    result = take_samples(time.call, nothing, 0.1, time.clock, called_s=0.8)
    assert result.samples_s == pytest.approx([0.5] * MIN_SAMPLES)
    assert (result.warmup_s, time.calls) == (0.0, MIN_SAMPLES)


def test_an_earlier_call_that_took_longer_for_another_reason_does_not_replace_the_warm_up() -> None:
    time = FakeTime(1.5e-5, 1.2e-5, 1e-5)
    result = take_samples(time.call, nothing, 0.01, time.clock, called_s=20.0)
    assert result.samples_s == pytest.approx([1e-5] * len(result.samples_s))
    assert result.calls_per_sample == pytest.approx(MIN_SAMPLE_S / 1e-5, abs=1)
    assert time.calls - len(result.samples_s) * result.calls_per_sample > sampler.STEADY_CALLS


def test_warm_up_goes_on_until_calls_no_longer_get_faster() -> None:
    time = FakeTime(8e-4, 4e-4, 2e-4, 1e-4, 1e-4, 1e-4, 1e-4)
    result = take_samples(time.call, nothing, 1.0, time.clock)
    assert time.calls - len(result.samples_s) * result.calls_per_sample == 7
    assert max(result.samples_s) == pytest.approx(1e-4)


@pytest.mark.parametrize(("budget_s", "most_s"), [(0.3, 0.03), (0.01, sampler.LEAST_WARMUP_S)])
def test_warm_up_ends_with_its_share_of_the_budget_or_the_least_warm_up(budget_s: float, most_s: float) -> None:
    time = FakeTime(*(max(1e-5, 1e-2 * 0.9**i) for i in range(100)))
    result = take_samples(time.call, nothing, budget_s, time.clock)
    assert most_s <= result.warmup_s <= most_s + 1e-2


def test_waiting_for_the_work_is_inside_the_sample() -> None:
    time = FakeTime(0.25)

    def sync() -> None:
        time.now += 0.25

    assert take_samples(time.call, sync, 0.1, time.clock).samples_s == pytest.approx([0.5] * MIN_SAMPLES)


def test_a_first_call_that_used_up_the_warm_up_does_not_set_the_length_of_samples() -> None:
    time = FakeTime(20.0, 1e-5)
    result = take_samples(time.call, nothing, 0.01, time.clock)
    assert result.calls_per_sample == pytest.approx(MIN_SAMPLE_S / 1e-5, abs=1)
    assert result.samples_s == pytest.approx([1e-5] * len(result.samples_s))
    assert result.sampling_s < 0.02


def test_what_happens_during_warm_up_is_not_counted_with_the_samples() -> None:
    time = FakeTime(20.0, 0.25)

    def count() -> Usage:
        return Usage(time.calls, 0, 0, time.now)

    result = take_samples(time.call, nothing, 1.0, time.clock, count)
    calls = len(result.samples_s) * result.calls_per_sample
    assert result.during["minor_faults"] == calls
    assert result.during["cpu_s"] == pytest.approx(result.sampling_s)


def test_reading_the_counters_makes_no_short_trial_use_more_than_one_cpu() -> None:
    time = FakeTime(1e-5)

    def count() -> Usage:
        counted = Usage(0, 0, 0, time.now)
        time.now += 3e-4  # the machine's counters are read after the process's own
        return counted

    result = take_samples(time.call, nothing, 1e-3, time.clock, count)
    assert result.during["cpu_s"] == pytest.approx(result.sampling_s)


@pytest.mark.parametrize("singly", [False, True])
def test_the_input_is_renewed_before_each_sample_and_not_on_the_clock(singly: bool) -> None:
    time, renewals = FakeTime(1e-5), 0

    def renew() -> None:
        nonlocal renewals
        renewals += 1
        time.now += 1e-3

    result = take_samples(time.call, nothing, 0.05, time.clock, renew=renew, singly=singly)
    assert renewals == len(result.samples_s)
    assert result.samples_s == pytest.approx([1e-5] * renewals)
    assert (result.calls_per_sample == 1) == singly
