"""The expected time of a sweep, on costs and rates that the tests choose."""

from dataclasses import replace

import pytest

from harness.core.config import Precision
from harness.core.model.sweep_axes import Case
from harness.core.run.expected_time import (
    REPORT_S,
    START_S,
    CallCosts,
    ExpectedTime,
    Rates,
    claimed_costs,
    costs_by_claims,
    costs_by_growth,
    costs_of_facts,
)

CASE = Case("attention.fused", 1024, 256, 8, threads=2)
PRECISION = Precision(target=0.05, min_rounds=3, max_rounds=10, trial_s=0.01, timeout_s=60, case_s=0.6, patience_s=1)
RATES = {("float32", "cpu", 2): Rates(1e11, 3e10)}


def test_a_case_of_short_calls_gets_nearly_all_rounds_and_one_of_long_calls_the_fewest() -> None:
    cheap, dear = CASE.at("seq_len", 64), CASE.at("seq_len", 16384)
    expected = ExpectedTime(PRECISION, RATES)
    assert (expected.trials(cheap), expected.trials(dear)) == (10, 3)


def test_a_call_whose_flops_take_longer_than_a_trial_may_times_out_and_is_named() -> None:
    endless = CASE.at("seq_len", 2**20)
    expected = ExpectedTime(PRECISION, RATES)
    assert expected.trials(endless) == 1
    assert not expected.times_out(CASE)
    (sentence,) = expected.timeouts([CASE, endless])
    assert sentence.startswith(
        "attention.fused n=1048576 d=256 h=8 threads=2: certain timeout. One call takes at least"
    )


def test_a_process_on_a_gpu_takes_seconds_beside_the_calls_of_its_layer() -> None:
    # Measured on an H200: 25 cases with 3 trials each, of calls up to 0.1 s, took 253 s.
    quick = replace(PRECISION, target=0.05, max_rounds=20)
    sizes = [512, 1024, 2048, 4096, 8192]
    on_gpu = [replace(CASE, seq_len=n, d_model=1024, num_heads=16, batch_size=4, device="cuda") for n in sizes]
    rates = {("float32", "cuda", 2): Rates(7e14, 4e12)}
    expected = ExpectedTime(quick, rates)
    assert 250 / 2 < 5 * expected.sweep_s(on_gpu) < 250 * 2


def test_a_gpu_of_unknown_rates_is_expected_to_be_faster_than_a_cpu() -> None:
    large = replace(CASE, seq_len=8192, d_model=1024, num_heads=16)
    expected = ExpectedTime(PRECISION)
    assert expected.call_s(replace(large, device="cuda")) < expected.call_s(large) / 50


def test_without_known_rates_no_timeout_is_certain() -> None:
    assert not ExpectedTime(PRECISION).times_out(CASE.at("seq_len", 2**20))


def test_no_timeout_is_certain_of_an_own_layer_whose_flops_are_not_counted() -> None:
    own = replace(CASE, impl="mine:LinearTime", seq_len=2**20)
    expected = ExpectedTime(PRECISION, RATES)
    assert expected.call_s(own) > 60, "it counts as attention until its FLOPs are counted"
    assert not expected.times_out(own)
    assert ExpectedTime(PRECISION, RATES, {own: CallCosts(1e13, 10, 1e9)}).times_out(own)


def test_measured_trials_replace_the_prediction_of_their_case_and_correct_that_of_others() -> None:
    expected, other = ExpectedTime(PRECISION, RATES), replace(CASE, d_model=512)
    before = expected.trial_s(other)
    for _ in range(40):
        expected.learn("time", CASE, {}, 3 * before)
    assert expected.trial_s(CASE) == pytest.approx(3 * before)
    assert expected.trial_s(other) > 2 * before


def test_slow_counting_says_that_the_machine_is_slow_and_so_lengthens_the_trials_to_come() -> None:
    expected = ExpectedTime(PRECISION, RATES)
    before, counting = expected.trial_s(CASE), expected.facts_s(CASE)
    for _ in range(200):
        expected.learn("facts", CASE, {}, 4 * counting)
    assert 3 * before < expected.trial_s(CASE) < 4 * before
    other = CASE.at("seq_len", 64)
    for _ in range(200):
        expected.learn("time", other, {}, ExpectedTime(PRECISION, RATES).trial_s(other))
    assert expected.trial_s(CASE) < 2 * before, "timed trials soon count for more than those of other kinds"


def test_counted_facts_replace_the_claims() -> None:
    expected = ExpectedTime(PRECISION, RATES)
    before = expected.call_s(CASE)
    expected.learn("facts", CASE, {"flops": 10**12, "ops": 5, "min_bytes": 0}, 0.1)
    assert expected.call_s(CASE) > 10 * before
    assert costs_of_facts({"flops": None, "ops": None, "min_bytes": None}) is None


def test_a_sweep_takes_the_sum_of_its_trials_between_start_and_report() -> None:
    expected = ExpectedTime(PRECISION, RATES)
    each = expected.facts_s(CASE) + expected.trials(CASE) * expected.trial_s(CASE)
    assert expected.sweep_s([CASE]) == pytest.approx(START_S + expected.verify_s(CASE.small()) + each + REPORT_S)
    assert expected.sweep_s([]) == START_S + REPORT_S


def test_claims_give_the_exact_flops_and_a_loop_its_operations() -> None:
    assert claimed_costs(CASE).flops == 8 * 1024 * 256**2 + 4 * 1024**2 * 256
    loop = Case("rnn.elman", 1024, 256, 1)
    assert claimed_costs(loop).ops > 4 * 1024 > claimed_costs(CASE).ops
    assert claimed_costs(replace(loop, mode="train")).flops > claimed_costs(loop).flops


def test_facts_of_small_calls_grow_as_the_claims_say() -> None:
    small = [
        (Case("rnn.elman", n, 256, 1), {"flops": 0, "ops": 3 * n, "min_bytes": 100_000 + 3000 * n})
        for n in (32, 64, 128)
    ]
    costs = costs_by_claims(Case("rnn.elman", 1024, 256, 1), small)
    assert costs.ops == pytest.approx(3 * 1024, rel=0.1)
    assert costs.bytes == pytest.approx(100_000 + 3000 * 1024, rel=0.01)


def test_three_small_calls_of_a_layer_without_claims_tell_how_it_grows() -> None:
    def facts(n: int, d: int, h: int, b: int = 1) -> dict[str, float]:
        flops = b * (3 * n * d * d + 2 * n * n * d)
        return {"flops": flops, "ops": 7 + 5 * n, "min_bytes": 16 * d * d + b * (4 * n * d + 8 * n * n * h)}

    small = [(Case("their:Layer", n, 64, 4), facts(n, 64, 4)) for n in (32, 64, 128)]
    large = Case("their:Layer", 4096, 128, 8, batch_size=2)
    exact = facts(4096, 128, 8, 2)
    assert costs_by_growth(large, small) == pytest.approx(CallCosts(exact["flops"], exact["ops"], exact["min_bytes"]))
