"""Facts of layers whose calls differ, or do what few layers do, against counts by hand. In bytes."""

from typing import Any

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

N, D, FLOAT = 16, 8, 4
X, W = FLOAT * N * D, FLOAT * D * D
UNLIKE = dict.fromkeys(("flops", "ops", "depth", "min_bytes", "peak_bytes", "saved_bytes", "first_call_bytes"))


def answer(runner: Executor, purpose: str, layer: str, mode: str = "forward") -> Any:
    return runner.run(purpose, Case(f"core.trial.counts.unlike:{layer}", N, D, 1, mode=mode))


@pytest.mark.parametrize(
    ("layer", "mode", "right"),
    [
        # Each call keeps its rows; the first call's are part of the weights. Its peak has the old rows beside the new.
        ("GrowingBuffer", "forward", {"kept_bytes": X, "weights_bytes": W + X, "peak_bytes": None, "min_bytes": None}),
        ("GrowingBuffer", "train", {"kept_bytes": X, "saved_bytes": None, "transient_bytes": None}),
        ("KeepsAtEveryFourthCall", "train", {"saved_bytes": None, "transient_bytes": None}),
        # Two of eight calls keep 100 rows, and one of eight. A call's peak depends on which it is.
        ("KeepsAtEveryFourthCall", "forward", {"kept_bytes": 100 * D * FLOAT // 4, "peak_bytes": None}),
        ("KeepsAtEverySeventhCall", "forward", {"kept_bytes": 100 * D * FLOAT // 8, "peak_bytes": None}),
        ("KeepsAtEverySeventeenthCall", "train", {"saved_bytes": None, "transient_bytes": None}),
        ("KeepsStorages", "forward", {"kept_bytes": X, "first_call_bytes": 0}),
        ("KeepsOldStorages", "forward", {"kept_bytes": X, "first_call_bytes": 0}),
        ("KeepsArrays", "forward", {"kept_bytes": X, "first_call_bytes": 0, "flops": None}),
        ("KeepsViewsOfArrays", "forward", {"kept_bytes": X, "flops": None}),
        ("KeepsArraysInTuples", "forward", {"kept_bytes": 2 * X, "flops": None}),
        ("KeepsAnArrayAndItsTensor", "forward", {"kept_bytes": X, "flops": None}),
        ("KeepsMetaTensors", "forward", {"kept_bytes": 0}),
        ("KeepsBlockSparse", "forward", {"kept_bytes": 4 * 4 * FLOAT + (2 + 2) * 8, "flops": None}),
        ("KeepsByChannel", "forward", {"kept_bytes": N * D + D * (8 + 8)}),
        ("KeepsOpaque", "forward", {"kept_bytes": X, "flops": None}),
        # The softmax and the targets, the loss and the sum of the classes' weights.
        ("KeepsLosses", "train", {"kept_bytes": X + 8 * N + 2 * FLOAT, "first_call_bytes": 0}),
        ("KeepsInAScript", "forward", {"kept_bytes": X, "first_call_bytes": 0}),
        ("ATableOfTheConstructor", "forward", {"weights_bytes": W + 100 * D * FLOAT, "first_call_bytes": 0}),
        ("ATableInAnObject", "forward", {"weights_bytes": W + 100 * D * FLOAT}),
        ("ATableOfTheClass", "forward", {"weights_bytes": W + 100 * D * FLOAT}),
        ("ATableAroundAFunction", "forward", {"weights_bytes": W + 100 * D * FLOAT}),
        ("AFrozenScript", "forward", {"weights_bytes": W, "kept_bytes": 0}),
        # The token, and the cache of those before.
        ("ItsStateIsAnObject", "decode", {"weights_bytes": W, "inputs_bytes": X, "kept_bytes": 0}),
        # The token, and the keys and values of those before.
        ("ItsKeysHoldItsValues", "decode", {"weights_bytes": W, "inputs_bytes": 2 * X - D * FLOAT, "kept_bytes": 0}),
        # The token's value; scores of 16 tokens and their weighted sum. The tokens before it are in the state once.
        ("KeepsItsTokens", "decode", {"flops": 2 * D * D + 2 * 2 * N * D}),
        ("Checkpointed", "backward", {"kept_bytes": 0}),
        # The input, the output's gradient, weights, and the mean and deviation of each token.
        ("Normalised", "backward", {"read_bytes": 2 * X + FLOAT * D + 2 * FLOAT * N}),
        ("PutsEachToken", "forward", {"depth": 2}),
        ("ReducesAnew", "forward", {"depth": 1}),
        ("SavesAnArray", "train", {"saved_bytes": None}),
        # The workspace is never there twice.
        ("RenewsItsWorkspace", "forward", {"first_call_bytes": 100 * X, "peak_bytes": 100 * X + X}),
        # The new buffer is there before the old one is freed, and then the ones, with their sum.
        ("RenewsABuffer", "forward", {"weights_bytes": W + 100 * D * FLOAT, "peak_bytes": 101 * D * FLOAT}),
        ("RenewsABuffer", "train", {"peak_bytes": 101 * D * FLOAT, "saved_bytes": 0}),
        ("MakesABufferAnew", "forward", {"weights_bytes": W + 100 * D * FLOAT, "peak_bytes": X}),
        # What the graph saves and the layer keeps too is not freed with the graph. The factor 2 is a number of 8 bytes.
        ("KeepsWhatItSaves", "train", {"saved_bytes": X, "first_call_bytes": X}),
        ("KeepsWhatItSaves", "backward", {"saved_bytes": X}),
        ("CollectsWhatItSaves", "train", {"saved_bytes": X + 8}),
        ("KeepsALoss", "train", {"saved_bytes": X + 8}),  # of tanh, and the factor
        ("KeepsALoss", "backward", {"saved_bytes": X + 8}),
        ("KeepsItsStates", "train", {"saved_bytes": X}),
        ("KeepsItsStates", "backward", {"saved_bytes": X}),
        ("KeepsTheLastTwenty", "forward", {"kept_bytes": 0, "peak_bytes": None}),
        ("KeepsTheLastFour", "forward", {"kept_bytes": 0, "first_call_bytes": 4 * X, "peak_bytes": 5 * X}),
        ("ByNumpy", "forward", {"flops": None, "depth": None, "min_bytes": None, "peak_bytes": None}),
        # The table of pairs is numpy's alone.
        ("OuterByNumpy", "forward", {"flops": None, "peak_bytes": None, "transient_bytes": None}),
        ("OuterByDlpack", "forward", {"flops": None, "peak_bytes": None}),
        ("OuterByArray", "train", {"flops": None, "peak_bytes": None, "saved_bytes": None}),
        ("ByList", "forward", {"flops": None, "depth": None, "min_bytes": None}),
        ("ByNumbers", "forward", {"flops": None, "depth": None}),
        # The product and its quotient, and the divisor in double and in single precision.
        ("ScaledByItem", "forward", {"flops": 2 * N * D * D, "depth": None, "peak_bytes": 2 * X + 8 + FLOAT}),
        ("OrderedByList", "forward", {"flops": None, "depth": None}),
        ("ByDlpack", "forward", {"flops": None, "depth": None, "peak_bytes": None}),
        # Nor is memory of Python torch's.
        ("TimesABuffer", "forward", {"flops": None, "peak_bytes": None, "transient_bytes": None}),
        ("TimesABuffer", "train", {"flops": None, "peak_bytes": None, "saved_bytes": None}),
        ("TimesAnArrayOfPython", "forward", {"flops": None, "peak_bytes": None}),
        ("TimesWhatDlpackGives", "forward", {"flops": None, "peak_bytes": None}),
        ("TimesAList", "forward", {"flops": 2 * N * D * D, "peak_bytes": 3 * X}),
        ("IsABuffer", "forward", {"flops": None, "peak_bytes": None}),
        ("ReadsItsLengths", "forward", {"flops": 2 * N * D * D, "depth": 3}),  # |x|, compare, any
        ("FillsWithTrue", "forward", {"depth": 5}),  # compare, convert, add, fill; the product with the mask
        ("ShapedAfter", "forward", {"depth": 2}),
        ("WithoutBeta", "forward", {"read_bytes": X + W, "flops": 2 * N * D * D}),
        ("Marked", "forward", {"ops": 3, "weights_bytes": W}),
        ("MoreAtEverySecondCall", "forward", UNLIKE),
        ("MoreAtEveryFourthCall", "forward", UNLIKE),
        ("MoreAtEveryFourthCall", "train", UNLIKE),
        ("OtherChunks", "backward", UNLIKE),  # each graph is another
        ("OtherChunks", "train", UNLIKE),
        ("DropsLayers", "forward", UNLIKE),
        ("DropsLayers", "train", UNLIKE),
        ("DropsElements", "train", {"flops": 6 * N * D * D, "kept_bytes": 0}),
        ("ProductsOfPrefixes", "forward", {"flops": 2 * N * D * D, "depth": 2}),
        ("ProductsOfPrefixes", "train", {"flops": 6 * N * D * D, "ops": None, "depth": None, "min_bytes": None}),
        # Moved: the rows and their gradient, twice. Read: x, w, the output's gradient, the order. Outputs: y, dx, dw.
        ("OtherOrder", "train", {"min_bytes": 4 * X + 2 * X + W + 8 * N + 2 * X + W, "read_bytes": 2 * X + W + 8 * N}),
        ("ReadsWholeNumbers", "forward", {"ops": 3, "peak_bytes": X}),  # a view, the product, and a view
    ],
)
def test_a_fact_is_right_or_unknown(runner: Executor, layer: str, mode: str, right: dict[str, int | None]) -> None:
    facts = answer(runner, "facts", layer, mode).values
    assert {name: facts[name] for name in right} == right
    assert (None in right.values()) == bool(facts["facts_unknown"])


@pytest.mark.parametrize("layer", ["KeepsBlockSparse", "KeepsOpaque"])
def test_the_reason_of_a_layout_is_true_of_sparse_tensors_and_of_those_of_onednn(runner: Executor, layer: str) -> None:
    reasons = answer(runner, "facts", layer).values["facts_unknown"]
    assert any("a tensor is sparse or in a layout of oneDNN" in reason for reason in reasons)


def test_weights_of_modules_in_a_plain_list_count(runner: Executor) -> None:
    assert answer(runner, "facts", "PlainList").values["weights_bytes"] == 2 * W


def test_a_layer_that_does_more_at_every_second_call_keeps_no_result(runner: Executor) -> None:
    assert answer(runner, "verify", "MoreAtEverySecondCall").ok


def test_one_token_that_sees_the_next_one_is_found(runner: Executor) -> None:
    outcome = answer(runner, "verify", "LeaksOnce")
    assert outcome.status == "incorrect"
    assert outcome.reason.startswith("it sees later tokens that the mask hides")


def test_an_error_that_no_sequence_length_mends_is_told_none(runner: Executor) -> None:
    reason = answer(runner, "verify", "GrowingState").reason
    assert "size mismatch for seen" in reason
    assert "must be a multiple" not in reason
