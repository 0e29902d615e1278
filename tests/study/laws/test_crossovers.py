"""From which n on one impl costs more than another, between lines."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rows import lines, usual_lines

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.study.laws.crossovers import (
    COLUMNS,
    Crossover,
    crossovers,
    crossovers_table,
    layers_without_heads,
    simultaneous_quantile,
)
from harness.study.laws.fitted_laws import fit_laws

SIZES = (64, 128, 256, 512, 1024, 2048)


def known_to(share: float, of: list[CaseResult]) -> list[CaseResult]:
    """Every time with an interval of ± that share."""
    return [
        replace(line, time_lo_s=line.time_s / (1 + share), time_hi_s=line.time_s * (1 + share)) if line.time_s else line
        for line in of
    ]


def between(slower: str, faster: str, found: list[Crossover], metric: str = "time", **at: int) -> Crossover:
    [one] = [
        one
        for one in found
        if (one.slower, one.faster, one.metric) == (slower, faster, metric)
        and all(getattr(one, name) == value for name, value in at.items())
    ]
    return one


def series(
    impl: str,
    time: Callable[[int], float],
    h: int = 2,
    memory: Callable[[int], int] = lambda n: n,
    sizes: tuple[int, ...] = SIZES,
) -> list:
    cases = [Case(impl, n, 16, h) for n in sizes]
    return lines(cases, lambda case: time(case.seq_len), lambda case: memory(case.seq_len))


def test_attention_overtakes_an_rnn_where_their_costs_are_equal() -> None:
    # 8nd² + 4n²d at 10¹¹/s against 4nd² at 2·10¹⁰/s: equal at n = 3d.
    one = between("attention.fused", "rnn.torch", crossovers(known_to(0.01, usual_lines())), d_model=128, num_heads=8)
    assert one.seq_len == pytest.approx(3 * 128, rel=0.05)
    assert one.seq_len_lo < one.seq_len < one.seq_len_hi
    assert (one.measured_from, one.measured_to, one.decided) == (64, 2048, True)


def test_wider_intervals_of_time_widen_the_crossing_until_it_is_none() -> None:
    usual = [line for line in usual_lines() if line.d_model == 128 and line.num_heads != 2]
    few, some = (
        between("attention.fused", "rnn.torch", crossovers(run := known_to(share, usual), fit_laws(run)))
        for share in (0.01, 0.2)
    )
    assert some.seq_len_lo < few.seq_len_lo
    assert few.seq_len_hi < some.seq_len_hi
    # Below n = 3d attention is at most twice as fast, and by these intervals that could be noise.
    lost = between("attention.fused", "rnn.torch", crossovers(known_to(0.8, usual)))
    assert (lost.seq_len, lost.decided) == (None, False)


def test_who_is_faster_at_the_largest_n_does_not_overtake_below_it() -> None:
    one = between("rnn.torch", "attention.fused", crossovers(known_to(0.01, usual_lines())), d_model=128, num_heads=8)
    assert (one.seq_len, one.seq_len_lo, one.seq_len_hi) == (None, 2048, None)
    assert one.decided


def test_twice_the_time_everywhere_is_slower_at_every_n() -> None:
    found = crossovers(known_to(0.01, usual_lines()))
    one = between("attention.naive", "attention.fused", found, d_model=128, num_heads=8)
    assert (one.seq_len, one.seq_len_lo, one.seq_len_hi) == (0, 0, 0)


@pytest.mark.parametrize(
    ("more", "last"),
    [
        ((), 2048),  # sizes that double do not tell padding to a power of two: 4096n is then 8·1024² from 1025 on
        ((192,), 576),  # multiples of 64 do not tell padding to one
        ((257,), 513),
    ],
)
def test_memory_crosses_where_its_exact_laws_are_known(more: tuple[int, ...], last: int) -> None:
    # 8n² bytes against 4096n: equal at 512.
    run = [
        *series("attention.naive", lambda n: n, memory=lambda n: 8 * n * n, sizes=(*SIZES, *more)),
        *series("attention.fused", lambda n: n, memory=lambda n: 4096 * n, sizes=(*SIZES, *more)),
    ]
    one = between("attention.naive", "attention.fused", crossovers(run, fit_laws(run)), "memory")
    assert (one.seq_len_lo, one.seq_len_hi) == (512, pytest.approx(last, rel=0.01))
    assert one.seq_len_hi is not None
    assert one.seq_len_hi >= min(last, 513)


def padded(n: int) -> int:
    return 1 << (n - 1).bit_length()


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("sizes", [(512, 1024), (256, 512, 1024), SIZES])
def test_times_follow_their_laws_between_sizes_where_flops_surely_do(declared: bool, sizes: tuple[int, ...]) -> None:
    # At sizes that double, a layer with n² and one that pads n to a power of two are alike: from 513 on the latter
    # takes longer than 600 n, and the former from 601 on.
    run = [
        replace(line, flops=(work := 100 * line.seq_len), flops_claimed=work)
        for line in series("attention.fused", lambda n: 6e-7 * n, sizes=sizes)
    ] + [
        replace(line, flops=(work := padded(line.seq_len) ** 2), flops_claimed=work if declared else None)
        for line in series("attention.naive", lambda n: 1e-9 * padded(n) ** 2, sizes=sizes)
    ]
    one = between("attention.naive", "attention.fused", crossovers(known_to(0.01, run), fit_laws(run)))
    first, last = one.seq_len_lo, one.seq_len_hi
    if declared and sizes == SIZES:
        # Times of blocks of 64 tokens may be those of 640 from 577 on.
        assert first == 512
        assert 640 < last < 768
    else:
        # From 1025 on, the faster one may take as long as at 2048, and the slower one no longer than at 1024.
        assert (first, last) == (512, min(sizes[-1], 2048))


def test_a_crossing_after_which_the_counts_tell_steps_reaches_to_the_size_from_which_the_order_is_sure() -> None:
    # Padding to a power of two lets the padded layer be the slower one once more, from 1025 to 1367.
    work = [128 * n * 65536 + 4 * n * n * 256 for n in SIZES]
    run = [
        replace(line, flops=flops)
        for line, flops in zip(
            series("attention.naive", lambda n: 1e-6 * n + 1e-9 * n * n, sizes=SIZES), work, strict=True
        )
    ] + [
        replace(line, flops=65536 * padded(line.seq_len))
        for line in series("attention.fused", lambda n: 1.6e-6 * padded(n), sizes=SIZES)
    ]
    one = between("attention.naive", "attention.fused", crossovers(known_to(0.01, run), fit_laws(run)))
    crossing = next(n for n in range(1025, 2048) if 1e-6 * n + 1e-9 * n * n >= 1.6e-6 * 2048)
    assert one.seq_len_lo <= 600
    assert one.seq_len_hi >= crossing


def test_a_layer_without_heads_is_compared_at_every_h_of_the_other() -> None:
    found = crossovers(usual_lines(heads=(2, 4, 8)))
    heads = [one.num_heads for one in found if (one.slower, one.faster) == ("rnn.torch", "attention.fused")]
    assert sorted(set(heads)) == [2, 4, 8]
    assert len(heads) == 2 * 2 * 3  # metrics, widths, heads


def test_two_layers_without_heads_are_compared_once() -> None:
    found = crossovers(series("rnn.torch", lambda n: n, h=1) + series("rnn.elman", lambda n: 2 * n, h=1))
    assert [(one.slower, one.num_heads) for one in found if one.metric == "time"] == [
        ("rnn.torch", 1),
        ("rnn.elman", 1),
    ]


def test_layers_with_heads_are_not_compared_across_them() -> None:
    found = crossovers(series("attention.fused", lambda n: n, h=1) + series("attention.naive", lambda n: n, h=2))
    assert found == []


def test_of_ours_the_registry_says_which_have_no_heads() -> None:
    at_one = series("attention.fused", lambda n: n, h=1) + series("rnn.torch", lambda n: n, h=1)
    assert (
        layers_without_heads(at_one)
        == layers_without_heads(at_one + series("attention.naive", lambda n: n, h=2))
        == {"rnn.torch"}
    )


def test_somebodys_own_layer_has_no_heads_if_it_was_measured_at_one_and_others_at_more() -> None:
    own = series("their.module:Layer", lambda n: n, h=1)
    assert layers_without_heads(own + series("attention.fused", lambda n: n, h=2)) == {"their.module:Layer"}
    assert layers_without_heads(own + series("attention.fused", lambda n: n, h=1)) == set()
    assert layers_without_heads(own + series("their.module:Layer", lambda n: n, h=2)) == set()
    assert layers_without_heads([]) == set()


def test_settings_batches_and_widths_are_not_mixed() -> None:
    one = series("rnn.torch", lambda n: n, h=1)
    other = series("rnn.elman", lambda n: n, h=1)
    for change in ({"mode": "train"}, {"dtype": "bfloat16"}, {"threads": 2}, {"allocator": "fresh"}, {"batch_size": 2}):
        assert crossovers(one + [replace(line, **change) for line in other]) == []


def test_one_size_alone_tells_who_is_slower_there() -> None:
    at_64 = known_to(0.01, [line for line in usual_lines() if line.seq_len == 64])
    found = crossovers(at_64)
    one = between("attention.naive", "attention.fused", found, d_model=256, num_heads=8)
    assert (one.seq_len, one.measured_to) == (0, 64)
    assert between("attention.fused", "attention.naive", found, d_model=256, num_heads=8).seq_len is None


def test_one_trial_alone_decides_nothing() -> None:
    once = [replace(line, time_lo_s=0.0, time_hi_s=None) for line in usual_lines()]
    one = between("attention.naive", "attention.fused", crossovers(once), d_model=256, num_heads=8)
    assert (one.seq_len, one.decided) == (None, False)


def test_what_failed_is_no_size_at_which_both_are_known() -> None:
    failed = [replace(line, status="oom", time_s=None, peak_bytes=None) for line in usual_lines()]
    assert crossovers(failed) == []
    partly = [replace(line, time_s=None) if line.seq_len > 512 else line for line in usual_lines()]
    one = between("rnn.torch", "attention.fused", crossovers(known_to(0.01, partly)), d_model=256, num_heads=8)
    assert one.measured_to == 512


def test_a_layer_that_allocates_nothing_can_be_compared() -> None:
    nothing = series("their:Nothing", lambda n: n, h=1, memory=lambda n: 0)
    something = series("rnn.torch", lambda n: n, h=1)
    one = between("rnn.torch", "their:Nothing", crossovers(nothing + something), "memory")
    assert one.seq_len == 0


def test_the_table_has_a_row_for_each_pair_and_says_it_in_words() -> None:
    found = crossovers(known_to(0.01, usual_lines(widths=(128,), heads=(8,))))
    table = crossovers_table(found)
    assert tuple(table.columns) == COLUMNS
    assert len(table) == 2 * 3 * 2  # metrics, ordered pairs
    assert "not below 2048" in set(table.in_words)
    assert set(table["mode"]) == {"forward"}
    assert list(crossovers_table([]).columns) == list(COLUMNS)


def test_one_pair_needs_no_wider_interval_and_many_pairs_do() -> None:
    logs, deviations = np.zeros(40), np.full(40, 0.1)
    one, many = ([(0, 1)], [(i, j) for i in range(40) for j in range(i)])
    assert simultaneous_quantile(one, logs, deviations) == pytest.approx(1.96, abs=0.1)
    assert 3.0 < simultaneous_quantile(many, logs, deviations) < 4.0


def test_pairs_that_surely_differ_do_not_widen_the_interval_of_the_others() -> None:
    logs, deviations = np.arange(40) * 10.0, np.full(40, 0.1)
    logs[1] = logs[0]
    every = [(i, j) for i in range(40) for j in range(i)]
    assert simultaneous_quantile(every, logs, deviations) == pytest.approx(1.96, abs=0.1)


def test_costs_without_error_or_without_bound_have_no_say() -> None:
    assert simultaneous_quantile([(0, 1)], np.zeros(2), np.zeros(2)) == pytest.approx(1.96)
    assert simultaneous_quantile([(0, 1)], np.zeros(2), np.array([0.1, math.inf])) == pytest.approx(1.96)


def test_in_one_run_in_twenty_at_most_is_any_pair_called_wrongly() -> None:
    rng = np.random.default_rng(0)
    cells = [(5 * cell + i, 5 * cell + j) for cell in range(24) for i in range(5) for j in range(i)]
    first, second = np.array(cells).T
    wrong = 0
    for _ in range(100):
        true = np.repeat(rng.normal(0, 1, 24), 5) + 0.02 * rng.standard_normal(120)
        logs, deviations = true + 0.1 * rng.standard_normal(120), np.full(120, 0.1)
        reach = simultaneous_quantile(cells, logs, deviations) * math.sqrt(2) * 0.1
        gaps, real = logs[first] - logs[second], true[first] - true[second]
        wrong += bool(((np.abs(gaps) > reach) & (gaps * real < 0)).any())
    assert wrong <= 10


@pytest.mark.parametrize("share", [0.005, 0.02])
def test_a_break_of_a_cost_between_two_sizes_widens_the_crossing_until_the_order_is_sure(share: float) -> None:
    # The time rises above the other at n = 800, where it doubles; the memory likewise. It is 1.4 times the other at
    # n = 1024, and the other costs 2 times as much or more at 2048.
    def cost(n: int) -> float:
        return 1e-6 * n**1.2 * (2 if n >= 800 else 1) * 0.7

    run = [
        *series("attention.naive", lambda n: 1e-6 * n**1.2, memory=lambda n: 1000 * n),
        *series("attention.fused", cost, memory=lambda n: (1400 if n >= 800 else 700) * n),
    ]
    for metric in ("time", "memory"):
        one = between("attention.fused", "attention.naive", crossovers(known_to(share, run), fit_laws(run)), metric)
        assert (one.seq_len_lo, one.seq_len_hi) == (512, 2048)


# By hand: n²/480 is above n from 480 on, and above ⌈n/128⌉·128 = 640 from 555 on.
@pytest.mark.parametrize("metric", ["time", "memory"])
@pytest.mark.parametrize(
    ("sizes", "last"),
    [
        (tuple(range(128, 1153, 128)), 640),
        ((128, 384, 512, 640, 1024), 1024),  # n = 640 costs 853, and no law tells of 640 to 1024
        ((384, 512, 896, 1024), 896),
    ],
)
def test_costs_in_steps_that_cross_twice_more_beyond_a_size_cross_within_the_interval(
    sizes: tuple[int, ...], last: int, metric: str
) -> None:
    run = [
        *series("attention.naive", lambda n: n * n / 480e6, memory=lambda n: n * n * 1000 // 480, sizes=sizes),
        *series("attention.fused", lambda n: n / 1e6, memory=lambda n: 1000 * n, sizes=sizes),
    ]
    one = between("attention.naive", "attention.fused", crossovers(known_to(0.005, run), fit_laws(run)), metric)
    assert one.seq_len_lo == 384
    assert one.seq_len_hi is not None
    assert 555 <= one.seq_len_hi <= last
