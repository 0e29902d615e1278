"""The same trials on a GPU."""

import pytest
import torch

from harness.case import Case
from harness.sweep.runner import Runner
from impls.registry import IMPLS

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]


@pytest.mark.parametrize("impl", IMPLS)
def test_a_layer_is_verified_weighed_and_timed_on_the_gpu(impl: str) -> None:
    case = Case(impl, 128, 64, 2, dtype="bfloat16", device="cuda")
    with Runner(seed=0, trial_s=0.01, timeout_s=120, memory_limit=None) as runner:
        for purpose in ("verify", "facts", "time"):
            outcome = runner.run(purpose, case)
            assert outcome["status"] == "ok", outcome["reason"]
    assert outcome["pulse_s"] is None


def test_memory_beyond_the_gpus_is_out_of_memory() -> None:
    with Runner(seed=0, trial_s=0.01, timeout_s=120, memory_limit=None) as runner:
        outcome = runner.run("facts", Case("attention.packed", 10**6, 64, 2, device="cuda"))
    assert outcome["status"] == "oom"
