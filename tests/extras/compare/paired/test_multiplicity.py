"""Benjamini and Hochberg's rule, by examples worked out by hand."""

from harness.extras.compare.paired_evidence import Evidence
from harness.extras.compare.paired_verdicts import _discoveries
from harness.study.check.check_rules import Verdict


def slower(p_values: list[float]) -> list[bool]:
    """Which of the cases with these p-values are called slower."""
    found = {case: Evidence(8, p, 1.0, 1.0, 1.0, 0.9, 1.1) for case, p in enumerate(p_values)}
    called = _discoveries(found, 0.05)
    assert called[Verdict.BETTER] == set()
    return [case in called[Verdict.WORSE] for case in found]


def test_a_p_is_held_against_its_rank() -> None:
    # Of five, the bars are 0.01, 0.02, 0.03, 0.04, 0.05: ranks 1 and 2 stay below theirs, no later one does.
    assert slower([0.6, 0.012, 0.2, 0.005, 0.041]) == [False, True, False, True, False]


def test_all_up_to_the_last_below_its_bar_are_called() -> None:
    # 0.015 is above the first bar, 0.0125, and is called all the same for the second's sake.
    assert slower([0.015, 0.02, 0.9, 0.9]) == [True, True, False, False]


def test_a_p_on_its_bar_is_called() -> None:
    assert slower([0.05]) == [True]
    assert slower([0.025, 0.9]) == [True, False]


def test_nothing_of_none_and_nothing_of_nothing_sure() -> None:
    assert slower([]) == []
    assert slower([1.0, 0.5, 0.06]) == [False, False, False]


def test_the_more_cases_the_surer_one_must_be() -> None:
    assert slower([0.004] + [1.0] * 11)[0]
    assert not slower([0.004] + [1.0] * 12)[0]
