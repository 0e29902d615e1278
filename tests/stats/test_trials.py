from harness.stats.estimate import QUIET_PULSE, Trial, any_quiet, best_pulse


def test_a_trial_gives_its_fastest_sample() -> None:
    assert Trial([3.0, 1.0, 2.0]).value_s == 1.0


def test_trials_are_quiet_up_to_a_pulse_somewhat_slower_than_the_best() -> None:
    rest = [Trial([1.0], probe_s=1.0), Trial([1.0], probe_s=QUIET_PULSE)]
    disturbed = Trial([1.0], probe_s=1.01 * QUIET_PULSE)
    assert best_pulse([*rest, disturbed]) == 1.0
    assert any_quiet([*rest, disturbed], 1.0) == rest


def test_without_pulses_every_trial_is_quiet() -> None:
    seen = [Trial([1.0]), Trial([1.1])]
    assert best_pulse(seen) is None
    assert any_quiet(seen, None) == seen
