"""The least traffic of each layer, against a count by hand. In words; b > 1 and h > 1, where `packed` must copy."""

import pytest
from core.trial.counts.mixture import EXPERTS, ROWS

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

B, N, D, H = 3, 24, 16, 4
X, STEP, W = B * N * D, B * D, D * D + D  # the input, one step of it, a matrix with its bias
SCORES = B * N * N  # of one head

FORWARD = {
    # Sum of the biases, their product with the input, h_0, and product, sum and tanh of each step.
    "rnn.elman": 2 * W + 2 * X + 2 * (D + X + STEP + 3 * X),
    # The input transposed, its product, to which `linear` adds a bias in place, h_0, product and tanh of each step; h_n
    # is not read.
    "rnn.torch": 2 * W + 2 * X + 2 * (2 * X + STEP + 2 * X) + STEP,
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


def test_an_opaque_layer_of_torch_reads_its_weights_and_its_input_and_writes_its_output(runner: Executor) -> None:
    facts = runner.run("facts", Case("planted_kernels:TorchEncoder", N, D, H, batch_size=B)).values
    matrices, biases, norms = 4 * D * D + 2 * 3 * D * D, 4 * D + 3 * D + D, 2 * 2 * D
    assert facts["min_bytes"] == 4 * (2 * X + matrices + biases + norms)


def test_of_a_mixture_of_experts_only_the_weights_of_those_that_compute_are_read(runner: Executor) -> None:
    facts = runner.run("facts", Case("core.trial.counts.mixture:OneExpert", N, D, 1, batch_size=B)).values
    router, scores, number = EXPERTS * D, EXPERTS, 2  # a number of 8 bytes
    assert facts["min_bytes"] == 4 * (2 * X + router + D * D + 2 * scores + 2 * number)
    assert facts["read_bytes"] == 4 * (X + router + D * D)
    assert facts["weights_bytes"] == 4 * (EXPERTS * D + EXPERTS * D * D)


def test_of_stacked_experts_only_those_that_are_chosen_are_read_and_each_once(runner: Executor) -> None:
    facts = runner.run("facts", Case("core.trial.counts.mixture:StackedExperts", N, D, 1, batch_size=B)).values
    chosen, three_copies, their_sum = 3 * 2, 3 * D * D, D * D
    assert facts["min_bytes"] == 4 * (2 * X + chosen + 2 * D * D + 2 * three_copies + 2 * their_sum)


@pytest.mark.parametrize(
    ("layer", "between"),
    [
        # The numbers of the rows, of 8 bytes, and a copy of the rows.
        ("Rows", 2 * (2 * N + N * D)),
        ("Selected", 2 * (2 * N + N * D)),
        ("Gathered", 2 * (2 * N + N * D)),
        # The numbers alone are written, and never read.
        ("Sliced", 2 * N),
        ("Strided", 2 * N),
        # The sum for the first row, and all rows together.
        ("StepByStep", 2 * N + 2 * D + 2 * N * D),
    ],
)
def test_of_a_table_only_the_rows_that_are_used_are_read(layer: str, between: int, runner: Executor) -> None:
    facts = runner.run("facts", Case(f"core.trial.counts.mixture:{layer}", N, D, 1, batch_size=B)).values
    assert facts["min_bytes"] == 4 * (2 * X + N * D + between)
    assert facts["weights_bytes"] == 4 * ROWS * D


@pytest.mark.parametrize(
    ("layer", "beside_the_input"),
    [
        ("Corner", 4 * 2 * D),  # the places
        ("Searched", 4 * D),  # what is searched
        ("Bucketized", 4 * D),
        ("AmongFew", 4 * D),
        ("Equal", 0),
        ("AddedTo", 4 * D),  # the row, which is read again
        ("FilledIn", ROWS * D),  # the mask; which elements of a row stay is not followed
        ("FirstKeys", 4 * N * D),  # as many as there are queries
        ("Overwritten", 0),
        ("HalfOverwritten", 4 * 4 * D),  # the other half
        ("WithinItself", 4 * D),  # what is copied, not where to
        ("LongKernel", 4 * 2 * N * D),  # the taps that see a token at one of N + 1 places
        ("ShortKernel", 4 * 3 * D),
        ("FewSources", 0),
        ("LowerHalf", 0),
        ("LongSteps", 4 * (D + D * D)),  # the first row and the weight
        ("Dilated", 4 * (2 * D + D * D)),
        ("CropsItsEnds", 4 * ((ROWS - 8) * D + D * D)),
        ("Widening", 4 * (ROWS * D + D * D)),
        ("PivotsAlone", 0),
        ("PatchedOver", 0),
        ("Pooled", 0),
        ("Reduced", 0),
        ("Cropped", 0),
        ("Reflected", 0),
        ("Replicated", 0),
        ("Widened", 4 * ROWS * D),
        ("OneClass", 8 * ROWS),  # the numbers of the classes
    ],
)
def test_what_an_operation_may_leave_unread_is_not_read(layer: str, beside_the_input: int, runner: Executor) -> None:
    facts = runner.run("facts", Case(f"core.trial.counts.mixture:{layer}", N, D, 1, batch_size=B)).values
    assert facts["read_bytes"] == 4 * X + beside_the_input


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ("ExpandedOutput", X + STEP),
        ("ReadsAPart", 2 * X + 4 * X + X),  # four copies, of which one is read
        ("FillsAPart", 2 * X + 2 * X + 2 * X),  # a copy, and a part of a large buffer
        ("ReadsAPartOfEach", 2 * X + N * (2 * STEP + STEP) + 2 * X),  # of each step's two copies one is read
        ("ReusesMemory", 2 * X + 2 * STEP),
        ("CopiesOverNew", 2 * X + 2 * X + 2 * 2 * N),  # a product, and places of 8 bytes; of the new memory nothing
        ("Unchanged", 0),
        ("KeepsItsMean", 2 * X + 2 * N * D + N * D),  # a mean, and the buffer
        ("Folds", 2 * X + 5 * X),  # which elements of five copies are padding is not followed
        ("FoldsAll", X + 2 * 4 * X + X),
        # x + 1; of queries and keys, scaled; the scores, their softmax; the heads, to which x + 1 is added. The mask.
        ("AttendsWithAMask", 2 * X + 2 * (X + 2 * X + 2 * SCORES + X) + N * N),
        # The input transposed, and contiguous again. The product is the output.
        ("BiasOfExpanded", 2 * X + W + 2 * 2 * X),
    ],
)
def test_of_what_a_call_makes_only_what_it_writes_and_reads_crosses(layer: str, words: int, runner: Executor) -> None:
    facts = runner.run("facts", Case(f"core.trial.counts.slices:{layer}", N, D, 1, batch_size=B)).values
    assert facts["min_bytes"] == 4 * words


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        # The input and the output, the output's gradient and the input's; what is made in between, twice.
        ("ArcTangent", 4 * X + 2 * 2 * X),  # x² + 1
        ("LogAddExp", 4 * X + X + 2 * 3 * X),  # what is beside the input; 1 + exp(beside − x)
        ("AddsInItsBackwardPass", 4 * X + 2 * 2 * X),
        # h, its sine and their sum, once again; the gradients of the sum, and of h from the sine, with its cosine.
        ("Checkpointed", 4 * X + 2 * 3 * X + 2 * 3 * X + 2 * 4 * X),
        # sin x, 2x and its sum with x; cos x, and the gradient of 2x. The first gradient becomes the sum of all.
        ("SumsGradients", 4 * X + 2 * 3 * X + 2 * 2 * X),
    ],
)
def test_only_sums_of_gradients_need_no_memory_of_their_own(layer: str, words: int, runner: Executor) -> None:
    facts = runner.run("facts", Case(f"core.trial.counts.slices:{layer}", N, D, 1, batch_size=B, mode="train")).values
    assert facts["min_bytes"] == 4 * words


def test_traffic_is_unknown_if_it_is_not_known_which_sums_are_in_place(runner: Executor) -> None:
    facts = runner.run("facts", Case("core.trial.counts.slices:AttendsAfterALSTM", N, D, 1, batch_size=B)).values
    assert facts["min_bytes"] is None
    assert facts["facts_unknown"] == ["min_bytes: which sums torch computes in place is not known"]
    assert facts["ops"] > 0


def test_a_backward_pass_reads_what_its_gradients_need(runner: Executor) -> None:
    facts = runner.run("facts", Case("core.trial.counts.mixture:FrozenKernel", N, D, 1, mode="backward")).values
    assert facts["read_bytes"] == 4 * (N * D + 3 * D * D)  # the output's gradient and the weights


def test_a_copy_by_python_is_read_and_written_as_any_other(runner: Executor) -> None:
    facts = runner.run("facts", Case("core.trial.counts.dependent:CopiesItsState", N, D, 1, batch_size=B)).values
    first, further, sums, states = X + STEP, 2 * (N - 1) * STEP, 2 * N * STEP, 2 * N * STEP
    assert facts["min_bytes"] == 4 * (2 * X + first + further + sums + states)
    assert facts["read_bytes"] == 4 * X
