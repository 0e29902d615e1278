from harness.core.stats.estimate import QUIET_PROBE, Trial, are_quiet, best_probe


def test_trials_are_quiet_up_to_a_probe_somewhat_slower_than_the_best() -> None:
    rest = [Trial(1.0, 1.0, probe_s=1.0), Trial(1.0, 1.0, probe_s=QUIET_PROBE)]
    disturbed = Trial(1.0, 1.0, probe_s=1.01 * QUIET_PROBE)
    assert best_probe([*rest, disturbed]) == 1.0
    assert are_quiet([*rest, disturbed], 1.0).tolist() == [True, True, False]


def test_without_probes_every_trial_is_quiet() -> None:
    seen = [Trial(1.0, 1.0), Trial(1.1, 1.1)]
    assert best_probe(seen) is None
    assert are_quiet(seen, None).all()
