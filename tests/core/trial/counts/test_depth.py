"""The longest chain of operations, against layers whose chain is known."""

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor


def facts(runner: Executor, impl: str, n: int = 16, d: int = 16, h: int = 2, b: int = 1, mode: str = "forward") -> dict:
    outcome = runner.run("facts", Case(impl, n, d, h, batch_size=b, mode=mode))
    assert outcome.status == "ok", outcome.reason
    return dict(outcome.values)


def test_what_stands_beside_a_chain_does_not_lengthen_it(runner: Executor) -> None:
    found = facts(runner, "planted_kernels:Chain")
    assert (found["depth"], found["ops"]) == (5, 6)


def test_an_elman_loop_is_three_operations_a_step(runner: Executor) -> None:
    # The sum of the biases, the input's product, n times (product, sum, tanh), and the states put together.
    assert facts(runner, "rnn.elman", n=256)["depth"] == 3 * 256 + 3 - 1


def test_slices_that_are_overwritten_one_by_one_are_no_chain(runner: Executor) -> None:
    assert facts(runner, "planted_kernels:WritesSlices", n=32)["depth"] == 2


def test_a_sum_in_place_is_a_chain(runner: Executor) -> None:
    assert facts(runner, "planted_kernels:AddsUpInPlace", n=32)["depth"] == 32


@pytest.mark.parametrize("impl", ["attention.naive", "attention.packed", "attention.fused"])
def test_attention_is_as_deep_at_any_size(runner: Executor, impl: str) -> None:
    sizes = [{"n": 16}, {"n": 64}, {"d": 32}, {"h": 4}, {"b": 3, "h": 8}]
    depths = {facts(runner, impl, **({"b": 2} | size))["depth"] for size in sizes}
    assert len(depths) == 1


@pytest.mark.parametrize("impl", ["attention.naive", "attention.packed", "attention.fused"])
def test_attention_in_training_is_as_deep_at_any_length(runner: Executor, impl: str) -> None:
    assert len({facts(runner, impl, n=n, b=2, mode="train")["depth"] for n in (16, 64)}) == 1


def test_autograd_adds_up_what_each_head_sends_back_one_after_the_other(runner: Executor) -> None:
    few, more = (facts(runner, "attention.naive", h=h, mode="train")["depth"] for h in (2, 4))
    assert more - few == 2 * 3  # two heads more, three projections each


def test_a_fused_kernel_declares_its_inside(runner: Executor) -> None:
    found = facts(runner, "attention.fused")
    assert (found["depth"], found["depth_declared"]) == (5, 3)
    assert facts(runner, "attention.packed")["depth_declared"] == 0


def test_a_loop_inside_onednn_is_declared_and_one_inside_aten_is_seen(runner: Executor) -> None:
    hidden = facts(runner, "planted_kernels:TorchLSTM", n=10)
    assert hidden["depth_declared"] == 7 * 10 + 1
    assert hidden["depth"] < 7 * 10 + 5
    seen = [facts(runner, "planted_kernels:TorchGRU", n=n) for n in (10, 20)]
    assert [found["depth_declared"] for found in seen] == [0, 0]
    assert seen[1]["depth"] - seen[0]["depth"] >= 9 * 10


def test_layers_wait_for_one_another_and_directions_do_not(runner: Executor) -> None:
    assert facts(runner, "planted_kernels:DeepBidirectionalLSTM", n=10)["depth_declared"] == 2 * (7 * 10 + 1)


def test_somebodys_own_kernel_may_declare_its_inside(runner: Executor) -> None:
    assert facts(runner, "planted_kernels:RunsItsOwnKernel", n=12)["depth"] is None
    found = facts(runner, "planted_kernels:DeclaresItsOwnKernel", n=12)
    assert (found["depth"], found["depth_declared"]) == (12, 12)


@pytest.mark.parametrize(
    ("layer", "depth"),
    [
        ("AddsToSlices", 3),  # tanh, the sum, and the assignment of `y[:, t] += …`
        ("AddsToRows", 2),
        ("PutsRows", 4),  # the rows, tanh or not; their sum; the assignment
        ("AddsToHalves", 4),  # complex, a sum, its assignment, and a copy of the real parts
        ("ReusesMemory", 3),  # tanh, times two, and the assignment
        ("ReusesHalves", 3),
        ("ListOfTensors", 7),  # cos, four times sin, and the two operations on the list
        ("ListOfSlices", 2),
        ("LooksAtASum", 2),  # the sum and its comparison
    ],
)
def test_parts_that_do_not_wait_for_one_another_are_no_chain(layer: str, depth: int, runner: Executor) -> None:
    found = [facts(runner, f"core.trial.counts.slices:{layer}", n=n, b=2)["depth"] for n in (4, 16)]
    assert found == [depth, depth]


def test_a_slice_that_needs_the_one_before_is_a_chain(runner: Executor) -> None:
    assert facts(runner, "core.trial.counts.slices:AddsUpSlices", n=16, b=2)["depth"] == 2 * 16


@pytest.mark.parametrize(
    ("layer", "depth"),
    [
        ("FollowsNumbers", None),
        ("CarriesAFloat", None),
        ("CarriesAFloatOfAList", None),
        ("ReadsOneNumber", 2),
        ("CutsTokens", None),
        ("SlicesTokens", None),
        ("SelectsAToken", None),
        ("SplitsTokens", None),
        ("CountsTokens", None),
        ("CountsByMask", None),
        ("CountsLater", None),
        ("LooksAtRows", 2),  # exp and the rows
        ("LooksAtTheEnd", 3),  # exp, sum, as whole numbers
        ("HasLengths", 2),  # exp and together
        # Router, softmax, the largest, compare, the numbers, the tokens, the expert, its weight, and the sum.
        ("ChoosesExperts", 9),
        ("CopiesItsState", 3 * 16 + 1),  # copy, sum, tanh of each step; the steps together
        ("SetsItsStorage", 2),
        ("DeclaresItsWork", None),
        ("DeclaresItsWorkToTorch", None),
        ("Pickles", None),
    ],
)
def test_what_needs_what_python_reads_is_known_or_told(layer: str, depth: int | None, runner: Executor) -> None:
    found = facts(runner, f"core.trial.counts.dependent:{layer}", n=16, d=8, h=1)
    assert found["depth"] == depth
    assert any("depth: " in reason or ", depth" in reason for reason in found["facts_unknown"]) == (depth is None)
