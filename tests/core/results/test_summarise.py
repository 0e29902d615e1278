"""From rows to a line a case."""

from dataclasses import replace

from rows import PRECISION, lines, measured, row

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import COLUMNS, table
from harness.core.results.summarise import summarise

CASE = Case("attention.fused", 64, 32, 2)


def test_the_columns_are_those_promised_in_their_order() -> None:
    assert ", ".join(COLUMNS) == (
        "impl, family, seq_len, d_model, num_heads, batch_size, mode, dtype, device, threads, allocator, mask, "
        "padding_fraction, kv_len, num_kv_heads, options, env, inputs, cache, launch, lengths, status, reason, "
        "time_s, time_lo_s, time_hi_s, time_median_s, trials, stop_reason, peak_bytes, peak_resident_bytes, "
        "peak_traced_bytes, tokens_per_s, flops, flops_full, ops, depth, depth_declared, min_bytes, "
        "weights_bytes, inputs_bytes, saved_bytes, transient_bytes, backend, compile_s, minor_faults_per_call, "
        "involuntary_switches, cpu_over_wall, steal_share, bimodal, sm_clock_mhz, flops_claimed, flops_per_byte, "
        "backend_fallback, facts_unknown, bimodal_fast_s, bimodal_slow_s, bimodal_cause, host_bound, wall_call_s, "
        "claims, host, probe_s, disturbed_share, mapped_bytes, block_sizes, page_fault_s, time_in_law_s, "
        "time_in_law_lo_s, time_in_law_hi_s, head_dim, tflops_per_s, gb_per_s, of_peak, ratio, ratio_lo, "
        "ratio_hi, gpu_time_by, queue_held, graph_s, hot_gpu_s, clean_gpu_s, host_s, energy_j, throttled_share, "
        "sustained_s, sustained_of_peak, gpu_disturbed_share, prepare_s, threads_after, suspect, output_error, "
        "output_error_max, gradient_error, gradient_error_max, error_ratio, accuracy_by, lengths_as, real_tokens, "
        "padding_share, sequence_lengths, own_axes, graph_note, allowed_error, first_call_bytes, kept_bytes, "
        "read_bytes"
    )


def test_a_measured_case_has_its_numbers() -> None:
    (line,) = summarise(measured(CASE, 0.002, 4096), PRECISION)
    assert (line.status, line.reason, line.trials, line.stop_reason) == ("ok", None, 3, "precise")
    assert (line.time_s, line.peak_bytes, line.peak_resident_bytes) == (0.002, 4096, 8192)
    assert line.tokens_per_s == 32000.0
    assert line.time_lo_s < line.time_s < line.time_hi_s <= line.time_median_s


def test_facts_and_what_follows_from_them_stand_in_the_line() -> None:
    facts = row(CASE, "facts", peak_bytes=4096, flops=800, flops_full=1000, min_bytes=400, backend="flash", depth=3)
    line = summarise([facts, *measured(CASE, 0.002, 4096)[2:]], PRECISION)[0]
    assert (line.flops, line.flops_full, line.min_bytes, line.flops_per_byte) == (800, 1000, 400, 2.0)
    assert (line.backend, line.depth, line.ops) == ("flash", 3, None)


def test_facts_that_could_not_be_taken_leave_their_cells_empty_and_say_why() -> None:
    facts = row(CASE, "facts", peak_bytes=4096, flops=None, min_bytes=400, facts_unknown=["flops: no formula", "more"])
    line = summarise([facts], PRECISION)[0]
    assert (line.flops, line.flops_per_byte, line.peak_bytes) == (None, None, 4096)
    assert line.facts_unknown == "flops: no formula; more"


def test_a_failed_case_keeps_its_reason_and_has_no_time() -> None:
    rows = [*measured(CASE, 0.002, 4096), row(CASE, "time", 4, status="killed", reason="by SIGKILL")]
    (line,) = summarise(rows, PRECISION)
    assert (line.status, line.reason, line.stop_reason, line.time_s) == ("killed", "by SIGKILL", "failed", None)
    assert line.peak_bytes == 4096


def test_an_incorrect_case_has_no_number_not_even_one_taken_before_or_beside() -> None:
    facts = row(CASE, "facts", flops=8192, min_bytes=4096, peak_bytes=4096, backend="math", own_axes="{}")
    numbers = {"flops": 99, "peak_bytes": 99, "samples_s": [1.0], "probe_s": 1e-4}
    wrong = row(CASE, "time", 3, status="incorrect", reason="late", **numbers)
    (line,) = summarise([facts, row(CASE, "compile", compile_s=2.0), *measured(CASE, 1.0, 8)[2:], wrong], PRECISION)
    assert (line.status, line.reason, line.trials, line.backend) == ("incorrect", "late", 3, "math")
    assert [line.flops, line.min_bytes, line.flops_per_byte, line.peak_bytes, line.compile_s, line.time_s] == [None] * 6


def test_the_first_failure_is_the_one_that_is_told() -> None:
    rows = [row(CASE, "verify", status="incorrect", reason="off"), row(CASE, "time", 1, status="error", reason="later")]
    assert summarise(rows, PRECISION)[0].status == "incorrect"


def test_a_case_without_all_its_trials_was_interrupted() -> None:
    assert summarise(measured(CASE, 0.002, 4096, trials=1), PRECISION)[0].stop_reason == "interrupted"
    assert summarise([row(CASE, "verify")], PRECISION)[0].time_s is None


def test_a_case_that_only_saw_a_slow_machine_is_disturbed_by_the_probe_of_the_others() -> None:
    slow = [row(CASE, "time", i, samples_s=[1.3], probe_s=1.3e-4) for i in range(PRECISION.max_rounds)]
    others = measured(Case("attention.fused", 128, 32, 2), 0.002, 4096)
    assert [line.stop_reason for line in summarise([*slow, *others], PRECISION)] == ["disturbed", "precise"]


def test_a_case_that_stopped_before_the_machine_was_seen_at_its_best_is_disturbed_and_not_interrupted() -> None:
    limits = replace(PRECISION, max_rounds=20)
    before = [row(CASE, "time", i, samples_s=[1.0], probe_s=1.3e-4) for i in range(5)]
    others = measured(Case("attention.fused", 128, 32, 2), 0.002, 4096)
    assert summarise(before, limits)[0].stop_reason == "precise"
    assert summarise([*before, *others], limits)[0].stop_reason == "disturbed"


def test_the_same_row_read_twice_counts_once() -> None:
    rows = measured(CASE, 0.002, 4096)
    assert summarise([*rows, *rows], PRECISION) == summarise(rows, PRECISION)


def test_the_table_keeps_whole_numbers_whole_where_some_are_missing() -> None:
    failed = Case("attention.fused", 128, 32, 2)
    rows = [*measured(CASE, 0.002, 123456789), row(failed, "facts", status="oom", reason="out of memory")]
    text = table(summarise(rows, PRECISION)).to_csv(index=False, float_format="%.6g")
    assert "123456789" in text
    assert text.splitlines()[0] == ",".join(COLUMNS)


def test_lines_are_in_the_order_of_their_cases() -> None:
    cases = [Case("rnn.elman", n, 32, 1) for n in (512, 64, 128)]
    assert [line.seq_len for line in lines(cases, lambda _: 1.0, lambda _: 1)] == [64, 128, 512]
