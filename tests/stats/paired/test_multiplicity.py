"""Benjamini and Hochberg's rule, by examples worked out by hand."""

from harness.stats.paired_verdicts import false_discovery_control


def test_a_p_is_held_against_its_rank() -> None:
    # Of five, the bars are 0.01, 0.02, 0.03, 0.04, 0.05: ranks 1 and 2 stay below theirs, no later one does.
    assert false_discovery_control([0.6, 0.012, 0.2, 0.005, 0.041], 0.05) == [False, True, False, True, False]


def test_all_up_to_the_last_below_its_bar_are_called() -> None:
    # 0.015 is above the first bar, 0.0125, and is called all the same for the second's sake.
    assert false_discovery_control([0.015, 0.02, 0.9, 0.9], 0.05) == [True, True, False, False]


def test_a_p_on_its_bar_is_called() -> None:
    assert false_discovery_control([0.05], 0.05) == [True]
    assert false_discovery_control([0.025, 0.9], 0.05) == [True, False]


def test_nothing_of_none_and_nothing_of_nothing_sure() -> None:
    assert false_discovery_control([], 0.05) == []
    assert false_discovery_control([1.0, 0.5, 0.06], 0.05) == [False, False, False]


def test_the_more_cases_the_surer_one_must_be() -> None:
    assert false_discovery_control([0.004] + [1.0] * 11, 0.05)[0]
    assert not false_discovery_control([0.004] + [1.0] * 12, 0.05)[0]
