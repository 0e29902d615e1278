"""The kinds of trials in the schema of rows are those that a process can carry out, and failures have short reasons."""

import inspect

from harness.core.results.row import KINDS
from harness.core.trial.trial_kinds import handler_of, outcome_of_exception


def test_every_kind_of_trial_has_a_handler_that_takes_its_entries_of_the_request() -> None:
    for purpose in KINDS:
        function, names = handler_of(purpose)
        inspect.signature(function).bind(*names)


def test_a_long_message_shows_that_it_was_cut() -> None:
    assert outcome_of_exception(ValueError("long " * 60))["reason"] == f"ValueError: {'long ' * 59}long"
    assert outcome_of_exception(ValueError("long " * 99))["reason"] == f"ValueError: {'long ' * 59}long…"
