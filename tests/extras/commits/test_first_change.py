"""The commit at which a fact changed, found by binary search among values that the test chooses."""

import math

import pytest

from harness.extras.commits.change_position import FirstChange, first_change


def searched(values: list[int | None]) -> tuple[FirstChange | None, int]:
    """The result, and the number of commits that were measured."""
    asked: list[int] = []

    def fact_at(commit: int) -> int | None:
        asked.append(commit)
        return values[commit]

    found = first_change(len(values) - 1, fact_at)
    assert len(asked) == len(set(asked))
    return found, len(asked)


@pytest.mark.parametrize("at", range(1, 65))
def test_a_change_is_found_in_as_many_trials_as_the_logarithm_says(at: int) -> None:
    found, trials = searched([100] * at + [300] * (65 - at))
    assert found == FirstChange(at, at, 100, 300, returns=False)
    assert trials <= 2 + math.log2(64)


def test_the_same_fact_at_both_ends_is_no_change() -> None:
    assert searched([100, 300, 100]) == (None, 2)


def test_commits_that_cannot_be_measured_share_the_answer_with_the_next_one() -> None:
    found, _ = searched([100, 100, None, None, 300, 300, 300, 300])
    assert found == FirstChange(2, 4, 100, 300, returns=False)


def test_a_broken_commit_elsewhere_does_not_widen_the_answer() -> None:
    found, _ = searched([100, 100, 100, 300, None, 300, 300, 300])
    assert found == FirstChange(3, 3, 100, 300, returns=False)


def test_a_fact_that_changes_again_later_is_said_to() -> None:
    found, _ = searched([100, 200, 200, 200, 300])
    assert found == FirstChange(1, 1, 100, 200, returns=True)
