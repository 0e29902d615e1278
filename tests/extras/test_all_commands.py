"""The help that names the commands and options of all extras."""

import pytest
from screens.text_file import options_of_any_python
from syrupy import SnapshotAssertion

from tests.screens.test_commands import Screen, screen

__all__ = ["screen"]  # a fixture


@pytest.mark.parametrize("command", ["", "baseline"])
def test_the_help_has_what_extras_add(command: str, screen: Screen, snapshot: SnapshotAssertion) -> None:
    assert options_of_any_python(screen(f"{command} --help")) == snapshot
