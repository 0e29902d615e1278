"""Work, depth and path against counts that are exact."""

import math
from dataclasses import replace

import pytest
from analysis.measured import Cost, attention, measured, verdict

from harness.analysis.claims_table import verdicts
from harness.analysis.fitted_laws import fit_laws


def test_work_is_confirmed_when_every_count_is_the_claim_times_the_batch() -> None:
    one = verdict("work", measured("attention.fused", attention))
    assert (one.claimed, one.verdict, one.reason) == ("8nd² + 4n²d", "confirmed", "to the last digit in 24 cases")


def test_one_flop_too_many_refutes_work_and_the_case_is_named_with_both_numbers() -> None:
    one = verdict("work", measured("attention.fused", lambda n, d, h: attention(n, d, h) + (n == 512)))
    claimed = 2 * attention(512, 128, 2)
    assert one.verdict == "refuted"
    assert one.reason == f"at n = 512, d = 128, h = 2 it claims {claimed:,} FLOPs and does {claimed + 2:,}"


def test_what_was_measured_of_work_is_its_law_where_the_counts_have_one() -> None:
    of = [replace(line, batch_size=1, flops=line.flops // 2) for line in measured("attention.fused", attention)]
    assert verdict("work", of, fit_laws(of)).measured == "4 n²·d + 8 n·d²"
    assert verdict("work", of[:1]).measured == "10,485,760 at n = 64, d = 128"
    assert verdict("work", of[:1]).reason == "to the last digit in the one case measured"


def test_work_nobody_knows_is_undetermined_with_the_reason_why() -> None:
    one = verdict("work", measured("attention.fused", facts_unknown="flops: mylib::scan has no formula"))
    assert (one.verdict, one.reason) == ("undetermined", "its work is not known: flops: mylib::scan has no formula")
    failed = measured("attention.fused", status="oom", reason="can't allocate")
    assert verdict("work", failed).reason == "its work is not known: oom: can't allocate"


def test_work_under_a_causal_mask_may_be_claimed_with_or_without_what_it_leaves_out() -> None:
    of = [replace(line, flops=line.flops // 2 + 1) for line in measured("attention.fused", attention)]
    assert verdict("work", of).verdict == "confirmed"


def test_in_training_the_work_of_both_passes_is_judged_and_what_is_claimed_of_one_pass_is_not() -> None:
    of = measured("rnn.torch", lambda n, d, h: 12 * n * d * d - 2 * d * d, heads=(1,), mode="train")
    assert {one.quantity for one in verdicts(of, [])} == {"work_train", "time"}
    assert verdict("work_train", of).verdict == "confirmed"


def test_padded_head_sizes_on_a_gpu_refute_nothing() -> None:
    of = measured("attention.fused", lambda n, d, h: attention(n, d, h) + 1, widths=(24,), device="cuda")
    one = verdict("work", [line for line in of if line.num_heads == 8])
    assert (one.verdict, "padded" in one.reason) == ("undetermined", True)


def test_lines_that_claim_no_work_confirm_none() -> None:
    of = [replace(line, flops_full=None) for line in measured("their:Layer", attention)]
    told = [replace(line, flops_claimed=line.flops) for line in of]
    assert verdict("work", told[:2] + of[2:]).reason == "to the last digit in 2 of 24 cases, the others claim nothing"
    wrong = verdict("work", [*of[1:], replace(told[0], flops_claimed=told[0].flops + 1)])
    assert (wrong.verdict, wrong.reason.startswith("at n = 64, d = 128, h = 2 it claims")) == ("refuted", True)


def test_where_no_case_counted_claims_work_it_is_undetermined() -> None:
    of = measured("their:Layer", attention)
    uncounted = replace(of[0], flops=None, flops_full=None, flops_claimed=1)
    one = verdict("work", [uncounted, *of[1:]])
    assert (one.verdict, one.reason) == ("undetermined", "no case that was counted claims anything")


def test_a_depth_that_is_the_same_at_every_n_is_of_order_1() -> None:
    of = measured("attention.fused", depth=lambda n, d, h: 5, depth_declared=3)
    one = verdict("depth", of)
    assert (one.claimed, one.measured, one.verdict) == ("O(1)", "5", "confirmed")
    assert "up to 3 of these operations are declared" in one.reason
    assert verdict("path", of).verdict == "confirmed"


def test_a_depth_that_differs_between_two_n_is_not_of_order_1() -> None:
    one = verdict("depth", measured("attention.fused", depth=lambda n, d, h: 5 + (n > 1000)))
    assert one.verdict == "refuted"
    assert one.reason.startswith("5 at n = 64 and 6 at n = 2048")


def test_heads_and_widths_may_change_the_depth_and_leave_its_order_in_n() -> None:
    assert verdict("depth", measured("attention.naive", depth=lambda n, d, h: 4 + 3 * h)).verdict == "confirmed"


@pytest.mark.parametrize("constant", [0, 2, 5000])
def test_a_depth_on_a_line_over_n_is_of_order_n_whatever_its_constants(constant: int) -> None:
    of = measured("rnn.elman", depth=lambda n, d, h: 3 * n + constant, heads=(1,))
    one = verdict("depth", of)
    assert (one.measured, one.verdict) == ("3n" + (f" + {constant}" if constant else ""), "confirmed")
    path = verdict("path", of)
    assert (path.verdict, path.measured) == ("confirmed", f"at most {one.measured}")
    assert path.reason.startswith("upper bound: the longest dependency chain")


@pytest.mark.parametrize("depth", [lambda n, d, h: 7, lambda n, d, h: n.bit_length(), lambda n, d, h: n * n])
def test_a_depth_of_another_order_than_n_is_refuted(depth: Cost) -> None:
    assert verdict("depth", measured("rnn.elman", depth=depth, heads=(1,))).verdict == "refuted"


def test_two_n_can_tell_that_a_depth_does_not_rise_but_not_its_order() -> None:
    def at_two(depth: Cost) -> str:
        return verdict("depth", measured("rnn.elman", depth=depth, heads=(1,), sizes=(64, 128))).verdict

    assert at_two(lambda n, d, h: 3 * n + 2) == "confirmed"
    assert at_two(lambda n, d, h: 3 * n + 5000) == "undetermined"
    assert at_two(lambda n, d, h: n + 64) == "undetermined"
    assert at_two(lambda n, d, h: 7) == "refuted"


@pytest.mark.parametrize("constant", [500, 5000])
def test_a_depth_that_bends_up_out_of_its_constant_is_not_refuted(constant: int) -> None:
    of = measured("rnn.elman", depth=lambda n, d, h: constant + n + -(-n // 100), heads=(1,), sizes=(64, 128, 256, 512))
    for quantity in ("depth", "path"):
        one = verdict(quantity, of)
        assert (one.verdict, "still rising: larger n would tell" in one.reason) == ("undetermined", True)


@pytest.mark.parametrize("depth", [lambda n, d, h: 90 + n.bit_length(), lambda n, d, h: 90 + math.isqrt(n)])
def test_a_depth_that_bends_down_is_refuted_whatever_its_constant(depth: Cost) -> None:
    of = measured("rnn.elman", depth=depth, heads=(1,))
    assert (verdict("depth", of).verdict, verdict("path", of).verdict) == ("refuted", "refuted")


def test_steps_in_blocks_refute_no_depth_between_n_that_are_close() -> None:
    of = measured("rnn.elman", depth=lambda n, d, h: 3 * -(-n // 64) + 2, heads=(1,), sizes=(40, 50, 64, 70))
    for quantity in ("depth", "path"):
        one = verdict(quantity, of)
        assert (one.verdict, "no n is twice another" in one.reason) == ("undetermined", True)


def test_one_series_that_tells_a_depth_refutes_it_beside_one_that_does_not() -> None:
    short = measured("rnn.elman", depth=lambda n, d, h: 5, heads=(1,), widths=(256,), sizes=(40, 50))
    for quantity in ("depth", "path"):
        one = verdict(quantity, short + measured("rnn.elman", depth=lambda n, d, h: 7, heads=(1,), widths=(128,)))
        assert one.verdict == "refuted"


def test_one_n_tells_no_order() -> None:
    of = measured("rnn.elman", depth=lambda n, d, h: 3 * n, heads=(1,), sizes=(64,))
    assert (verdict("depth", of).verdict, verdict("depth", of).measured) == ("undetermined", "192 at n = 64")
    assert verdict("path", of).verdict == "undetermined"


def test_a_path_cannot_be_longer_than_the_longest_chain() -> None:
    assert verdict("path", measured("rnn.elman", depth=lambda n, d, h: 7, heads=(1,))).verdict == "refuted"


def test_two_n_cannot_tell_how_long_a_path_is() -> None:
    one = verdict("path", measured("rnn.elman", depth=lambda n, d, h: 100 + 3 * n, heads=(1,), sizes=(16, 32)))
    assert (one.verdict, "two n cannot tell its order" in one.reason) == ("undetermined", True)


def test_a_long_chain_does_not_tell_that_there_is_no_short_path() -> None:
    one = verdict("path", measured("attention.naive", depth=lambda n, d, h: 3 * n))
    assert (one.verdict, "cannot be seen" in one.reason) == ("undetermined", True)


def test_a_depth_of_log_n_is_confirmed_by_as_many_operations_more_at_each_doubling() -> None:
    scan = measured("rnn.linear_scan", depth=lambda n, d, h: 7 + 4 * (n - 1).bit_length(), heads=(1,))
    assert verdict("depth", scan).verdict == "confirmed"
    two = measured("rnn.linear_scan", depth=lambda n, d, h: 7 + 4 * (n - 1).bit_length(), heads=(1,), sizes=(64, 128))
    assert verdict("depth", two).verdict == "undetermined"
    loop = measured("rnn.linear_scan", depth=lambda n, d, h: 7 + 4 * n, heads=(1,))
    assert verdict("depth", loop).verdict == "refuted"


@pytest.mark.parametrize("sizes", [(64, 128, 256), (48, 96, 100, 192, 384)])
def test_a_depth_of_log_n_is_confirmed_at_n_that_are_no_powers_of_two(sizes: tuple[int, ...]) -> None:
    of = measured("rnn.linear_scan", depth=lambda n, d, h: 4 + 2 * (n - 1).bit_length(), heads=(1,), sizes=sizes)
    one = verdict("depth", of)
    assert (one.verdict, one.measured) == ("confirmed", "2·log n + 4")


def test_a_depth_that_rises_once_a_block_of_tokens_is_of_order_n() -> None:
    one = verdict("depth", measured("rnn.elman", depth=lambda n, d, h: 9 + 2 * n // 64, heads=(1,)))
    assert (one.verdict, one.measured) == ("confirmed", "0.03125n + 9")


def test_under_a_mask_work_may_be_less_than_claimed_and_more_is_another_way_to_compute() -> None:
    less = measured("attention.fused", lambda n, d, h: 8 * n * d * d + 2 * n * (n + 1) * d, mask="causal")
    one = verdict("work", less)
    assert (one.verdict, "what the mask hides is left out" in one.reason) == ("confirmed", True)
    more = measured("attention.fused", lambda n, d, h: 8 * n * d * d + 5 * n * n * d, mask="causal")
    assert verdict("work", more).verdict == "undetermined"
    far_less = measured("attention.fused", lambda n, d, h: 2 * n * d * d, mask="causal")
    assert verdict("work", far_less).verdict == "undetermined"
    unmasked = measured("attention.fused", lambda n, d, h: 8 * n * d * d + 2 * n * (n + 1) * d)
    assert verdict("work", unmasked).verdict == "refuted"


def test_a_backward_pass_is_held_against_training_less_the_forward_pass() -> None:
    of = measured("attention.packed", lambda n, d, h: 16 * n * d * d + 8 * n * n * d, mode="backward")
    one = verdict("work_backward", of)
    assert (one.claimed, one.verdict) == ("16nd² + 8n²d", "confirmed")


def test_a_token_that_is_decoded_must_cost_what_is_claimed_to_the_last_digit() -> None:
    claimed = measured("attention.fused", lambda n, d, h: 8 * d * d + 4 * n * d, mode="decode", mask="causal")
    assert verdict("work_decode", claimed).verdict == "confirmed"
    less = measured("attention.fused", lambda n, d, h: 2 * d * d, mode="decode", mask="causal")
    assert verdict("work_decode", less).verdict == "refuted"


def test_what_a_layer_does_to_obey_a_mask_refutes_no_claim_by_order() -> None:
    grows = {"memory": lambda n, d, h: 4 * n * n + n * d, "depth": lambda n, d, h: 3 * n}
    masked = measured("attention.linear.parallel", attention, **grows, mask="causal")
    for quantity in ("memory", "depth"):
        one = verdict(quantity, masked)
        assert (one.verdict, one.reason.startswith("claimed without a mask")) == ("undetermined", True)
        assert verdict(quantity, measured("attention.linear.parallel", attention, **grows)).verdict == "refuted"


def test_of_a_source_nothing_is_claimed() -> None:
    assert verdicts(measured("attention.packed", attention, kv_len=128), []) == []
