"""What tests of commands share."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _parents_are_forked(forked_parents: None) -> None:
    """Those of commands that are carried out in this process; others, as ever, start their own."""
