"""All facts of a case together: none lost for the sake of another, and the same each time."""

import json

import pytest

from harness.core.model.sweep_axes import DTYPES, MODES, Case
from harness.core.results.columns import COLUMNS
from harness.core.run.executor import Executor
from harness.core.trial.counts import collect
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.counts.operations import Unobservable

# Of all others, the tests of the ladder.
FIRST = (
    "rnn.elman",
    "rnn.torch",
    "attention.naive",
    "attention.packed",
    "attention.fused",
)  # Backward does each product twice.
PASSES = [("forward", 1), ("train", 3), ("backward", 2)]

KEYS = {
    *("flops", "flops_full", "ops", "depth", "depth_declared", "min_bytes"),
    *("weights_bytes", "inputs_bytes", "output_bytes", "saved_bytes", "transient_bytes", "peak_bytes"),
    *("peak_resident_bytes", "peak_traced_bytes", "backend", "backend_fallback", "facts_unknown"),
    *("mapped_bytes", "block_sizes", "page_fault_s"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("impl", FIRST)
def test_every_fact_of_our_layers_is_known_repeats_exactly_and_is_the_work_that_was_claimed(
    runner: Executor, impl: str, mode: str
) -> None:
    case = Case(impl, 20, 16, 2, batch_size=3, mode=mode)
    first, second = runner.run("facts", case).values, runner.run("facts", case).values
    assert first.keys() >= KEYS
    assert [key for key in KEYS - {"backend_fallback"} if first[key] is None] == []
    assert first["facts_unknown"] == []
    # The kernel counts in pages and lends them as it likes. A page fault is timed.
    exact = sorted(KEYS - {"peak_resident_bytes", "page_fault_s"})
    assert [first[key] for key in exact] == [second[key] for key in exact]
    assert first["flops_claimed"] == first["flops"] > 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_work_and_depth_do_not_depend_on_the_dtype_and_bytes_do(runner: Executor, dtype: str) -> None:
    facts = runner.run("facts", Case("attention.packed", 16, 8, 2, dtype=dtype)).values
    width = {"float64": 8, "float32": 4}.get(dtype, 2)
    assert facts["flops"] == 8 * 16 * 64 + 4 * 256 * 8
    assert facts["weights_bytes"] == width * (4 * 64 + 4 * 8)


def test_what_cannot_be_watched_is_told_and_its_memory_is_known_all_the_same(runner: Executor) -> None:
    facts = runner.run("facts", Case("planted_kernels:UsesATensorSubclass", 16, 8, 1)).values
    assert (facts["flops"], facts["ops"], facts["depth"], facts["min_bytes"]) == (None, None, None, None)
    assert facts["peak_bytes"] == 16 * 8 * 4
    [line] = facts["facts_unknown"]
    assert "_Dressed, not torch.Tensor" in line


@pytest.mark.parametrize(("mode", "passes"), PASSES)
def test_of_a_compiled_layer_the_work_is_known_and_the_operations_are_not(
    runner: Executor, mode: str, passes: int
) -> None:
    facts = runner.run("facts", Case("planted_kernels:IsCompiled", 16, 8, 1, mode=mode)).values
    assert facts["flops"] == 2 * 16 * 64 * passes
    assert (facts["ops"], facts["depth"], facts["min_bytes"]) == (None, None, None)
    assert "the layer is compiled" in facts["facts_unknown"][0]
    assert facts["peak_bytes"] > 0


@pytest.mark.parametrize(("mode", "passes"), PASSES)
def test_a_layer_that_does_many_things_can_be_watched(runner: Executor, mode: str, passes: int) -> None:
    facts = runner.run("facts", Case("planted_kernels:DoesManyThings", 16, 8, 1, batch_size=2, mode=mode)).values
    # The forward pass branches on a sum.
    reasons = [] if mode == "backward" else ["depth: Python reads a number"]
    assert [line[:28] for line in facts["facts_unknown"]] == reasons
    forward = 2 * (2 * 16 * 8 * 8 * 3 + 2 * 2 * 16 * 16 * 8)  # the convolution, and two products without weights
    assert facts["flops"] == passes * forward


def test_somebodys_own_claim_is_read_and_where_there_is_none_none_is_made(runner: Executor) -> None:
    facts = runner.run("facts", Case("planted:ClaimsTooLittle", 16, 8, 1, batch_size=2)).values
    assert facts["flops_claimed"] == 2 * 16 * 64
    assert runner.run("facts", Case("planted:ClaimsTooLittle", 16, 8, 1, mode="train")).values["flops_claimed"] is None
    assert runner.run("facts", Case("planted:NoHeads", 16, 8, 1)).values["flops_claimed"] is None


def test_what_somebodys_own_layer_claims_is_in_its_row_and_of_ours_in_the_registry(runner: Executor) -> None:
    facts = runner.run("facts", Case("planted:ClaimsTooLittle", 16, 8, 1, mode="train")).values
    assert json.loads(facts["claims"]) == {"work": "nd²"}
    assert runner.run("facts", Case("planted:NoHeads", 16, 8, 1)).values["claims"] is None
    assert runner.run("facts", Case("rnn.torch", 16, 8, 1)).values["claims"] is None


def test_claims_are_told_where_a_layer_has_replaced_json_dumps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "dumps", lambda *_, **__: b"")
    facts = collect_metrics(Case("planted:ClaimsTooLittle", 16, 8, 1), seed=0)
    assert json.loads(facts["claims"]) == {"work": "nd²"}


@pytest.mark.parametrize(("mode", "passes"), PASSES)
def test_a_convolution_in_groups_does_the_work_of_its_groups(runner: Executor, mode: str, passes: int) -> None:
    facts = runner.run("facts", Case("planted_kernels:ConvolvesInGroups", 16, 8, 1, batch_size=2, mode=mode)).values
    assert facts["flops"] == passes * 2 * (2 * 3 * 16 * 8)


def test_a_product_that_no_formula_is_known_of_is_unknown_and_not_nothing(runner: Executor) -> None:
    facts = runner.run("facts", Case("planted_kernels:MultipliesInThrees", 16, 8, 1)).values
    assert facts["flops"] is None
    assert "_trilinear" in facts["facts_unknown"][0]


def test_what_a_layer_holds_beside_its_weights_is_read_once(runner: Executor) -> None:
    n, d = 16, 8
    facts = runner.run("facts", Case("planted_kernels:HoldsAMask", n, d, 1)).values
    assert facts["weights_bytes"] == 0
    assert facts["min_bytes"] == 4 * (n * n + 2 * n * d)


def test_tied_weights_and_expanded_buffers_weigh_what_they_lie_in(runner: Executor) -> None:
    facts = runner.run("facts", Case("planted_kernels:TiesItsWeights", 16, 8, 1)).values
    assert facts["weights_bytes"] == 4 * (8 * 8 + 1)


def test_unknown_facts_are_named_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Unobservable("nobody may watch")

    monkeypatch.setattr(collect, "observe_call", refuse)
    facts = collect_metrics(Case("rnn.elman", 8, 8, 1), seed=0)
    (line,) = facts["facts_unknown"]
    names, _, reason = line.partition(": ")
    assert reason == "nobody may watch"
    assert set(names.split(", ")) <= COLUMNS.keys()
    assert [facts[name] for name in (*names.split(", "), "output_bytes", "read_bytes", "flops_full")] == [None] * 8
