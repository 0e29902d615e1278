"""Predicted costs at sizes that were not measured, and their remarks."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from rows import SIZES, attention_time, lines, usual_lines

from harness.cli.predict import predictions
from harness.core.model.sweep_axes import Case, Setting
from harness.study.claims.claims_table import verdicts
from harness.study.laws.crossovers import crossovers
from harness.study.laws.fitted_laws import FittedLaw, Prediction, fit_laws
from harness.study.laws.laws import Hidden, Sizes
from harness.study.laws.piecewise import Predictor
from harness.study.laws.predict import SizeRequest, recommend
from harness.study.report.document import Table
from harness.study.report.text.cost_models import break_text


def law(impl: str = "attention.fused", metric: str = "time", of: list | None = None) -> FittedLaw:
    found = fit_laws(of if of is not None else usual_lines())
    return next(one for one in found if (one.series.impl, one.series.metric) == (impl, metric))


def test_between_and_beyond_the_sizes_measured_the_law_is_followed() -> None:
    for n, d in [(300, 128), (3000, 256), (1500, 200)]:
        said = law().predict(n, d, 8, 1)
        assert said.value == pytest.approx(attention_time(Case("attention.fused", n, d, 8)), rel=0.05)
        assert said.lo < said.value < said.hi
        assert not said.measured


def timed(
    cost: Callable[[int, int], float], sizes: Iterable[tuple[int, int]], flops: Callable[[int], int]
) -> FittedLaw:
    """The law of a time that is known to 1 %, in seconds by n and d."""
    of = lines([Case("their:Layer", n, d, 1) for n, d in sizes], lambda c: cost(c.seq_len, c.d_model), lambda c: 8)
    ends = [{"time_lo_s": 0.98 * line.time_s, "time_hi_s": 1.02 * line.time_s} for line in of]
    known = [replace(line, **of_line, flops=flops(line.seq_len)) for line, of_line in zip(of, ends, strict=True)]
    return law("their:Layer", of=known)


@pytest.mark.parametrize("block", [64, 128])
@pytest.mark.parametrize("smallest", [64, 128, 256])
@pytest.mark.parametrize("power", [1, 2])
def test_a_time_between_measured_sizes_may_be_that_of_whole_blocks(power: int, smallest: int, block: int) -> None:
    def padded(n: int, d: int) -> float:
        return 2e-5 + 1e-6 * (block * -(-n // block)) ** power

    found = timed(padded, [(n, 64) for n in (64, 128, 256, 512, 1024, 2048) if n >= smallest], lambda n: 8 * n**power)
    for n in (300, 520, 700, 1025, 1500, 1985):
        said = found.predict(n, 64, 1, 1)
        assert said.lo <= padded(n, 64) <= said.hi
    multiple = found.predict(1536, 64, 1, 1)  # a multiple of 64, 128 and 256
    assert multiple.lo <= padded(1536, 64) <= multiple.hi < multiple.lo * (1.3 if smallest >= block else 4)


def test_two_axes_that_vary_only_together_tell_no_law_of_either() -> None:
    # Heads of 64: the cost 4h·n² is n²d/16 as well.
    found = memory_at(lambda n, d: n * n * d // 16, [(n, d) for n in (64, 128, 256) for d in (64, 128, 256)], heads=64)
    assert found.law.reason == "d and h vary only together: vary one alone"
    assert not found.law.determined
    assert found.predict(128, 512, 8, 1).value == 128 * 128 * 512 // 16
    with pytest.raises(ValueError, match="d_model=256 with num_heads=1 was requested, and these were only varied"):
        found.predict(128, 256, 1, 1)


def test_three_axes_that_vary_only_together_tell_no_law_of_them() -> None:
    # Batches of n·d/1024 sequences: the peak 4b·n·d is n²·d²/256 as well.
    cases = [Case("their:Layer", n, d, 1, n * d // 1024) for n in (64, 128, 256, 512) for d in (64, 128, 256)]
    of = lines(cases, lambda c: 1e-9 * c.seq_len, lambda c: 4 * c.batch_size * c.seq_len * c.d_model)
    found = law("their:Layer", "memory", of)
    assert found.law.reason == "n, d and b vary only together: vary one alone"
    assert found.predict(1024, 128, 1, 128).value == 4 * 128 * 1024 * 128  # n·d/b is 1,024
    apart = "seq_len=512 with d_model=128 with batch_size=16 was requested, and these were only varied together"
    with pytest.raises(ValueError, match=apart):
        found.predict(512, 128, 1, 16)


def test_two_axes_in_a_constant_ratio_of_powers_go_on_as_they_were_measured() -> None:
    # Widths of b²: a law in one of them is one in the other there.
    cases = [Case("their:Layer", n, 64 * b * b, 1, b) for n in (64, 128, 256) for b in (1, 2, 4)]
    found = law("their:Layer", "memory", lines(cases, lambda c: 1e-9 * c.seq_len, lambda c: c.seq_len * c.d_model))
    assert found.predict(128, 4096, 1, 8).value == 128 * 4096
    with pytest.raises(ValueError, match="d_model=4096 with batch_size=4 was requested, and these were only varied"):
        found.predict(128, 4096, 1, 4)


def test_a_time_between_sizes_that_double_may_be_that_of_padding_as_a_warning_says() -> None:
    (why,) = law().predict(1000, 256, 8, 1).warnings
    assert why == (
        "measured at powers of 2 times 64 of seq_len only: measure seq_len=1000 too, as steps may lie between"
    )


@pytest.mark.parametrize(
    "growth",
    [lambda d: d / 512, lambda d: (d / 512) ** 2, lambda d: (d / 512 + (d / 512) ** 2) / 2, lambda d: -(-d // 128) / 4],
    ids=["d", "d^2", "both", "blocks of 128"],
)
def test_between_two_values_a_time_may_grow_in_any_way(growth: Callable[[int], float]) -> None:
    def cost(n: int, d: int) -> float:
        return 1e-5 + 1e-6 * n * growth(d)

    found = timed(cost, [(n, d) for n in SIZES for d in (64, 512)], lambda n: 8 * n)
    for n, d in [(512, 100), (512, 200), (2048, 200), (2048, 400)]:
        said = found.predict(n, d, 1, 1)
        small, large = cost(n, 64), cost(n, 512)
        line, square = ((d**power - 64**power) / (512**power - 64**power) for power in (1, 2))
        assert all(said.lo <= small + way * (large - small) <= said.hi for way in (line, square))
        assert said.lo <= cost(n, d) <= said.hi


def test_what_was_measured_is_its_own_prediction() -> None:
    said = law().predict(2048, 256, 8, 1)
    point = next(p for p in law().series.points if p.size == (2048, 256, 8, 1, ()))
    assert said.measured
    assert (said.value, said.lo, said.hi) == (point.value, point.lo, point.hi)


def test_far_outside_there_is_a_plain_warning() -> None:
    assert law().predict(4096, 256, 8, 1).warnings == ()
    [warning] = law().predict(65536, 256, 8, 1).warnings
    assert warning == "far outside what was measured: seq_len=65536 is 32 times beyond 64 to 2048; take it as a guess"


def test_beyond_two_widths_the_way_that_cost_grows_with_width_is_said_to_rest_on_them() -> None:
    said = law().predict(1024, 512, 8, 1).warnings
    assert said == (
        "the cost model is fitted to two values of d_model (128 and 256), so growth beyond them is uncertain: "
        "measure a third",
    )
    assert law().predict(1024, 200, 8, 1).warnings == ()


def test_an_unbounded_term_that_the_law_takes_in_whole_changes_no_prediction() -> None:
    of = law().law
    sizes = Sizes.of([(1024, 256, 8, 1), (2048, 256, 8, 1)])
    plain = Predictor(of, 0.01, 0.0, 10.0, sizes, dict.fromkeys(of.varied, 0))
    hidden = Hidden(of.terms[0], math.inf, 1.0, np.eye(len(of.terms))[0])
    beside = replace(plain, law=replace(of, hidden=(*of.hidden, hidden)))
    assert beside(1500, 256, 8, 1) == plain(1500, 256, 8, 1)


def test_along_an_axis_of_one_value_nothing_can_be_said() -> None:
    with pytest.raises(ValueError, match="the law of time knows batch_size=1 only: measure it too"):
        law().predict(1024, 256, 8, 4)


def test_an_undetermined_law_is_told() -> None:
    few = [line for line in usual_lines() if line.seq_len <= 128]
    assert "undetermined" in " ".join(law(of=few).predict(1024, 256, 8, 1).warnings)


# Bytes of attention.naive in bfloat16 on an H200, batch 4: 16n² + 9,728n from n = 1024 on, and more at 512.
ON_A_GPU = {512: 12_582_912, 1024: 26_738_688, 2048: 87_031_808, 4096: 308_281_344, 8192: 1_153_433_600}


def test_sizes_below_a_break_say_nothing_of_those_beyond_it_and_the_claim_names_the_break() -> None:
    cases = [Case("attention.naive", n, 1024, 16, batch_size=4) for n in ON_A_GPU]
    run = lines(cases, lambda case: 1e-9 * case.seq_len, lambda case: ON_A_GPU[case.seq_len])
    memory = law("attention.naive", "memory", run)
    assert memory.predict(16384, 1024, 16, 4).value == pytest.approx(16 * 16384**2 + 9728 * 16384)
    between = memory.predict(1500, 1024, 16, 4)
    assert between.value == 16 * 1500**2 + 9728 * 1500
    assert (between.lo, between.hi) == (ON_A_GPU[1024], ON_A_GPU[2048])
    assert break_text(memory) == "from n = 1024 on"
    [claim] = [one for one in verdicts(run, ()) if one.quantity == "memory"]
    assert claim.measured == "16 n² + 9,728 n bytes from n = 1024 on"


def test_below_a_break_the_law_below_it_holds() -> None:
    cases = [Case("attention.fused", n, d, h) for n in (*SIZES, 4096) for d in (128, 256) for h in (2, 8)]
    jumped = lines(cases, lambda c: 1e-8 * c.seq_len * (5 if c.seq_len >= 512 else 1), lambda c: 8 * c.seq_len)
    broken = law(of=jumped)
    assert [found.n for found in broken.law.breaks] == [512]
    assert broken.predict(200, 128, 2, 1).value == pytest.approx(2e-6, rel=0.05)
    assert broken.predict(3000, 128, 2, 1).value == pytest.approx(1.5e-4, rel=0.05)


@pytest.mark.parametrize("metric", ["memory", "flops"])
@pytest.mark.parametrize("n", [2176, 4096, 8192])
def test_an_exact_law_is_exact_between_the_measured_sizes_alone(metric: str, n: int) -> None:
    # A window of 2,500 tokens: n² up to there, then 2,500 n.
    def windowed(length: int) -> int:
        return 8 * length * min(length, 2500)

    cases = [Case("their:Layer", length, 64, 1) for length in (*SIZES, 192)]
    run = lines(cases, lambda c: 1e-6, lambda c: windowed(c.seq_len))
    found = law("their:Layer", metric, [replace(line, flops=line.peak_bytes) for line in run])
    inside, outside = found.predict(320, 64, 1, 1), found.predict(n, 64, 1, 1)
    assert (inside.lo, inside.value, inside.hi, inside.basis) == (8 * 320**2,) * 3 + (LAW,)
    assert not outside.basis
    assert windowed(2048) == outside.lo < windowed(n) < outside.hi
    assert outside.value == pytest.approx(8 * n**2)
    [warning] = outside.warnings
    assert warning.startswith("far outside" if n == 8192 else "extrapolated: exact from seq_len=64 to 2048 only")


@pytest.mark.parametrize(
    ("n", "lo", "hi"),
    # 2 ⌈log₂ n⌉ + 1: 15 at n = 96, whose powers of two beside it have 13 and 15.
    [(96, 13, 15), (100, 13, 15), (33, 11, 13), (256, 17, 17)],
)
def test_between_powers_of_two_a_law_with_a_logarithm_predicts_the_values_there(n: int, lo: float, hi: float) -> None:
    cases = [Case("attention.fused", length, 64, 1) for length in (16, 32, 64, 128, 512)]
    found = law(
        metric="memory", of=lines(cases, lambda c: 1e-6 * c.seq_len, lambda c: 2 * (c.seq_len.bit_length() - 1) + 1)
    )
    assert str(found.law) == "2 log n + 1"
    assert found.law.determined
    said = found.predict(n, 64, 1, 1)
    assert (said.lo, said.hi) == (lo, hi)
    assert lo <= said.value <= hi


LAW = "law, exact at the measured sizes"
CLAIM = "by the layer's claim, exact at the measured sizes"
MEASURED = [(n, d) for n in (64, 128, 192, 512) for d in (64, 128, 192)]


def memory_at(
    cost: Callable[[int, int], int], sizes: Iterable[tuple[int, int]] = MEASURED, heads: int = 0
) -> FittedLaw:
    """The law of a memory, in bytes by n and d. Heads may have a fixed width."""
    cases = [Case("attention.fused", n, d, d // heads if heads else 1) for n, d in sizes]
    return law(metric="memory", of=lines(cases, lambda c: 1e-6 * c.seq_len, lambda c: cost(c.seq_len, c.d_model)))


def test_tokens_and_one_more_tell_nothing_of_multiples() -> None:
    def padded(n: int, d: int) -> int:
        return 64 * -(-n // 64) * d

    found = memory_at(padded, [(n, 64) for n in (65, 129, 193, 257, 513, 1025)])
    between = found.predict(256, 64, 1, 1)
    assert not between.basis
    assert between.lo <= padded(256, 64) <= between.hi
    assert "exact at 1 more than multiples of 64 of seq_len only" in " ".join(between.warnings)
    assert found.predict(385, 64, 1, 1).value == padded(385, 64)


def power(n: int) -> int:
    """The next power of two."""
    return 1 << (n - 1).bit_length()


@pytest.mark.parametrize("axis", ["seq_len", "d_model"])
@pytest.mark.parametrize("metric", ["memory", "flops"])
def test_sizes_that_double_tell_nothing_of_padding_to_a_power_of_two(axis: str, metric: str) -> None:
    def counts(more: tuple[int, ...], declared: bool) -> FittedLaw:
        values = {"seq_len": (64, 128, 256), "d_model": (64, 128, 256)}
        values[axis] += more
        cases = [Case("their:Layer", n, d, 1) for n in values["seq_len"] for d in values["d_model"]]
        run = lines(cases, lambda c: 1e-6, lambda c: 8 * power(c.seq_len) * power(c.d_model))
        claimed = [replace(one, flops=one.peak_bytes, flops_claimed=one.peak_bytes * declared or None) for one in run]
        return law("their:Layer", metric, claimed)

    at = (192, 64, 1, 1) if axis == "seq_len" else (64, 192, 1, 1)
    said = counts((), False).predict(*at)
    assert (said.lo, said.hi, said.basis) == (8 * 128 * 64, 8 * 256 * 64, "")
    assert said.warnings == (
        f"exact at powers of 2 times 64 of {axis} only: measure {axis}=192 too, as steps may lie between",
    )
    assert counts((192,), False).predict(*at).measured
    # The layer's own formula says that there is no padding. No formula says so of memory.
    assert counts((), True).predict(*at).basis == (CLAIM if metric == "flops" else "")
    # Beyond the measured sizes too, the next power of two bounds the cost.
    beyond = counts((), False).predict(*(5 * side if side == 192 else side for side in at))
    assert beyond.lo <= 8 * 1024 * 64 <= beyond.hi


@pytest.mark.parametrize(("more", "words"), [(1, "1 more"), (-1, "1 less"), (-3, "3 less")])
def test_sizes_that_double_and_some_more_tell_nothing_of_padding_to_a_power_of_two(more: int, words: str) -> None:
    found = memory_at(lambda n, d: 8 * power(n), [(n + more, 64) for n in (64, 128, 256, 512)])
    said = found.predict(192 + more, 64, 1, 1)
    assert said.lo <= 8 * power(192 + more) <= said.hi
    assert not said.basis
    assert f"exact at {words} than powers of 2 times 64 of seq_len only" in " ".join(said.warnings)


def blocks(size: int, of: int) -> int:
    """A size padded to whole blocks."""
    return of * -(-size // of)


@pytest.mark.parametrize(
    ("cost", "written", "lengths", "n", "known_as"),
    [
        # Padding to blocks of 128 is in the term in n: n² + 127 n at one more than powers of 2 times 128.
        (lambda n: n * blocks(n, 128), "n² + 127 n", (129, 257, 513, 1025), 600, "1 more than powers of 2 times 128"),
        (lambda n: n * blocks(n, 128), "n² + n", (127, 255, 511, 1023), 520, "1 less than powers of 2 times 128"),
        (lambda n: n * blocks(n, 128), "n² + 127 n", (129, 385, 641, 897), 600, "129 more than multiples of 256"),
        # The next power of two is 2 n − 2 here, and the sizes lie a factor of four apart.
        (lambda n: 8 * power(n), "16 n − 16", (65, 257, 1025), 449, "1 more than powers of 4 times 64"),
        # Powers of four leave the same remainder by 48: 96, 288 and 1,056 tokens are n + 32 each, but 128 are 144.
        (lambda n: 8 * blocks(n, 48), "8 n + 256", (64, 256, 1024), 128, "powers of 4 times 64"),
        # These sizes are squares, and the next one after 128 is 144. Twice a square is none.
        (lambda n: 8 * (math.isqrt(n - 1) + 1) ** 2, "8 n", (64, 256, 1024), 128, "powers of 4 times 64"),
        (lambda n: 8 * (math.isqrt(n - 1) + 1) ** 2, "8 n", (64, 256, 4096), 512, "powers of 4 times 64"),
    ],
)
def test_padding_that_a_law_has_taken_in_is_within_its_interval(
    cost: Callable[[int], int], written: str, lengths: tuple[int, ...], n: int, known_as: str
) -> None:
    found = memory_at(lambda n, d: cost(n), [(length, 64) for length in lengths])
    assert (str(found.law), found.law.determined) == (written, True)
    said = found.predict(n, 64, 1, 1)
    assert not said.basis
    assert said.lo <= cost(n) <= said.hi
    assert f"exact at {known_as} of seq_len only: measure seq_len={n} too" in " ".join(said.warnings)


def test_padding_of_the_width_that_a_law_has_taken_in_is_within_its_interval() -> None:
    found = memory_at(lambda n, d: n * d * blocks(d, 64), [(n, d) for n in (64, 128, 257) for d in (72, 136, 264)])
    assert (str(found.law), found.law.determined) == ("n·d² + 56 n·d", True)
    said = found.predict(64, 100, 1, 1)
    assert (said.lo, said.hi, said.basis) == (64 * 72 * 128, 64 * 136 * 192, "")
    assert said.lo <= 64 * 100 * blocks(100, 64) <= said.hi
    assert found.predict(64, 520, 1, 1).value == 64 * 520 * blocks(520, 64)


def test_memory_that_padding_may_exceed_is_not_recommended_and_crosses_between_two_measured_sizes() -> None:
    lengths = (127, 255, 511, 1023)
    padded = lines([Case("their:Padded", n, 64, 1) for n in lengths], lambda c: 1e-6 * c.seq_len, padded_memory)
    plain = lines(
        [Case("their:Plain", n, 64, 1) for n in lengths], lambda c: 2e-6 * c.seq_len, lambda c: 2400 * c.seq_len
    )
    laws = fit_laws([*padded, *plain])
    limit = padded_memory(Case("their:Padded", 520, 64, 1)) - 1
    where = SizeRequest((520, 64, 1, 1), Setting())
    assert [one.impl for one in recommend([*padded, *plain], laws, [(1.0, where)], limit).too_large] == [
        "their:Padded",
        "their:Plain",
    ]
    over = next(
        one for one in crossovers([*padded, *plain], laws) if (one.slower, one.metric) == ("their:Padded", "memory")
    )
    # 4 n ⌈n/128⌉ 128 exceeds 2,400 n from n = 513 on.
    assert (over.seq_len_lo, over.seq_len_hi) == (511, 1023)


def padded_memory(case: Case) -> int:
    return 4 * case.seq_len * blocks(case.seq_len, 128)


@pytest.mark.parametrize(
    ("cost", "written", "at", "lo", "hi", "only"),
    [
        (lambda n, d: 1000 * (n // 64), "15.625 n", (100, 64), 1000, 2000, "seq_len"),
        (lambda n, d: 1000 * -(-n // 64), "15.625 n", (100, 64), 1000, 2000, "seq_len"),
        (lambda n, d: 1000 * -(-n // 64), "15.625 n", (100, 100), 1000, 2000, "seq_len"),
        (lambda n, d: 1000 * (n // 64), "15.625 n", (400, 64), 6000, 7000, "seq_len"),
        (lambda n, d: 8 * n * 64 * -(-d // 64), "8 n·d", (320, 100), 8 * 320 * 64, 8 * 320 * 128, "d_model"),
    ],
)
def test_between_multiples_of_the_measured_sizes_common_divisor_steps_may_hide(
    cost: Callable[[int, int], int], written: str, at: tuple[int, int], lo: int, hi: int, only: str
) -> None:
    found = memory_at(cost)
    assert str(found.law) == written
    assert found.law.determined
    said = found.predict(*at, 1, 1)
    assert (said.lo, said.hi, said.basis) == (lo, hi, "")
    assert said.lo <= cost(*at) <= said.hi
    key, value = only, dict(zip(("seq_len", "d_model"), at, strict=True))[only]
    advice = f"measure {key}={value} too, as steps may lie between"
    assert f"exact at multiples of 64 of {key} only: {advice}" in said.warnings


def test_steps_of_counts_that_have_no_exact_law_are_within_the_interval() -> None:
    # 1,000 ⌈n/96⌉ is 10.4 n at multiples of 96, no number of eighths. Of four n, no window is a denominator.
    found = memory_at(lambda n, d: 1000 * -(-n // 96), [(96 * k, 64) for k in (2, 3, 4, 6)])
    assert not found.law.exact
    said = found.predict(300, 64, 1, 1)
    assert (said.lo, said.hi) == (3000, 4000)
    # Between 384 and 576 lies the number of blocks at 480, and all between them.
    said = found.predict(470, 64, 1, 1)
    assert (said.lo, said.hi) == (4000, 6000)


def test_an_exact_law_is_known_at_multiples_of_the_common_divisor_alone_even_if_it_is_constant() -> None:
    steps = memory_at(lambda n, d: 1000 * (n // 64)).predict(256, 64, 1, 1)
    assert (steps.lo, steps.value, steps.hi, steps.basis, steps.warnings) == (4000, 4000, 4000, LAW, ())
    # Elsewhere, padding takes 2,000 more.
    copied = memory_at(lambda n, d: 7000 + 2000 * (n % 64 > 0))
    assert copied.predict(320, 64, 1, 1).basis == LAW
    other = copied.predict(100, 64, 1, 1)
    assert (other.value, other.basis) == (7000, "")
    assert other.warnings == (
        "exact at multiples of 64 of seq_len only: measure seq_len=100 too, as steps may lie between",
    )
    doubled = memory_at(lambda n, d: 7000, [(n, 64) for n in (64, 128, 256)]).predict(100, 64, 1, 1)
    assert (doubled.lo, doubled.hi, doubled.basis) == (7000, 7000, "")
    constant = memory_at(lambda n, d: 7000, [(n, d) for n in (64, 128, 257) for d in (64, 96, 129)]).predict(
        100, 100, 1, 1
    )
    assert (constant.lo, constant.hi, constant.basis, constant.warnings) == (7000, 7000, LAW, ())
    odd = memory_at(lambda n, d: 8 * n * d, [(n, d) for n in (64, 128, 257) for d in (64, 96, 129)])
    assert odd.predict(100, 100, 1, 1).lo == 8 * 100 * 100 == odd.predict(100, 100, 1, 1).hi


def kind(found: FittedLaw, said: Prediction) -> str:
    """What `predict` calls a prediction."""
    _, table, *_ = predictions(SizeRequest((96, 64, 1, 1), Setting()), [(found, said)], {})
    assert isinstance(table, Table)
    return str(table.rows[0][-1])


def test_an_undetermined_law_of_exact_costs_is_known_where_it_was_measured_alone() -> None:
    # At these two n, 24 n² is 4,608 n − 196,608 too.
    found = memory_at(lambda n, d: 24 * n * n, [(n, d) for n in (64, 128) for d in (64, 128, 256)])
    assert found.law.exact
    assert not found.law.determined
    said = found.predict(96, 64, 1, 1)
    assert (said.lo, said.hi, said.basis) == (24 * 64**2, 24 * 128**2, "")
    assert kind(found, said) == "predicted"
    constant = memory_at(lambda n, d: 7000, [(n, 64) for n in (64, 128)])
    assert kind(constant, constant.predict(96, 64, 1, 1)) == "predicted"
    three = memory_at(lambda n, d: 7000, [(n, 64) for n in (64, 128, 257)])
    assert kind(three, three.predict(96, 64, 1, 1)) == LAW


@pytest.mark.parametrize("n", [33, 40, 129, 160, 255])
def test_an_undetermined_law_of_exact_costs_reaches_over_the_step_beyond_them(n: int) -> None:
    def padded(n: int, d: int) -> int:
        return 1000 * 2 ** (n - 1).bit_length()

    found = memory_at(padded, [(64, 64), (128, 64)])
    assert not found.law.determined
    said = found.predict(n, 64, 1, 1)
    assert said.lo <= padded(n, 64) <= said.hi


def test_an_undetermined_law_of_flops_has_an_interval_beyond_the_measured_sizes() -> None:
    cases = [Case("their:Layer", n, 64, 1) for n in (64, 128)]
    of = [replace(line, flops=1000 * line.seq_len) for line in lines(cases, lambda c: 1e-6, lambda c: 8)]
    said = law("their:Layer", "flops", of).predict(1024, 64, 1, 1)
    assert said.lo < 1_024_000 < said.hi


def test_a_constant_time_is_predicted_without_bias_and_in_its_interval() -> None:
    sizes, noise, off, covered = range(64, 1281, 64), 0.05, [], []
    for seed in range(20):
        factors = dict(zip(sizes, np.exp(np.random.default_rng(seed).normal(0, noise, len(sizes))), strict=True))
        reach = math.exp(1.96 * noise)
        of = []
        for line in lines([Case("their:Layer", n, 64, 1) for n in sizes], lambda c: 1e-4, lambda c: 8):
            time = 1e-4 * float(factors[line.seq_len])
            of.append(replace(line, time_s=time, time_lo_s=time / reach, time_hi_s=time * reach))
        said = law("their:Layer", of=of).predict(2048, 64, 1, 1)
        off.append(math.log(said.value / 1e-4))
        covered.append(said.lo <= 1e-4 <= said.hi)
    assert abs(np.mean(off)) < 0.02
    assert np.mean(covered) >= 0.95


def test_an_axis_that_takes_one_value_where_the_law_holds_is_one_of_which_nothing_is_known() -> None:
    # From n = 1024 on at d = 64 alone, and dearer there: the law of those says nothing of d = 256.
    cases = [Case("attention.fused", n, d, 1) for n in (64, 128, 256, 512) for d in (64, 128, 256)]
    cases += [Case("attention.fused", n, 64, 1) for n in (1024, 2048, 4096)]
    found = law(of=lines(cases, lambda c: 1e-8 * c.seq_len * c.d_model * (4 if c.seq_len > 512 else 1), lambda c: 8))
    assert [one.n for one in found.law.breaks] == [1024]
    with pytest.raises(ValueError, match="d_model=256 was requested, and the law of time knows d_model=64 only"):
        found.predict(3000, 256, 1, 1)
    assert found.predict(300, 256, 1, 1).value == pytest.approx(1e-8 * 300 * 256, rel=0.02)


def test_a_law_that_vanishes_is_not_asked() -> None:
    found = law(
        of=lines([Case("attention.fused", n, 8, 1) for n in SIZES], lambda c: 1e-6 * math.log2(c.seq_len), lambda c: 8)
    )
    with pytest.raises(ValueError, match="says nothing at n = 1"):
        found.predict(1, 8, 1, 1)


def test_between_the_last_size_of_one_law_and_the_first_of_the_next_both_may_hold() -> None:
    cases = [Case("attention.fused", n, d, h) for n in (*SIZES, 4096) for d in (128, 256) for h in (2, 8)]
    jumped = lines(cases, lambda c: 1e-8 * c.seq_len * (5 if c.seq_len >= 512 else 1), lambda c: 8 * c.seq_len)
    said = law(of=jumped).predict(500, 128, 2, 1)
    assert said.lo <= 5e-6
    assert said.hi >= 25e-6
    assert any("another law begins" in warning for warning in said.warnings)


def test_a_law_that_took_over_from_another_is_trusted_the_less_for_that() -> None:
    cases = [Case("attention.fused", n, d, h) for n in (*SIZES, 4096) for d in (128, 256) for h in (2, 8)]

    def reach(jump: float) -> float:
        of = lines(cases, lambda c: 1e-8 * c.seq_len * (jump if c.seq_len >= 512 else 1), lambda c: 8 * c.seq_len)
        said = law(of=of).predict(16384, 128, 2, 1)
        return said.hi / said.lo

    assert reach(5) > 1.5 * reach(1)


def test_nothing_is_predicted_to_cost_less_than_a_smaller_size_did() -> None:
    few = [line for line in usual_lines() if line.seq_len <= 128 and (line.d_model, line.num_heads) == (256, 8)]
    for metric in ("time", "memory"):
        found = law(metric=metric, of=few)
        # Of two lower ends both hold with 95 %: a normal quantile of 98.75 % reaches 2.24 in place of 1.96 deviations.
        least = max(point.value * (point.lo / point.value) ** (2.241402 / 1.959964) for point in found.series.points)
        for n in (200, 1024, 65536):
            said = found.predict(n, 256, 8, 1)
            assert least <= said.lo <= said.value <= said.hi


def test_where_cost_was_seen_to_fall_a_smaller_size_says_nothing_of_a_larger_one() -> None:
    cases = [Case("attention.fused", n, 64, 1) for n in (*SIZES, 4096)]
    found = law(of=lines(cases, lambda c: 1e-8 * c.seq_len * (0.1 if c.seq_len >= 512 else 1), lambda c: 8))
    assert found.predict(600, 64, 1, 1).value == pytest.approx(6e-7, rel=0.05)


def test_a_law_that_few_lengths_leave_open_is_told_with_what_to_measure() -> None:
    few = [line for line in usual_lines() if line.seq_len <= 128 and (line.d_model, line.num_heads) == (256, 8)]
    assert "measure seq_len=256,512 too" in " ".join(law(of=few).predict(1024, 256, 8, 1).warnings)


# The largest size takes up to ten times as long as the others suggest: no law follows that.
@pytest.mark.parametrize("times", [(1e-4, 2e-4, 4e-4, 3.19e-3), (4e-4, 2e-4, 3e-4, 3.19e-3), (1e-4, 1e-4, 1e-4, 1e-4)])
@pytest.mark.parametrize("share", [0.01, 0.6])
def test_no_prediction_lies_below_what_a_smaller_size_took(times: tuple[float, ...], share: float) -> None:
    sizes = (64, 128, 256, 512)
    by_n = dict(zip(sizes, times, strict=True))
    cases = [Case("attention.naive", n, 64, 2) for n in sizes]
    run = [
        replace(line, time_lo_s=line.time_s * (1 - share), time_hi_s=line.time_s * (1 + share))
        for line in lines(cases, lambda case: by_n[case.seq_len], lambda case: 8 * case.seq_len)
    ]
    for n in (600, 1024, 4096):
        said = law("attention.naive", of=run).predict(n, 64, 2, 1)
        assert said.value >= times[-1]
        assert said.lo <= said.value <= said.hi
