"""The laws of a run's lines, and laws.csv."""

import json
import math
from dataclasses import replace

import pytest
from rows import SIZES, lines, usual_lines

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.study.laws.fitted_laws import LAW_COLUMNS, FittedLaw, fit_laws, laws_table
from harness.study.laws.laws import Range
from harness.study.laws.series import page_faults_of

LISTED = [
    *("impl", "mode", "dtype", "device", "mask", "metric", "law", "terms"),
    *("exponent_n", "exponent_n_lo", "exponent_n_hi", "exponent_d", "exponent_d_lo", "exponent_d_hi"),
    *("cv_error", "holdout_error", "determined"),
]


def counted(line: CaseResult) -> CaseResult:
    """With the exact counts of attention, or of a recurrence."""
    n, d, h = line.seq_len, line.d_model, line.num_heads
    if line.impl == "rnn.torch":
        return replace(line, flops=4 * n * d * d, depth=3 * n + 1, ops=4 * n + 11, min_bytes=32 * n * d + 8 * d * d)
    work, traffic = 8 * n * d * d + 4 * n * n * d, 24 * h * n * n + 48 * n * d
    return replace(line, flops=work, depth=7, ops=35 * h + 5, min_bytes=traffic)


def law_of(laws: list[FittedLaw], impl: str, metric: str) -> FittedLaw:
    [found] = [law for law in laws if (law.series.impl, law.series.metric) == (impl, metric)]
    return found


@pytest.fixture(scope="module")
def laws() -> list[FittedLaw]:
    return fit_laws([counted(line) for line in usual_lines()])


def test_exact_counts_have_whole_coefficients(laws: list[FittedLaw]) -> None:
    assert str(law_of(laws, "attention.fused", "flops").law) == "4 n²·d + 8 n·d²"
    assert str(law_of(laws, "rnn.torch", "flops").law) == "4 n·d²"
    assert str(law_of(laws, "rnn.torch", "depth").law) == "3 n + 1"
    assert str(law_of(laws, "attention.naive", "depth").law) == "7"
    assert str(law_of(laws, "attention.naive", "memory").law) == "8 n²"


def test_time_has_terms_of_what_is_counted(laws: list[FittedLaw]) -> None:
    fused = law_of(laws, "attention.fused", "time")
    assert {str(term) for term in fused.law.terms} == {"n·d²", "n²·d"}
    assert fused.law.determined
    assert {str(term) for term in law_of(laws, "rnn.torch", "time").law.terms} == {"n·d²"}


def test_softmax_passes_over_the_scores_which_no_count_tells(laws: list[FittedLaw]) -> None:
    expected = {str(term) for term in law_of(laws, "attention.fused", "time").expected}
    assert {"1", "n²·d", "n·d²", "h·n²", "h", "n·d"} == expected


def test_exponents_are_those_at_the_largest_sizes(laws: list[FittedLaw]) -> None:
    fused = law_of(laws, "attention.fused", "time")
    # 8nd² + 4n²d at n = 2048, d = 256: one part in five is linear.
    assert fused.exponent_n is not None
    assert fused.exponent_n.value == pytest.approx(1.8, abs=0.01)
    assert fused.exponent_d is not None
    assert fused.exponent_d.value == pytest.approx(1.2, abs=0.01)
    assert fused.exponent_n.lo <= 1.8 <= fused.exponent_n.hi


def test_each_setting_has_laws_of_its_own() -> None:
    both = [replace(line, mode=mode) for mode in ("forward", "train") for line in usual_lines()]
    assert len(fit_laws(both)) == 2 * len(fit_laws(usual_lines()))


def test_without_counts_every_term_is_considered() -> None:
    fused = law_of(fit_laws(usual_lines()), "attention.fused", "time")
    assert fused.expected == ()
    assert {"n·d²", "n²·d"} <= {str(term) for term in fused.law.terms}


def test_a_run_of_one_size_has_laws_that_are_not_determined() -> None:
    found = fit_laws([counted(line) for line in usual_lines() if line.seq_len == 64])
    assert found
    assert all(not law.law.determined for law in found if law.series.metric == "time")
    assert all(law.exponent_n is None for law in found)


