"""Counts of layers whose operations read, write or do more than their names tell, against counts by hand."""

from typing import Any

import pytest
import torch
from core.trial.counts.overlooked import DifferencesOfInference
from torch import Tensor

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.counts.operations import Observer, Storages

N, D = 16, 16


def facts(runner: Executor, layer: str, n: int = N, mode: str = "forward") -> dict[str, Any]:
    outcome = runner.run("facts", Case(f"core.trial.counts.overlooked:{layer}", n, D, 1, mode=mode))
    assert outcome.status == "ok", outcome.reason
    return dict(outcome.values)


@pytest.mark.parametrize(
    ("layer", "depth"),
    [
        ("ScatterLoop", N + 1),  # the sine, and a step for each token
        ("ComplexNumbers", None),  # Python may do anything with a number of the input
        ("WholeNumbers", None),
        ("Chosen", None),
        ("ChosenBySplit", None),
        ("ChosenByStride", None),
        ("ChosenZeros", None),
        ("ChosenNumbers", None),
        ("ChosenBytes", None),
        ("ChosenLength", None),
        ("ChosenInBatches", None),
        ("ChosenInBatchesBySplit", None),
        ("CountedIndices", None),
        ("Differences", 1 + 8 + 2),  # the product, each difference, the sums over n and with x
        ("DifferencesOfInference", 1 + 8 + 2),
        ("StatisticsLoop", 2 * N + 2),  # a sum and a norm for each token, then the last sum and the stack
    ],
)
def test_a_chain_has_every_operation_that_waits_for_the_one_before(
    layer: str, depth: int | None, runner: Executor
) -> None:
    assert facts(runner, layer).get("depth") == depth


@pytest.mark.parametrize(
    ("layer", "flops"), [("WeightedBag", 2 * N * D * D), ("PlainBag", 0), ("VectorOfInference", 2 * N * D)]
)
def test_a_product_under_another_name_has_its_flops(layer: str, flops: int, runner: Executor) -> None:
    assert facts(runner, layer)["flops"] == flops


def test_a_weighted_sum_of_rows_has_twice_its_flops_again_in_training(runner: Executor) -> None:
    assert facts(runner, "WeightedBag", mode="train")["flops"] == 3 * 2 * N * D * D


def test_a_tensor_that_is_its_own_index_is_read_whole(runner: Executor) -> None:
    own, other = (facts(runner, layer) for layer in ("OwnIndex", "OtherIndex"))
    assert (own["depth"], own["min_bytes"]) == (other["depth"], other["min_bytes"])


def test_a_view_of_a_weight_is_no_input(runner: Executor) -> None:
    found = facts(runner, "Prepared")
    assert (found["weights_bytes"], found["inputs_bytes"]) == (4 * D * D, 4 * N * D)


@pytest.mark.parametrize("layer", ["OfTabled", "WithinTabled"])
def test_a_table_of_any_class_of_the_layer_counts_as_its_weights(layer: str, runner: Executor) -> None:
    assert facts(runner, layer)["weights_bytes"] == 4 * 1000


def test_statistics_that_batch_normalization_renews_are_written(runner: Executor) -> None:
    keeps, forgets = (facts(runner, layer, mode="train")["min_bytes"] for layer in ("BatchNorm", "ForgetfulNorm"))
    # A mean and a variance of each of D numbers, and the number of batches: each is read and written.
    assert keeps - forgets == 2 * (2 * 4 * D + 8)


def test_a_new_state_of_decoding_is_written_once_as_outputs_are(runner: Executor) -> None:
    token, matrix = 4 * D, 4 * D * D
    read, written, between = token + matrix, token + matrix, 2 * matrix  # the old state halved, and the outer product
    assert facts(runner, "FastWeights", mode="decode")["min_bytes"] == read + written + 2 * between


@pytest.mark.parametrize(("layer", "mode"), [("GradientFirst", "forward"), ("Recomputed", "train")])
def test_sums_beside_gradients_may_be_in_place_so_that_traffic_is_unknown(
    layer: str, mode: str, runner: Executor
) -> None:
    found = facts(runner, layer, mode=mode)
    assert found.get("min_bytes") is None
    assert any("in place is not known" in reason for reason in found["facts_unknown"])


def test_a_sum_of_a_number_in_place_is_one_sum(runner: Executor) -> None:
    x, root, weight = 4 * N * D, 4 * N, 4 * D
    between = 2 * (x + root + root + x)  # squares, their mean with the number, its root, and the product with x
    assert facts(runner, "Norm")["min_bytes"] == 2 * x + weight + between
    numbers = 4 + 2 * 4  # the sum, which nothing reads, and one
    gradient = 2 * (4 * x) + numbers  # a copy, its sine and cosine, the gradient
    assert facts(runner, "NormFirst")["min_bytes"] == 2 * x + weight + between + 2 * x + gradient


def test_what_an_operation_may_leave_unwritten_is_not_written(runner: Executor) -> None:
    x, mask, rows = 4 * N * D, 4096, 4 * N * D
    renormed, embedded = (facts(runner, layer)["min_bytes"] for layer in ("Renormed", "Embedded"))
    assert renormed == embedded - rows  # which may have been made anew, so they need not be read again
    assert facts(runner, "Evicting")["min_bytes"] == 2 * x + mask
    assert facts(runner, "EvictingAll")["min_bytes"] == 2 * x


def test_the_name_of_a_function_begins_no_backward_pass(runner: Executor) -> None:
    x, weight, bias = 4 * N * D, 4 * D * D, 4 * D
    between = 2 * 3 * x  # two copies and a product
    assert facts(runner, "NamedCopy")["min_bytes"] == 2 * x + 2 * weight + bias + between


def test_what_torch_imports_at_first_is_no_memory_of_the_layer(runner: Executor) -> None:
    found = facts(runner, "FunctionalGradient")
    assert found["first_call_bytes"] == 0


def test_tables_in_keywords_and_attributes_of_functions_are_weights(runner: Executor) -> None:
    assert facts(runner, "TableOfKeywords")["weights_bytes"] == 4 * (16 + 100)


def test_sums_before_any_gradient_are_known_to_be_in_place(runner: Executor) -> None:
    weight, bias, x, number = 4 * D * D, 4 * D, 4 * N * D, 4
    # A product, a copy and the linear layer; a product, its sine, its mean, that of one, its share, cosine and product.
    forward, gradient = 3 * x, weight + 5 * x + weight
    numbers = number + 2 * number + 2 * number  # the mean, which nothing reads; one, and the sum of the gradient
    between = 2 * (forward + gradient) + numbers
    assert facts(runner, "GradientLast")["min_bytes"] == 2 * x + 2 * weight + bias + between


@pytest.mark.parametrize("layer", ["SplitExperts", "HeadsOfChosen"])
def test_the_width_of_what_a_gate_chooses_is_known(layer: str, runner: Executor) -> None:
    assert facts(runner, layer)["depth"] is not None


def test_an_observed_call_in_inference_mode_leaves_torch_as_it_was() -> None:
    layer, made = DifferencesOfInference(D, 1), Tensor.__new__
    with torch.no_grad(), Observer(Storages(), []):
        layer(torch.randn(1, N, D))
    assert Tensor.__new__ is made


@pytest.mark.parametrize(("layer", "flops"), [("FlexOfInference", 4 * N * N * D), ("NestedOfInference", 2 * N * D * D)])
def test_what_is_no_composite_is_observed_in_inference_mode(layer: str, flops: int, runner: Executor) -> None:
    assert facts(runner, layer)["flops"] == flops
