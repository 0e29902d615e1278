"""The time of a case on a GPU: one quantity in one column, the same at all sizes of a layer."""

import math

import numpy as np
import pytest
from core.trial.timing.cuda.simulated_gpu import SimGpu
from rows import PRECISION, row

from harness.core.model.sweep_axes import Case
from harness.core.results import summarise as module
from harness.core.results.columns import CaseResult
from harness.core.results.row import InvalidRow, record_of_row, trial_of_row
from harness.core.results.summarise import summarise
from harness.core.stats.estimate import are_quiet
from harness.core.trial.timing.cuda import sample_cuda


def trial(n: int, number: int, time_s: float, held: float, graph_s: float | None = None, **others: object) -> dict:
    case = Case("rnn.elman", n, 256, 1, device="cuda")
    given = {"samples_s": [time_s] * 5, "probe_s": 1e-4, "wall_call_s": 9.0, "host_bound": True, **others}
    return row(case, "time", number, queue_held=held, graph_s=graph_s, **given)


def lines(*trials: dict) -> dict[int, CaseResult]:
    return {line.seq_len: line for line in summarise(trials, PRECISION)}


def test_a_trial_on_a_gpu_is_worth_its_median_sample_and_one_on_the_cpu_its_fast_ones() -> None:
    samples_s = [1.0, 2.0, 3.0, 1.0, 2.0, 9.0]
    on_gpu = trial(64, 1, 0.0, 1.0, samples_s=samples_s)
    on_cpu = row(Case("rnn.elman", 64, 256, 1), "time", 1, samples_s=samples_s, probe_s=1e-4)
    assert trial_of_row(on_gpu).value_s == 2.0
    assert trial_of_row(on_cpu).value_s == 1.0
    assert summarise([on_gpu], PRECISION)[0].time_s == 2.0
    assert summarise([on_cpu], PRECISION)[0].time_s == 1.0


def test_damaged_times_on_a_gpu_make_an_invalid_row() -> None:
    for damaged in ([math.inf] * 5, [math.nan] * 5, [1e-4, math.inf, math.inf]):
        with pytest.raises(InvalidRow):
            record_of_row(trial(64, 1, 0.0, 1.0, samples_s=damaged))


def test_a_layer_that_is_held_at_all_sizes_is_told_by_its_held_samples() -> None:
    found = lines(trial(64, 1, 1e-4, 1.0, 0.9e-4), trial(128, 1, 2e-4, 0.9))
    assert [line.time_s for line in found.values()] == pytest.approx([1e-4, 2e-4])
    assert [line.gpu_time_by for line in found.values()] == ["held", "held"]
    assert found[64].graph_s == 0.9e-4


def test_a_layer_that_needs_a_graph_at_one_size_is_told_by_its_graphs_at_all_sizes() -> None:
    trials = [trial(n, number, 1e-6 * n, 1.0, 0.9e-6 * n) for n in (64, 128) for number in (1, 2)]
    trials += [trial(1024, number, 0.9e-6 * 1024, 0.0, 0.9e-6 * 1024) for number in (1, 2)]
    found = lines(*trials)
    assert [line.time_s / n for n, line in found.items()] == pytest.approx([0.9e-6] * 3)
    assert {line.gpu_time_by for line in found.values()} == {"graph"}


def test_a_size_without_a_graph_stays_held_beside_the_graphs_of_other_sizes() -> None:
    found = lines(trial(64, 1, 1e-4, 1.0), trial(128, 1, 2e-4, 1.0, 1.9e-4), trial(1024, 1, 1e-3, 0.0, 1e-3))
    assert [line.gpu_time_by for line in found.values()] == ["held", "graph", "graph"]
    assert [line.time_s for line in found.values()] == pytest.approx([1e-4, 1.9e-4, 1e-3])


def test_times_with_a_warm_and_a_clean_cache_are_of_the_graph_where_the_time_is() -> None:
    own, of_graph = {"hot_gpu_s": 3.0, "clean_gpu_s": 4.0}, {"graph_hot_gpu_s": 1.0, "graph_clean_gpu_s": 2.0}
    held, alone = trial(64, 1, 1e-4, 1.0, 0.9e-4, **own, **of_graph), trial(64, 1, 1e-4, 1.0, 0.9e-4, **own)
    by_graph = trial(1024, 1, 1e-3, 0.0, 1e-3, **own)
    for trials, expected in (
        ((held,), [(3.0, 4.0)]),
        ((held, by_graph), [(1.0, 2.0), (3.0, 4.0)]),
        ((alone, by_graph), [(None, None), (3.0, 4.0)]),
    ):
        assert [(line.hot_gpu_s, line.clean_gpu_s) for line in lines(*trials).values()] == expected


