"""The kinds of trials in the schema of rows are those that a trial's process can carry out."""

from harness.results.row import KINDS
from harness.trial.trial_kinds import HANDLERS


def test_every_kind_of_trial_has_a_handler_and_every_handler_a_kind() -> None:
    assert HANDLERS.keys() == KINDS.keys()
