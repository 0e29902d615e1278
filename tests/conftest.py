"""Fixtures that tests of several packages share."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from forked_parents import Origin

from harness.case import Case
from harness.measure import fork_client
from harness.measure.executor import Executor

# A shell starts a background job with SIGINT ignored, and child processes inherit that. This process ignores SIGINT by
# a handler instead. Child processes do not inherit a handler, so tests can interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, lambda number, frame: None)


@pytest.fixture(scope="session")
def runner() -> Iterator[Executor]:
    """A runner of real, short trials, with a memory limit of 512 MiB and enough time to reach it."""
    with Executor(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**29) as started:
        yield started


@pytest.fixture(scope="session")
def origin() -> Iterator[Origin]:
    made = Origin()
    yield made
    made.close()


@pytest.fixture(scope="module")
def forked_parents(origin: Origin) -> Iterator[None]:
    """Fork the fork servers of this process from `origin` instead of starting them. For tests of their use."""
    stand_in = SimpleNamespace(**vars(subprocess) | {"Popen": origin.begin})
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(fork_client, "subprocess", stand_in)
        yield


@pytest.fixture
def case() -> Case:
    return Case("attention.fused", seq_len=32, d_model=16, num_heads=2)
