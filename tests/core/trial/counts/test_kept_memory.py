"""Memory that is still in use after a call: leaks, tables of the first call, and caches that grow."""

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import collect_metrics

N, D, FLOAT = 32, 8, 4
OUTPUT, TABLE = N * D * FLOAT, N * N * FLOAT


def facts(layer: str, mode: str = "forward") -> dict:
    return collect_metrics(Case(f"core.trial.counts.keeping:{layer}", N, D, 1, mode=mode), seed=0)


@pytest.mark.parametrize(
    ("layer", "first_call", "each_call"),
    [
        ("OwnLayer", 0, 0),
        ("EveryOutput", 0, OUTPUT),
        ("ATableAndEveryOutput", TABLE, OUTPUT),
        ("TheLastOutput", OUTPUT, 0),
        ("ATable", TABLE, 0),
        ("EveryOutputOfItsClass", 0, OUTPUT),
        ("EveryArrayOfItsClass", 0, OUTPUT),
        ("train:TheNodeOfEveryOutput", 0, OUTPUT),
        ("train:EveryGradient", 0, OUTPUT),
        ("train:GradientsInAnObject", D * D * FLOAT, 0),
    ],
)
def test_what_calls_leave_behind_is_counted(layer: str, first_call: int, each_call: int) -> None:
    mode, _, name = layer.rpartition(":")
    found = facts(name, mode or "forward")
    assert (found["first_call_bytes"], found["kept_bytes"]) == (first_call, each_call)


def test_every_output_that_is_kept_in_training_keeps_what_its_backward_pass_needs() -> None:
    assert facts("EveryOutput", "train")["kept_bytes"] >= OUTPUT


def test_a_gradient_that_each_backward_pass_keeps_hides_nothing_of_what_the_graph_saves() -> None:
    assert facts("EveryGradient", "train")["saved_bytes"] == OUTPUT  # the result of exp


def test_an_output_whose_function_has_freed_what_it_saved_is_kept_alone() -> None:
    found = facts("TheOutputOfAFunction", "train")
    assert (found["first_call_bytes"], found["kept_bytes"]) == (OUTPUT, 0)


OF_MEMORY = ("kept_bytes", "first_call_bytes", "peak_bytes", "saved_bytes", "transient_bytes")


@pytest.mark.parametrize(
    ("layer", "mode", "is_known"),
    [
        ("TheGraphOfEveryOutput", "train", False),
        ("TheLastOutput", "train", False),
        ("OwnLayer", "train", True),  # no graph stays
        ("OwnLayer", "backward", True),  # the same graph stays
        ("EveryOutput", "forward", True),
    ],
)
def test_what_graphs_keep_is_unknown_if_torch_does_not_tell_it(
    monkeypatch: pytest.MonkeyPatch, layer: str, mode: str, is_known: bool
) -> None:
    told = facts(layer, mode)
    monkeypatch.delattr("torch._C._autograd.SavedTensor.data")
    untold = facts(layer, mode)
    assert [untold[name] for name in OF_MEMORY] == [told[name] if is_known else None for name in OF_MEMORY]
    reason = "torch does not tell what graphs or packed weights that stay hold"
    reason = f"peak_bytes, first_call_bytes, kept_bytes: {reason}"
    assert untold["facts_unknown"] == ([] if is_known else [reason])


def test_a_table_of_the_first_call_is_in_the_peak() -> None:
    assert facts("ATable")["peak_bytes"] == facts("OwnLayer")["peak_bytes"] + OUTPUT + TABLE


def test_an_output_that_each_call_keeps_is_in_the_peak_once() -> None:
    assert facts("EveryOutput")["peak_bytes"] == facts("OwnLayer")["peak_bytes"]


def test_a_cache_that_grows_is_held_with_all_tokens_before_the_timed_one() -> None:
    found = facts("GrowingCache", "decode")
    assert found["inputs_bytes"] == N * D * FLOAT  # the token, and the cache of those before
    assert found["kept_bytes"] == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.parametrize(
    ("layer", "weights", "of_calls"),
    [
        # The matrix of d², and the same in a byte for each number.
        ("PackedUnused", D * D * FLOAT + D * D, 0),
        ("PacksInEachCall", D * D * FLOAT, None),
        # An address in place of a matrix.
        ("PackedForHalf", None, None),
        ("PacksForHalfInEachCall", None, None),
    ],
)
def test_packed_weights_are_counted_or_unknown(layer: str, weights: int | None, of_calls: int | None) -> None:
    found = collect_metrics(Case(f"core.trial.counts.packing:{layer}", N, D, 1), seed=0)
    assert found["weights_bytes"] == weights
    assert (found["first_call_bytes"], found["kept_bytes"]) == (of_calls, of_calls)
    assert (found["peak_bytes"] is None) is (of_calls is None)
    assert any("packed weights" in line or "fbgemm" in line for line in found["facts_unknown"]) is (of_calls is None)
