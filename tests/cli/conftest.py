"""What tests of commands share."""

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from forked_parents import Origin

from harness.sweep import warm_parent


@pytest.fixture(scope="session")
def origin() -> Iterator[Origin]:
    made = Origin()
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def forked_parents(origin: Origin) -> Iterator[None]:
    """Commands that are carried out in this process fork their warm parents; others, as ever, do not."""
    stand_in = SimpleNamespace(**vars(subprocess) | {"Popen": origin.begin})
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(warm_parent, "subprocess", stand_in)
        yield
