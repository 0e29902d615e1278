"""What is called past torch's dispatcher is unknown, and not too small."""

from collections.abc import Iterator

import pytest
import torch

from harness.case import Case
from harness.trial.facts.facts import take_facts

CASE = Case("attention.packed", 16, 8, 2)


@pytest.fixture(autouse=True)
def _gradients_as_before() -> Iterator[None]:
    yield
    torch.set_grad_enabled(True)


def test_where_a_triton_kernel_ran_and_no_operator_stands_for_it_work_and_traffic_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.trial.facts.facts.triton_kernels", lambda: 1)
    facts = take_facts(CASE, seed=0)
    assert [facts[name] for name in ("flops", "flops_full", "ops", "depth", "min_bytes")] == [None] * 5
    assert facts["peak_bytes"] > 0
    assert facts["facts_unknown"] == [
        "flops, ops, depth, min_bytes: a Triton kernel is called past torch's dispatcher, and not seen"
    ]


def test_without_one_they_are_known() -> None:
    facts = take_facts(CASE, seed=0)
    assert facts["flops"] == facts["flops_claimed"]
    assert facts["facts_unknown"] == []
