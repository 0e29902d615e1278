"""What several rooms' tests share."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from forked_parents import Origin

from harness.case import Case
from harness.sweep import warm_parent
from harness.sweep.runner import Runner

# A shell starts a background job with SIGINT ignored, and its child processes inherit that. This process goes on
# ignoring SIGINT by a handler, which child processes do not inherit: tests can interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda number, frame: None)


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    """Real trials, short ones, with 512 MiB to spend and time enough to spend it."""
    with Runner(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**29) as started:
        yield started


@pytest.fixture(scope="session")
def origin() -> Iterator[Origin]:
    made = Origin()
    yield made
    made.close()


@pytest.fixture(scope="module")
def forked_parents(origin: Origin) -> Iterator[None]:
    """Warm parents that this process starts are forked meanwhile: for tests of what is done with them."""
    stand_in = SimpleNamespace(**vars(subprocess) | {"Popen": origin.begin})
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(warm_parent, "subprocess", stand_in)
        yield


@pytest.fixture
def case() -> Case:
    return Case("attention.fused", seq_len=32, d_model=16, num_heads=2)
