"""What tests of comparisons share."""

import math
import random
from functools import cache

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.extras.compare import interleaved
from harness.extras.compare.interleaved import Block, Side


@pytest.fixture
def planted_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `compare` time nothing: the ratio of a block is that of both sides' FLOPs, with 0.5 % of noise."""

    @cache
    def flops(executor: Executor, case: Case) -> int:
        counted = executor.run("facts", case)
        assert counted.status == "ok", counted.reason
        return int(counted.values["flops"])

    def take(a: Side, b: Side, rng: random.Random) -> Block:
        log_ratio = math.log(flops(b.executor, b.case) / flops(a.executor, a.case))
        return Block(log_ratio + rng.gauss(0.0, 0.005), "", ())

    monkeypatch.setattr(interleaved, "take_block", take)
