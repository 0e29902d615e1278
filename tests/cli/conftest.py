"""What tests of commands share."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _servers_are_forked(forked_servers: None) -> None:
    """Those of commands that are carried out in this process; others, as ever, start their own."""