def test_what_failed_or_was_not_timed_has_no_law_of_time() -> None:
    untimed = [replace(line, time_s=None, time_lo_s=None, time_hi_s=None) for line in usual_lines()]
    assert {law.series.metric for law in fit_laws(untimed)} == {"memory"}
    assert fit_laws([]) == []


def test_one_trial_bounds_nothing_and_has_a_law_all_the_same() -> None:
    single = [replace(line, time_lo_s=None, time_hi_s=None) for line in usual_lines()]
    law = law_of(fit_laws(single), "rnn.torch", "time")
    assert all((point.lo, point.hi) == (0.0, math.inf) for point in law.series.points)
    assert {str(term) for term in law.law.terms} >= {"n·d²"}


def test_a_planted_change_of_kernel_is_a_break() -> None:
    cases = [Case("attention.naive", n, d, h) for n in SIZES for d in (128, 256) for h in (2, 8)]
    jumped = lines(
        cases, lambda c: 1e-8 * c.seq_len * c.d_model * (3 if c.seq_len >= 512 else 1), lambda c: 8 * c.seq_len
    )
    [row] = laws_table([law_of(fit_laws(jumped), "attention.naive", "time")]).to_dict("records")
    assert json.loads(row["breaks"]) == [512]


def test_the_table_has_the_columns_that_are_promised_and_terms_with_their_intervals(laws: list[FittedLaw]) -> None:
    table = laws_table(laws)
    assert list(table.columns[: len(LISTED)]) == LISTED
    assert tuple(table.columns) == LAW_COLUMNS
    terms = json.loads(table.loc[(table.impl == "rnn.torch") & (table.metric == "flops"), "terms"].item())
    assert terms == {"n·d²": {"value": 4.0, "lo": 4.0, "hi": 4.0}}
    assert list(laws_table([]).columns) == list(LAW_COLUMNS)


def test_page_faults_have_a_price_only_where_one_was_measured() -> None:
    cases = [Case("attention.packed", n, 64, 4) for n in (512, 1024, 2048, 4096)]
    of_layer = [
        replace(
            line,
            block_sizes=json.dumps([[16 * line.seq_len**2, 2]]),
            mapped_bytes=32 * line.seq_len**2 if line.seq_len > 1024 else 0,  # blocks of 32 MiB and more
            page_fault_s=0.0,
        )
        for line in lines(cases, lambda case: 1e-9 * case.seq_len**2, lambda case: 16 * case.seq_len**2)
    ]
    assert page_faults_of(of_layer) is None
    priced = [replace(line, page_fault_s=1e-7) for line in of_layer[1:]]
    found = page_faults_of([of_layer[0], *priced])
    assert found is not None
    assert found.page_s == pytest.approx(1e-7)


def test_bytes_that_are_0_at_some_sizes_have_no_law_and_the_reason_is_told() -> None:
    freed = [replace(line, peak_bytes=max(0, line.seq_len - 300) * 64) for line in usual_lines()]
    memory = law_of(fit_laws(freed), "rnn.torch", "memory")
    assert str(memory.law) == "?"
    assert not memory.law.determined
    assert memory.law.reason == "it is 0 at n = 64, and a law needs costs above 0"
    assert memory.exponent_n is None
    with pytest.raises(ValueError, match="memory has no law: it is 0 at n = 64"):
        memory.predict(4096, 128, 1, 1)
    [row] = laws_table([memory]).to_dict("records")
    assert (row["law"], row["determined"], row["reason"]) == ("?", False, memory.law.reason)


def test_two_widths_tell_no_exponent_of_the_width_unless_a_claim_gives_the_counts() -> None:
    unclaimed = [counted(line) for line in usual_lines()]
    claimed = [replace(line, flops_claimed=line.flops) for line in unclaimed]
    assert law_of(fit_laws(unclaimed), "rnn.torch", "flops").exponent_d == Range(2.0, -math.inf, math.inf)
    assert law_of(fit_laws(claimed), "rnn.torch", "flops").exponent_d == Range(2.0, 2.0, 2.0)
    times = law_of(fit_laws(unclaimed), "rnn.torch", "time")
    assert times.law.determined
    assert times.exponent_d is not None
    assert times.exponent_d.hi == math.inf
