"""What several rooms' tests share."""

from collections.abc import Iterator

import pytest

from harness.case import Case
from harness.sweep.runner import Runner


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    """Real trials, short ones, with 512 MiB to spend and time enough to spend it."""
    with Runner(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**29) as started:
        yield started


@pytest.fixture
def case() -> Case:
    return Case("attention.fused", seq_len=32, d_model=16, num_heads=2)
