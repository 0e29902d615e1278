"""The least traffic of each layer, against a count by hand. In words; b > 1 and h > 1, where `packed` must copy."""

import pytest

from harness.measure.executor import Executor
from harness.sweep_axes import Case

B, N, D, H = 3, 24, 16, 4
X, STEP, W = B * N * D, B * D, D * D + D  # the input, one step of it, a matrix with its bias
SCORES = B * N * N  # of one head

FORWARD = {
    # Sum of the biases, their product with the input, h_0, and product, sum and tanh of each step.
    "rnn.elman": 2 * W + 2 * X + 2 * (D + X + STEP + 3 * X),
    # The input transposed, its product, its sum with a bias, h_0, product and tanh of each step; h_n is not read.
    "rnn.torch": 2 * W + 2 * X + 2 * (3 * X + STEP + 2 * X) + STEP,
    # q, k, v; scores, scaled, softmax; heads apart and together.
    "attention.naive": 4 * W + 2 * X + 2 * (3 * X + 3 * H * SCORES + 2 * X),
    # The same, and copies of q, k, v for the batched product.
    "attention.packed": 4 * W + 2 * X + 2 * (3 * X + 3 * X + 3 * H * SCORES + 2 * X),
    # q, k, v; heads; the logarithms of the sums, which only a backward pass reads.
    "attention.fused": 4 * W + 2 * X + 2 * (3 * X + X) + B * H * N,
}

# Beyond that: the output's gradient comes in, gradients of input and weights go out.
BACKWARD = {
    # Gradients of each step's sum and, but for the first, of its state, twice: the product and the sum with what comes
    # from above; the steps together; n gradients of W_h, of which the sum is an output.
    "rnn.elman": 2 * W + 2 * X + 2 * (X + 2 * (X - STEP) + X + (N - 1) * D * D),
    # The same, with a gradient of b_h at each step, and the input's gradient before it is transposed.
    "rnn.torch": 2 * W + 2 * X + 2 * (X + 2 * (X - STEP) + X + (N - 1) * W + X),
    # The heads together and, a head: weights, scores, scaled scores; q, k, v, k once more to transpose it; the
    # input's gradient from each of 3h projections, of which the sum is an output; each of these projections' weights
    # alone, among zeros, and put together with the zeros of the other two, of which again the sum is an output.
    "attention.naive": 4 * W
    + 2 * X
    + 2 * (X + 3 * H * SCORES + 4 * X + (3 * H - 1) * X)
    + 2 * (3 * W + 3 * H * W + 3 * (H - 1) * W),
    # The heads, and copied; weights, scores, scaled scores; q, k, v, together, and transposed.
    "attention.packed": 4 * W + 2 * X + 2 * (2 * X + 3 * H * SCORES + 3 * X + 3 * X + 3 * X),
    # The heads; q, k, v, together, and transposed. The logarithms of the sums are read now.
    "attention.fused": 4 * W + 2 * X + 2 * (X + 3 * X + 3 * X + 3 * X) + B * H * N,
}


@pytest.mark.parametrize("impl", FORWARD)
def test_the_least_traffic_of_a_forward_pass_is_as_counted_by_hand(runner: Executor, impl: str) -> None:
    facts = runner.run("facts", Case(impl, N, D, H, batch_size=B)).values
    assert facts["min_bytes"] == 4 * FORWARD[impl]


@pytest.mark.parametrize("impl", FORWARD)
def test_the_least_traffic_of_training_is_as_counted_by_hand(runner: Executor, impl: str) -> None:
    facts = runner.run("facts", Case(impl, N, D, H, batch_size=B, mode="train")).values
    assert facts["min_bytes"] == 4 * (FORWARD[impl] + BACKWARD[impl])


def test_a_layer_of_one_operation_reads_its_input_and_writes_its_output(runner: Executor) -> None:
    facts = runner.run("facts", Case("planted:Identity", N, D, 1, batch_size=B)).values
    assert facts["min_bytes"] == 4 * 2 * X