def test_trials_of_a_case_on_either_side_of_the_limit_tell_one_quantity() -> None:
    line = lines(trial(64, 1, 1e-4, 1.0, 0.9e-4), trial(64, 2, 0.9e-4, 0.0, 0.9e-4))[64]
    assert (line.time_s, line.time_median_s) == pytest.approx((0.9e-4, 0.9e-4))


def test_a_time_with_launches_in_it_is_no_time_of_the_gpu() -> None:
    found = lines(trial(64, 1, 1e-4, 1.0), trial(128, 1, 5e-4, 0.0))
    assert (found[64].time_s, found[64].gpu_time_by) == (1e-4, "held")
    assert found[128].time_s is found[128].time_lo_s is found[128].tokens_per_s is found[128].gpu_time_by is None
    assert (found[128].status, found[128].wall_call_s) == ("ok", 9.0)


def test_a_trial_that_counts_no_more_leaves_no_reason_for_having_no_graph() -> None:
    before = trial(64, 1, 5e-4, 0.0, graph_note="no CUDA graph")
    assert lines(before)[64].graph_note == "no CUDA graph"
    anew = {**row(Case("rnn.elman", 64, 256, 1, device="cuda"), "reopen"), "anew": True}
    assert lines(before, anew, trial(64, 1, 1e-4, 1.0))[64].graph_note is None


def test_two_quantities_in_one_column_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_with_one_gpu_time", lambda records, impls, cases: records)
    with pytest.raises(AssertionError):
        test_a_layer_that_needs_a_graph_at_one_size_is_told_by_its_graphs_at_all_sizes()
    monkeypatch.setattr(module, "_gpu_time_by", lambda group: ["held"] * len(group.cases))
    with pytest.raises(AssertionError):
        test_a_time_with_launches_in_it_is_no_time_of_the_gpu()


def test_the_reference_workloads_of_a_gpu_and_of_the_cpu_are_not_compared() -> None:
    on_cpu = [row(Case("rnn.elman", 64, 256, 1), "time", i, samples_s=[1.0], probe_s=1e-4) for i in (1, 2)]
    on_gpu = [trial(64, i, 1e-4, 1.0, probe_s=5e-4) for i in (1, 2)]
    assert {line.disturbed_share for line in summarise([*on_cpu, *on_gpu], PRECISION)} == {0.0}


def test_a_slow_gpu_makes_its_trials_disturbed() -> None:
    trials = [trial(64, i, 1e-4 * slow, 1.0, probe_s=5e-4 * slow) for i, slow in enumerate((1, 1, 1, 1, 1.3, 1.3))]
    line = lines(*trials)[64]
    assert line.disturbed_share == pytest.approx(2 / 6)
    assert line.time_hi_s == pytest.approx(1e-4, rel=0.01)


def test_the_cost_of_a_loop_over_its_length_has_no_jump_though_graphs_are_faster_than_launches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes, trials, ways = (64, 128, 256, 320, 332, 512, 1024, 2048), [], set()
    for n in sizes:
        gpu = SimGpu(gap_s=1e-6, graph_gap_s=0.4e-6, tick_s=32e-9)
        gpu.gauge.is_open = False
        call = gpu.layer(3 * n, 2.3e-6)
        samples, extras = sample_cuda(call, 0.02, gpu.device(monkeypatch), gpu.time)
        ways.add(extras["gpu_time_by"])
        trials.append(trial(n, 1, 0.0, extras.pop("queue_held"), samples_s=samples.samples_s, **extras))
    assert ways == {"held", "graph"}
    found = lines(*trials)
    for column in ("time_s", "hot_gpu_s", "clean_gpu_s"):
        times_s = [getattr(line, column) for line in found.values()]
        assert np.polyfit(np.log(sizes), np.log(times_s), 1)[0] == pytest.approx(1.0, abs=0.02)
        per_launch_s = [time_s / (3 * n) for n, time_s in zip(sizes, times_s, strict=True)]
        assert per_launch_s == pytest.approx([2.7e-6] * len(sizes), rel=0.01), column


def test_a_trial_beside_another_process_or_too_hot_is_disturbed_though_its_probe_is_fast() -> None:
    others = (0, 0, 0, 1)
    trials = [trial(64, i, 1e-4 * (1 + one), 1.0, probe_s=5e-4, gpu_disturbed=one) for i, one in enumerate(others)]
    line = lines(*trials)[64]
    assert (line.disturbed_share, line.gpu_disturbed_share) == (0.25, 0.25)
    assert line.time_hi_s < 1.5e-4
    assert not are_quiet([trial_of_row(trials[-1])], 5e-4).any()
