"""What is called past torch's dispatcher is unknown, and not too small."""

import ctypes
import sys
from collections.abc import Callable

import pytest
import torch
from core.trial.counts.unseen import UNSEEN_BYTES
from torch import Tensor

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.call_memory import exceeds_traced
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.counts.operations import Observer, Storages, UntrackedWrites

CASE = Case("attention.packed", 16, 8, 2)


def test_where_a_triton_kernel_ran_and_no_operator_stands_for_it_work_and_traffic_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.core.trial.compilation.triton_kernels", lambda: 1)
    facts = collect_metrics(CASE, seed=0)
    assert [facts[name] for name in ("flops", "flops_full", "ops", "depth", "min_bytes")] == [None] * 5
    assert facts["peak_bytes"] > 0
    assert facts["facts_unknown"] == [
        "flops, ops, depth, min_bytes: a Triton kernel is called past torch's dispatcher, and not seen"
    ]


@pytest.mark.parametrize("layer", ["Numpy", "NumpyInTheMiddle", "WrittenByHand", "KeepsItsResult"])
def test_what_is_computed_past_torch_is_unknown_and_not_free(layer: str) -> None:
    facts = collect_metrics(Case(f"core.trial.counts.unseen:{layer}", 16, 8, 1), seed=0)
    assert [facts[name] for name in ("flops", "flops_full", "ops", "depth", "min_bytes")] == [None] * 5
    reason, *of_memory = facts["facts_unknown"]
    assert reason.startswith("flops, ops, depth, min_bytes: a part of its result may be of a kernel bound by hand")
    # Numpy's memory is its own; what is handed to a kernel by hand is torch's.
    numpys = layer.startswith("Numpy")
    assert (facts["peak_bytes"] is None, len(of_memory)) == (numpys, numpys)


@pytest.mark.parametrize("layer", ["FillsAnArray", "FillsAsArray", "FillsBytes", "FillsAFile"])
def test_memory_from_outside_torch_leaves_the_peak_unknown_though_only_torch_writes_it(layer: str) -> None:
    facts = collect_metrics(Case(f"core.trial.counts.unseen:{layer}", 16, 8, 1), seed=0)
    assert facts["facts_unknown"] == [
        "peak_bytes: memory from outside torch, as of numpy, takes part in the call, and torch does not count it"
    ]
    assert facts["peak_bytes"] is None
    assert facts["flops"] == 2 * 16 * 8**2


def test_an_array_that_exists_before_the_call_is_a_weight_and_not_in_the_peak() -> None:
    facts = collect_metrics(Case("core.trial.counts.unseen:HasAnArray", 16, 8, 1), seed=0)
    assert facts["facts_unknown"] == []
    assert facts["peak_bytes"] == 2 * 4 * 16 * 8  # the projection and its product with the table
    assert facts["weights_bytes"] == 4 * (8 * 8 + 8 + 8)


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
@pytest.mark.parametrize(
    ("layer", "forward_flops"),
    [("Identity", 0), ("HasConstants", 0), ("FillsWhatWasEmpty", 2 * 16 * 8**2), ("IgnoresTheSum", 4 * 16**2 * 8)],
)
def test_what_is_only_laid_out_by_hand_is_known(layer: str, forward_flops: int, mode: str) -> None:
    facts = collect_metrics(Case(f"core.trial.counts.unseen:{layer}", 16, 8, 1, mode=mode), seed=0)
    assert facts["facts_unknown"] == []
    assert facts["flops"] == forward_flops * {"forward": 1, "train": 3, "backward": 2}[mode]


X, ROWS = torch.randn(6, 4), torch.arange(6)
EVERY = torch.ones(6, 4, dtype=torch.bool)
# Each writes what the call computes over new memory, or over a copy of it.
OVERWRITE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index_copy": lambda new, y: new.index_copy(0, ROWS, y),
    "half by half": lambda new, y: new.index_copy(0, ROWS[:3], y[:3]).index_copy(0, ROWS[3:], y[3:]),
    "index_fill": lambda new, y: new.index_fill(0, ROWS, y[0, 0]),
    "index_put": lambda new, y: new.index_put([ROWS], y),
    "scatter": lambda new, y: new.scatter(0, ROWS[:, None].expand(6, 4), y),
    "slice_scatter": lambda new, y: new.slice_scatter(y),
    "select_scatter": lambda new, y: new[:1].select_scatter(y[0], 0, 0),
    "diagonal_scatter": lambda new, y: new[:1, :1].diagonal_scatter(y[0, :1]),
    "as_strided_scatter": lambda new, y: new.as_strided_scatter(y, (6, 4), (4, 1)),
    "masked_scatter": lambda new, y: new.masked_scatter(EVERY, y),
    "masked_scatter_": lambda new, y: new.masked_scatter_(EVERY, y),
    "masked_fill": lambda new, y: new.masked_fill(EVERY, y[0, 0]),
    "masked_fill_": lambda new, y: new.masked_fill_(EVERY, y[0, 0]),
    "where": lambda new, y: torch.where(EVERY, y, new),
    "put": lambda new, y: new.put(torch.arange(24), y),
}


