"""What the tests of problem files share."""

import pytest

from harness.extras.problems import overrides


@pytest.fixture(autouse=True)
def _without_a_look(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No problem is looked at before it is measured, which takes a process, but for the tests of that look."""
    if "look" not in request.fixturenames:
        monkeypatch.setattr(overrides, "_look", lambda *arguments: None)


@pytest.fixture
def look() -> None:
    """Problems are looked at, as in a command."""
