"""Exact costs have exact laws: whole coefficients, to the last digit, or none."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from study.laws.costs import grid

from harness.core.model.polynomial import Polynomial, Term
from harness.study.laws.integer_laws import exact_law, exact_pieces
from harness.study.laws.laws import Sizes, exponent_of

Count = Callable[[int, int, int, int], int]
GRID = grid(d=(128, 256, 512), h=(2, 4, 8))
TWO = grid(d=(64, 128))


def counts(sizes: Sizes, count: Count) -> list[int]:
    return [count(*(int(v) for v in size)) for size in zip(sizes.n, sizes.d, sizes.h, sizes.b, strict=True)]


@pytest.mark.parametrize(
    ("count", "written"),
    [
        (lambda n, d, h, b: 8 * n * d * d + 4 * n * n * d, "4 n²·d + 8 n·d²"),
        (lambda n, d, h, b: 12 * n * d * d - 2 * d * d, "12 n·d² − 2 d²"),
        (lambda n, d, h, b: 3 * n + 2, "3 n + 2"),
        (lambda n, d, h, b: 5, "5"),
        (lambda n, d, h, b: 35 * h + 5, "35 h + 5"),
        (lambda n, d, h, b: n * (n + 1) // 2 * d, "0.5 n²·d + 0.5 n·d"),
        (lambda n, d, h, b: 24 * h * n * n + 48 * n * d + 16 * d * d + 16 * d, "24 h·n² + 48 n·d + 16 d² + 16 d"),
        (lambda n, d, h, b: 8 * n * n + 12 * n * d // h, "8 n² + 12 n·d/h"),
        (lambda n, d, h, b: 7 + (n.bit_length() - 1), "log n + 7"),
        (lambda n, d, h, b: 0, "0"),
    ],
)
def test_a_count_has_its_formula(count: Count, written: str) -> None:
    law = exact_law(GRID, counts(GRID, count))
    assert law is not None
    assert str(law) == written
    assert law.exact
    assert law.determined


def test_work_of_batches_is_work_a_sequence() -> None:
    sizes = grid(d=(128, 256), b=(1, 4))
    law = exact_law(sizes, counts(sizes, lambda n, d, h, b: b * (8 * n * d * d + 4 * n * n * d)))
    assert str(law) == "4 b·n²·d + 8 b·n·d²"


def test_at_one_width_the_widths_powers_are_in_the_coefficients() -> None:
    sizes = grid(d=(256,))
    law = exact_law(sizes, counts(sizes, lambda n, d, h, b: 8 * n * d * d + 4 * n * n * d))
    assert str(law) == "1,024 n² + 524,288 n"


def test_two_widths_do_not_tell_powers_of_the_width_from_each_other() -> None:
    # Between them 12 n·d² + 2 n·d + 3 n is 2,306 n·d − 98,301 n too, and elsewhere far from it.
    law = exact_law(TWO, counts(TWO, lambda n, d, h, b: 12 * n * d * d + 2 * n * d + 3 * n))
    assert law is not None
    assert not law.determined
    assert law.reason == "d takes 2 values, and the law has as many powers of it"
    sure = exact_law(TWO, counts(TWO, lambda n, d, h, b: 8 * n * d * d + 4 * n * n * d))
    assert sure is not None
    assert sure.determined


@pytest.mark.parametrize("count", [lambda n, d, h, b: n * (48 * d - 512), lambda n, d, h, b: n * d * d])
def test_two_widths_tell_no_exponent_of_the_width(count: Count) -> None:
    sizes = grid(d=(16, 32))
    law = exact_law(sizes, counts(sizes, count))
    assert law is not None
    assert str(law) == "n·d²"
    assert law.determined  # along n
    assert law.reason == "d takes 2 values: a law needs 3 at least"
    exponent = exponent_of(law, "d", 2048, 32)
    assert exponent is not None
    assert (exponent.lo, exponent.hi) == (-math.inf, math.inf)


def test_two_heads_that_cost_the_same_leave_nothing_open() -> None:
    sizes = grid(d=(64, 128, 256), h=(2, 8))
    law = exact_law(sizes, counts(sizes, lambda n, d, h, b: 8 * n * d))
    assert law is not None
    assert not law.reason


@pytest.mark.parametrize(
    ("lengths", "count", "written"),
    [
        ((64, 128, 256, 512, 1024), lambda n, d, h, b: n * n // 16, "0.0625 n²"),
        ((64, 128, 256, 512, 1024), lambda n, d, h, b: n**3 // 16, "0.0625 n³"),
        ((100, 200, 300, 400, 700), lambda n, d, h, b: 7 * n * n // 100 + 3 * n, "0.07 n² + 3 n"),
        ((48, 96, 144, 240, 480), lambda n, d, h, b: n * n // 48, "0.0208333333333333 n²"),
        ((64, 128, 256, 512, 1024), lambda n, d, h, b: 12 * n + n // 8, "12.125 n"),
    ],
)
def test_chunks_that_divide_every_n_are_denominators(lengths: tuple[int, ...], count: Count, written: str) -> None:
    sizes = grid(lengths)
    law = exact_law(sizes, counts(sizes, count))
    assert law is not None
    assert str(law) == written
    assert law.determined
    assert [law.polynomial(n, 128) for n in lengths] == counts(sizes, count)


def test_a_remainder_by_7_is_no_chunk_of_64() -> None:
    # n mod 7 is n/64 at these n, and 1 at the next.
    sizes = grid((64, 128, 256), d=(64, 128, 256))
    assert exact_law(sizes, counts(sizes, lambda n, d, h, b: 4 * n * n + 16 * n * d + n % 7)) is None


@pytest.mark.parametrize("factor", [2**53 + 1, 2**60])
def test_counts_that_floats_cannot_hold_have_no_exact_law(factor: int) -> None:
    assert exact_pieces(grid(), counts(grid(), lambda n, d, h, b: factor * n)) is None


def test_a_law_that_ends_below_nothing_is_none() -> None:
    sizes = grid((256, 512, 1024, 2048))
    assert exact_law(sizes, [int(10**9 * n - 1000 * n**2) for n in (256, 512, 1024, 2048)]) is None


def test_of_random_peaks_in_whole_mebibytes_hardly_any_has_an_exact_law() -> None:
    found = 0
    for seed in range(200):
        peaks = np.sort(np.random.default_rng(seed).integers(1, 200, 6)) * 2**20
        law = exact_pieces(grid(), [int(peak) for peak in peaks])
        found += law is not None and law.determined
    assert found <= 2


def test_a_count_off_by_one_somewhere_has_no_exact_law() -> None:
    costs = counts(GRID, lambda n, d, h, b: 8 * n * d * d + 4 * n * n * d)
    costs[7] += 1
    assert exact_law(GRID, costs) is None


@pytest.mark.parametrize("sizes", [grid((64, 128), (128, 256, 512)), grid((64,), (128, 256, 512))])
def test_of_too_few_n_an_exact_law_is_not_determined(sizes: Sizes) -> None:
    law = exact_law(sizes, counts(sizes, lambda n, d, h, b: 4 * n * d * d))
    assert law is not None
    if "n" in law.varied:
        assert not law.determined
        assert "n takes 2 values" in law.reason
    else:
        assert str(law) == "256 d²"


@pytest.mark.parametrize(
    ("lengths", "costs", "needed"),
    [
        # 1,024 n, and from n = 128 on also 128 n².
        ((32, 64, 128, 256), [1024 * n + (n >= 128) * 128 * n * n for n in (32, 64, 128, 256)], 5),
        # Blocks of 48: 512 bytes for each started block and row of 48.
        ((32, 64, 128), [512 * 48 * -(-n // 48) for n in (32, 64, 128)], 4),
        # Rows of ⌊√n⌋ at d = 64.
        ((64, 128, 256, 512), [n * math.isqrt(n) * 64 for n in (64, 128, 256, 512)], 5),
        # 4 ⌊√n⌋ is 0.125 n + 4 log n at these three, and n ⌊√n⌋ is n² and n log n.
        ((64, 128, 256), [4 * math.isqrt(n) for n in (64, 128, 256)], 4),
        ((64, 128, 256), [32 * n * math.isqrt(n) for n in (64, 128, 256)], 4),
    ],
)
def test_a_law_with_a_logarithm_needs_two_sizes_more_than_terms(
    lengths: tuple[int, ...], costs: list[int], needed: int
) -> None:
    law = exact_law(grid(lengths), costs)
    assert law is not None
    assert any(term.log for term in law.terms)
    assert not law.determined
    assert law.reason == f"n takes {len(lengths)} values: this law with a logarithm needs {needed} at least"


def test_lengths_within_a_factor_of_two_do_not_show_that_a_count_steps_at_powers_of_two() -> None:
    # 3 n ⌈log₂ n⌉ with ⌈log₂ n⌉ = 11 at each length.
    lengths = (1126, 1363, 1659, 1913, 1986)
    law = exact_law(grid(lengths), [3 * n * (n - 1).bit_length() for n in lengths])
    assert str(law) == "33 n"
    assert law is not None
    assert not law.determined
    assert law.reason == "no n is twice another: steps at powers of two do not show"


def test_a_transform_of_each_column_has_an_exact_law_over_n_d_and_b() -> None:
    sizes = [(n, d, 1, b) for n in (64, 128, 256, 512) for d in (16, 32, 64) for b in (1, 2, 4)]
    law = exact_law(Sizes.of(sizes), [8 * b * n * d * (n.bit_length() - 1) for n, d, _, b in sizes])
    assert law is not None
    assert law.determined
    assert law.polynomial == Polynomial({Term(n=1, d=1, b=1, log=1): Fraction(8)})


def test_a_scan_that_saves_rounds_of_each_column_has_an_exact_law() -> None:
    """Blelloch 1990, "Prefix sums and their applications": 2(n − 1) − log₂ n operations for each of d columns."""
    sizes = [(n, d, 1, 1) for n in (64, 128, 256, 512, 1024, 2048) for d in (64, 128, 256)]
    law = exact_law(Sizes.of(sizes), [d * (2 * (n - 1) - (n.bit_length() - 1)) for n, d, _, _ in sizes])
    assert law is not None
    assert law.determined
    assert law.polynomial == Polynomial({Term(n=1, d=1): 2, Term(d=1): -2, Term(d=1, log=1): -1})


def test_a_logarithm_and_a_power_of_n_are_told_by_four_sizes() -> None:
    law = exact_law(grid((64, 128, 256, 512)), [n // 8 + 2 * (n.bit_length() - 1) for n in (64, 128, 256, 512)])
    assert law is not None
    assert law.determined


@pytest.mark.parametrize("lengths", [(32, 64, 128), (32, 64, 128, 256)])
def test_a_logarithm_and_a_constant_above_0_are_told_by_three_sizes(lengths: tuple[int, ...]) -> None:
    law = exact_law(grid(lengths), [2 * (n.bit_length() - 1) + 1 for n in lengths])
    assert law is not None
    assert str(law) == "2 log n + 1"
    assert law.determined


def test_a_peak_that_another_phase_has_at_small_n_has_its_law_from_there_on() -> None:
    costs = counts(GRID, lambda n, d, h, b: max(8 * h * n * n + 16 * n * d, 8 * h * n * n + 4 * n * d + 200_000))
    law = exact_pieces(GRID, costs)
    assert law is not None
    assert str(law) == "8 h·n² + 16 n·d"
    (found,) = law.breaks
    assert found.n == 256
    above = GRID.n >= 256
    assert (law(GRID)[above] == np.array(costs)[above]).all()


# Sizes (n, d, h, b) at which n·d/b is 1,024, at which d/h is 64 too, and at which each axis varies alone.
TIED = [(n, d, 4, n * d // 1024) for n in (64, 128, 256, 512) for d in (64, 128, 256)]
TIED_TWICE = [(n, d, d // 64, n * d // 1024) for n in (64, 128, 256, 512) for d in (64, 128, 256)]
CROSSED = [*((n, 128, 4, 2) for n in (64, 128, 256, 512)), *((64, d, 4, 2) for d in (64, 256)), (64, 128, 4, 4)]


@pytest.mark.parametrize("other", ["d", "h", "b"])
def test_two_lengths_tell_no_law_that_begins_at_them_however_many_points_another_axis_adds(other: str) -> None:
    lengths, others = (256, 512, 1024, 2048), (2, 4)
    grid_of_others = [{"n": n, "d": 64, "h": 1, "b": 1, other: 64 * value} for n in lengths for value in others]
    sizes = Sizes.of((at["n"], at["d"], at["h"], at["b"]) for at in grid_of_others)
    depth = [7 + 2 * -(-int(n) // 64) for n in sizes.n]
    law = exact_pieces(sizes, depth)
    assert law is None or str(law) == "0.0313 n + 7"


@pytest.mark.parametrize(
    ("sizes", "count", "reason"),
    [
        # 7 n²·d² is 7,168 b·n·d at these sizes, and 4 b·n·d is n²·d²/256.
        (TIED, lambda n, d, h, b: 4 * b * n * d, "n, d and b vary only together: vary one alone"),
        (TIED, lambda n, d, h, b: 7 * n * n * d * d, "n, d and b vary only together: vary one alone"),
        (TIED, lambda n, d, h, b: b * n * n, "n, d and b vary only together: vary one alone"),
        (TIED_TWICE, lambda n, d, h, b: b * n * n, "n, d, h and b vary only together: vary one alone"),
        ([*TIED, (64, 64, 4, 1)], lambda n, d, h, b: 4 * b * n * d, ""),
        (CROSSED, lambda n, d, h, b: 4 * b * n * d, ""),
        ([(n, d, 4, b) for n, d, *_ in TIED for b in (1, 2)], lambda n, d, h, b: 4 * b * n * d, ""),
    ],
    ids=["one of several", "another", "not n·d", "two products", "one size beside", "each alone", "every combination"],
)
def test_axes_of_a_constant_product_tell_no_law(
    sizes: list[tuple[int, int, int, int]], count: Count, reason: str
) -> None:
    law = exact_law(Sizes.of(sizes), [count(*size) for size in sizes])
    assert law is not None
    assert law.determined == (not reason)
    assert not reason or law.reason == reason