def is_past_torch(call: Callable[[], Tensor]) -> bool:
    storages = Storages()
    written = UntrackedWrites(storages)
    with Observer(storages, [written.add]):
        result = call()
    return written.past_torch([X, ROWS, EVERY], [result])


@pytest.mark.parametrize("operator", OVERWRITE)
def test_new_memory_that_operations_overwrite_or_copy_hides_a_kernel_only_if_one_wrote_it(operator: str) -> None:
    def written_by_hand() -> Tensor:
        new = torch.empty(6, 4)
        ctypes.memset(new.data_ptr(), 0, 4)  # one element, as a kernel does that gets the address
        return OVERWRITE[operator](new, X * 2)

    assert not is_past_torch(lambda: OVERWRITE[operator](torch.empty(6, 4), X * 2))
    assert is_past_torch(written_by_hand)


def test_lengths_that_torch_fills_past_its_dispatcher_hide_nothing() -> None:
    facts = collect_metrics(Case("core.trial.counts.unseen:Unpacks", 16, 8, 1, batch_size=3), seed=0)
    assert facts["facts_unknown"] == []
    assert facts["flops"] == 3 * 2 * 16 * 8**2
    assert facts["depth"] > 0


def test_without_one_they_are_known() -> None:
    facts = collect_metrics(CASE, seed=0)
    assert facts["flops"] == facts["flops_claimed"]
    assert facts["facts_unknown"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("layer", ["Mallocs", "Maps", "FillsAByteArray"])
def test_memory_allocated_outside_torch_makes_the_peak_unknown(layer: str, runner: Executor) -> None:
    facts = runner.run("facts", Case(f"core.trial.counts.unseen:{layer}", 16, 8, 1)).values
    assert [facts[name] for name in ("peak_bytes", "saved_bytes", "transient_bytes")] == [None] * 3
    assert facts["peak_traced_bytes"] < 2**16
    assert facts["peak_resident_bytes"] == pytest.approx(UNSEEN_BYTES, rel=0.5)
    (reason,) = facts["facts_unknown"]
    assert reason.startswith("peak_bytes: the process grew by far more memory than torch allocated")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("layer", ["ComputesInAThread", "ComputesInAPool"])
def test_what_threads_of_the_layer_compute_is_unknown_and_not_free(layer: str, mode: str, runner: Executor) -> None:
    facts = runner.run("facts", Case(f"core.trial.counts.unseen:{layer}", 16, 8, 1, mode=mode)).values
    counts = ("flops", "flops_full", "ops", "depth", "min_bytes", "peak_bytes", "saved_bytes", "kept_bytes")
    assert {name: facts[name] for name in counts} == dict.fromkeys(counts)
    why = "threads of the layer's own work in its call, and torch counts only the thread that calls"
    assert facts["facts_unknown"] == [f"flops, ops, depth, min_bytes: {why}", f"peak_bytes, first_call_bytes: {why}"]


@pytest.mark.parametrize(("layer", "n"), [("FragmentsTheHeap", 16), ("HasConstants", 4096)])
@pytest.mark.parametrize("allocator", ["default", "steady"])
def test_memory_of_torch_alone_is_known_whatever_the_heap_does_with_it(
    layer: str, n: int, allocator: str, runner: Executor
) -> None:
    facts = runner.run("facts", Case(f"core.trial.counts.unseen:{layer}", n, 8, 1, allocator=allocator)).values
    assert facts["facts_unknown"] == []
    assert facts["peak_bytes"] == facts["peak_traced_bytes"] > 0


def test_what_autograd_keeps_for_each_of_many_small_operations_is_no_memory_of_the_layer() -> None:
    # rnn.gru at n = 2048, d = 16 in training, as measured.
    resident, traced, operations = 26 * 2**20, 1.4 * 2**20, 88_000
    assert not exceeds_traced(resident, traced, 1, operations)
    assert exceeds_traced(resident, traced, 1, 0)
