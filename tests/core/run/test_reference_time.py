"""The time that references are expected to take: their operations are counted, and none is forgotten."""

import inspect
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.core.config import compose
from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.run import expected_time
from harness.core.run.expected_time import ExpectedTime, reference_accuracy_s, reference_verify_s
from harness.core.trial import accuracy
from impls.registry import IMPLS, OPS_A_TOKEN


class _Count(TorchDispatchMode):
    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.number += 1
        return function(*args, **(kwargs or {}))


def operations(reference: str, n: int) -> int:
    module = layer_lookup.load_class(reference)
    taken = {"num_heads": 2} if "num_heads" in inspect.signature(module).parameters else {}
    layer = module(d_model=8, **taken).double()
    with _Count() as counter, torch.no_grad():
        layer(torch.randn(1, n, 8, dtype=torch.float64))
    return counter.number


@pytest.mark.parametrize("reference", OPS_A_TOKEN)
def test_a_reference_that_loops_has_so_many_operations_a_token(reference: str) -> None:
    assert operations(reference, 32) - operations(reference, 16) == 16 * OPS_A_TOKEN[reference]


def test_no_reference_that_takes_long_is_forgotten() -> None:
    slow = {
        impl.reference for impl in IMPLS.values() if not impl.package and impl.family in ("rnn", "attention", "linear")
    }
    slow = {one for one in slow if "rows" not in inspect.signature(layer_lookup.load_class(one).forward).parameters}
    assert slow == {*OPS_A_TOKEN}


def test_the_time_grows_with_the_tokens_up_to_the_operations_that_a_reference_may_take() -> None:
    case = Case("linear.rwkv7.chunked", 256, 64, 2)
    # 256 tokens are of the plain layer.
    assert reference_accuracy_s(replace(case, seq_len=1024)) == pytest.approx(2.5 * reference_accuracy_s(case))
    assert reference_accuracy_s(replace(case, seq_len=4096)) == reference_accuracy_s(replace(case, seq_len=1024))
    assert reference_verify_s(replace(case, seq_len=4096)) == reference_verify_s(case)
    assert reference_accuracy_s(replace(case, mode="train")) == pytest.approx(3 * reference_accuracy_s(case))


def test_the_limits_are_those_of_the_trial() -> None:
    assert (expected_time._MOST_OPS, expected_time._FEW) == (accuracy._MOST_OPS, accuracy._FEW)


def test_a_reference_of_a_few_rows_takes_no_time_worth_counting() -> None:
    case = Case("attention.block_sparse", 4096, 64, 2)
    assert reference_accuracy_s(case) == reference_verify_s(case) == 0.0
    assert reference_accuracy_s(replace(case, impl="their:Layer")) == 0.0


def test_the_expected_time_of_a_sweep_contains_its_references() -> None:
    expected = ExpectedTime(compose([]).precision)
    case = Case("linear.rwkv7.chunked", 1024, 64, 2)
    assert expected.facts_s(case) > reference_accuracy_s(case) > 0.1
    assert expected.verify_s(case) > reference_verify_s(case) > 0.1
