"""The allocator's peak to the byte, and its parts, against counts by hand. In words of float32."""

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

B, N, D, H = (
    3,
    24,
    8,
    4,
)  # b > 1 and h > 1, where `packed` must copy; n ≥ 2d, so that weights' gradients are not the peak
X, STEP, W = B * N * D, B * D, D * D
SCORES = B * N * N  # of one head
TILE = N * N  # of one flash kernel's thread, for n up to 32
SCALAR = 2  # what scores are divided by: one number in float64

FORWARD = {
    # Where the states are put together: inputs, states, output.
    "rnn.elman": 3 * X,
    # There, too; and the caller still holds h_0.
    "rnn.torch": 3 * X + STEP,
    # In the last head's weighted sum: all heads, the last one's q, k, v, and its scores before and after softmax.
    "attention.naive": X + 3 * X // H + 2 * SCORES,
    # In the weighted sum: q, k, v; all scores before and after softmax; v copied, and the heads.
    "attention.packed": 3 * X + 2 * H * SCORES + 2 * X,
    # In the kernel: q, k, v; the heads and the logarithm of each row's sum. Its own memory is a tile of scores, the
    # tile's rows of output, and two numbers a row.
    "attention.fused": 3 * X + X + B * H * N + TILE + N * D // H + 2 * N,
}

SAVED = {
    # States, and h_0.
    "rnn.elman": X + STEP,
    # The input transposed, states, h_0.
    "rnn.torch": 2 * X + STEP,
    # q, k, v, softmax, heads together; what the scores of each head are divided by.
    "attention.naive": 3 * X + H * SCORES + X + H * SCALAR,
    # The copies of q, k, v, not these; softmax, heads together; what scores are divided by.
    "attention.packed": 3 * X + H * SCORES + X + SCALAR,
    # q, k, v, heads, and the logarithm of each row's sum.
    "attention.fused": 3 * X + X + B * H * N,
}

TRAIN = {
    # At the input's gradient: the output, the gradients of all steps and of the input; two matrices' and a bias's.
    "rnn.elman": 3 * X + 2 * W + D,
    # There, too; and the input transposed, and a bias more.
    "rnn.torch": 4 * X + 2 * W + 2 * D,
    # In the backward pass of the first head's softmax: output, gradients of the heads, of W_o and its bias; what is
    # saved, less the heads and the first v, whose gradient takes its place; gradients of its weights and scores.
    "attention.naive": 2 * X + W + D + 3 * X + H * SCORES + 2 * SCORES + H * SCALAR,
    # There, too: output, gradients of W_o and its bias; q and k copied, and v's gradient; softmax, and the gradients of
    # it and of the scores.
    "attention.packed": X + W + D + 3 * X + 3 * H * SCORES + SCALAR,
    # In the kernel: output, gradients of the heads, of W_o and its bias; what is saved; gradients of q, k, v. Its own
    # memory is two tiles of scores and a number a row.
    "attention.fused": 2 * X + W + D + 4 * X + B * H * N + 3 * X + 2 * TILE + N,
}

WEIGHTS = {"rnn": 2 * W + 2 * D, "attention": 4 * W + 4 * D}


def facts(runner: Executor, impl: str, mode: str) -> dict:
    outcome = runner.run("facts", Case(impl, N, D, H, batch_size=B, mode=mode))
    assert outcome.status == "ok", outcome.reason
    return dict(outcome.values)


@pytest.mark.parametrize("impl", FORWARD)
def test_the_peak_of_a_forward_pass_is_exact_to_the_byte(runner: Executor, impl: str) -> None:
    found = facts(runner, impl, "forward")
    assert found["peak_bytes"] == 4 * FORWARD[impl]
    assert (found["saved_bytes"], found["transient_bytes"]) == (0, found["peak_bytes"])


@pytest.mark.parametrize("impl", FORWARD)
def test_the_peak_of_training_is_exact_to_the_byte(runner: Executor, impl: str) -> None:
    assert facts(runner, impl, "train")["peak_bytes"] == 4 * TRAIN[impl]


@pytest.mark.parametrize("impl", FORWARD)
def test_the_peak_splits_into_what_is_saved_for_backward_and_the_rest(runner: Executor, impl: str) -> None:
    found = facts(runner, impl, "train")
    assert found["saved_bytes"] == 4 * SAVED[impl]
    assert found["saved_bytes"] + found["transient_bytes"] == found["peak_bytes"]


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("impl", FORWARD)
def test_weights_inputs_and_outputs_are_those_of_the_mode(runner: Executor, impl: str, mode: str) -> None:
    found = facts(runner, impl, mode)
    weights = 4 * WEIGHTS[impl.partition(".")[0]]
    train = mode == "train"
    assert found["weights_bytes"] == weights
    assert found["inputs_bytes"] == 4 * X * (2 if train else 1)
    assert found["output_bytes"] == (4 * 2 * X + weights if train else 4 * X)


def test_a_checkpoint_saves_nothing_but_its_input_and_the_state_of_random_numbers(runner: Executor) -> None:
    found = facts(runner, "planted_kernels:Checkpoints", "train")
    assert found["saved_bytes"] == torch.get_rng_state().nbytes
    assert found["flops"] == 2 * B * N * W * 4  # forward twice, backward


@pytest.mark.parametrize(
    ("layer", "saved"),
    [
        ("Products", 4 * X),  # the result of tanh, which is the second product's input
        ("SavesOnCpu", 4 * X),
        ("ChecksPointSelectively", 4 * X),  # the product
        ("KeepsOnContext", 2 * 4 * X),  # the attribute, and the product's input
        ("KeepsForAHook", 4 * X),
        # A copy in 2 bytes of all that is saved: both products' inputs and weights, and the result of tanh once more.
        ("PacksInHalf", 2 * (2 * (X + W) + X)),
    ],
)
def test_what_the_graph_keeps_counts_however_it_keeps_it(layer: str, saved: int, runner: Executor) -> None:
    found = facts(runner, f"planted_kernels:{layer}", "train")
    assert found["saved_bytes"] == saved
    assert found["facts_unknown"] == []


def test_it_is_unknown_what_is_saved_by_hooks_that_return_no_tensor(runner: Executor) -> None:
    found = facts(runner, "planted_kernels:SavesAside", "train")
    assert (found["saved_bytes"], found["transient_bytes"]) == (None, None)
    assert found["facts_unknown"] == ["saved_bytes: its hooks save int in place of tensors"]


@pytest.mark.parametrize("impl", FORWARD)
def test_the_resident_peak_stands_beside_it(runner: Executor, impl: str) -> None:
    # Every byte that is handed out here is touched, but for what was resident and free before.
    found = runner.run("facts", Case(impl, 1024, 64, 4, batch_size=4, mode="train")).values
    assert found["peak_resident_bytes"] > 0.8 * found["peak_bytes"]
