"""What all that a gate found amounts to."""

import pytest

from harness.study.check.check_rules import Outcome, Verdict, counted_outcomes, exit_status, ordered_outcomes

WORDS = {verdict.outcome: verdict for verdict in Verdict}


def outcomes(*verdicts: str) -> list[Outcome]:
    return [Outcome("rnn.elman n=8", "flops", WORDS[verdict], "1", "2", "") for verdict in verdicts]


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        (["passed", "improved", "undecided"], 0),
        (["passed", "regression"], 1),
        (["unmeasured", "regression"], 1),
        (["passed", "unmeasured"], 3),
        ([], 3),
    ],
)
def test_worse_outranks_unmeasured_and_nothing_judged_is_no_pass(verdicts: list[str], status: int) -> None:
    assert exit_status(outcomes(*verdicts)) == status


def test_the_worst_is_told_first() -> None:
    assert [one.verdict for one in ordered_outcomes(outcomes(*reversed(WORDS)))] == list(Verdict)
    assert list(WORDS) == ["regression", "unmeasured", "undecided", "improved", "passed"]


def test_all_are_counted() -> None:
    assert counted_outcomes(outcomes("passed", "regression", "passed", "regression")) == "2 regressions, 2 passed"
    assert counted_outcomes([]) == "nothing was judged"


def test_the_layer_is_the_first_word_of_the_subject() -> None:
    assert outcomes("passed")[0].impl == "rnn.elman"
