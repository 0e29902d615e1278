"""What a call pays for new memory: the laws of its blocks, and their cost at sizes that were not measured."""

import numpy as np
import pytest
from study.laws.costs import attention, grid, noisy

from harness.core.model.polynomial import Term
from harness.study.laws.laws import Costs, Floats, Sizes, exponent_of
from harness.study.laws.page_faults import PAGE_BYTES, PageFaults, page_faults
from harness.study.laws.piecewise import fit_pieces, predictor

PAGE_S = 1.25e-6
MAPPED_FROM = 32 * 2**20
ALL = grid(d=(128, 256), h=(2, 8))
SEEN = ALL[ALL.n <= 512]


def blocks_of(sizes: Sizes) -> list[dict[int, int]]:
    """Three blocks of scores for all heads and four of activations, as packed attention has them."""
    found = []
    for n, d, h in np.stack([sizes.n, sizes.d, sizes.h], axis=1).astype(int).tolist():
        of_point: dict[int, int] = {}
        for size, number in ((4 * h * n * n, 3), (12 * n * d, 1), (4 * n * d, 3)):
            of_point[size] = of_point.get(size, 0) + number
        found.append(of_point)
    return found


def mapped_of(sizes: Sizes, mapped_from: float = MAPPED_FROM) -> list[int]:
    return [sum(size * k for size, k in one.items() if size >= mapped_from) for one in blocks_of(sizes)]


def faults_of(sizes: Sizes, mapped_from: float = MAPPED_FROM) -> PageFaults:
    found = page_faults(sizes, blocks_of(sizes), mapped_of(sizes, mapped_from), (PAGE_S, 0.05), mapped_from)
    assert found is not None
    return found


def times(sizes: Sizes) -> Floats:
    return attention(sizes, 1e11) + 1e-9 * sizes.h * sizes.n**2 + np.array(mapped_of(sizes)) / PAGE_BYTES * PAGE_S


def test_blocks_of_small_sizes_give_the_bytes_that_larger_ones_map() -> None:
    assert mapped_of(SEEN) == [0] * len(SEEN)
    beyond = ALL[ALL.n > 512]
    assert faults_of(SEEN)(beyond) == pytest.approx(np.array(mapped_of(beyond)) / PAGE_BYTES * PAGE_S)


def test_blocks_of_several_kinds_with_the_same_size_are_told_apart() -> None:
    found = {(block.bytes_each, block.size, block.times) for block in faults_of(SEEN).blocks}
    assert {(4, Term(n=2, h=1), 3), (12, Term(n=1, d=1), 1), (4, Term(n=1, d=1), 3)} == found


def test_one_block_for_each_head_is_counted_for_each_head() -> None:
    blocks = [{int(4 * n * n): int(3 * h)} for n, h in zip(ALL.n, ALL.h, strict=True)]
    mapped = [sum(size * k for size, k in one.items() if size >= 2**24) for one in blocks]
    found = page_faults(ALL, blocks, mapped, (PAGE_S, 0.05), 2**24)
    assert found is not None
    assert found(Sizes.of([(4096, 128, 8, 1)])) == pytest.approx(24 * 2**26 / PAGE_BYTES * PAGE_S)


def test_blocks_that_follow_no_law_leave_the_cost_unknown() -> None:
    drawn = np.random.default_rng(0).integers(2**20, 2**27, len(ALL)).tolist()
    mapped = [size if size >= MAPPED_FROM else 0 for size in drawn]
    assert page_faults(ALL, [{size: 1} for size in drawn], mapped, (PAGE_S, 0.05), MAPPED_FROM) is None


def test_the_cost_of_page_faults_is_predicted_from_sizes_that_pay_none() -> None:
    costs = noisy(times(SEEN), 0.02, 1)
    errors = np.full(len(SEEN), 0.02)
    size = Sizes.of([(2048, 128, 8, 1)])
    without, with_faults = (fit_pieces(Costs(SEEN, costs, errors, known=known)) for known in (None, faults_of(SEEN)))
    assert without(size) / times(size) - 1 < -0.5
    assert with_faults(size) / times(size) - 1 == pytest.approx(0, abs=0.1)


def test_one_law_holds_for_sizes_that_pay_page_faults_and_sizes_that_do_not() -> None:
    costs, errors = noisy(times(ALL), 0.02, 1), np.full(len(ALL), 0.02)
    without, law = (fit_pieces(Costs(ALL, costs, errors, known=known)) for known in (None, faults_of(ALL)))
    assert not without.determined
    assert law.determined
    assert not law.breaks
    assert law.noise < 0.03
    assert str(law).endswith(" + page faults")


def test_the_exponent_of_a_time_counts_its_page_faults() -> None:
    law = fit_pieces(Costs(ALL, times(ALL), np.full(len(ALL), 0.01), known=faults_of(ALL)))
    ends = np.log([float(law(Sizes.of([(n, 128, 8, 1)]))[0]) for n in (2040, 2056)])
    found = exponent_of(law, "n", 2048, 128, 8)
    assert found is not None
    assert found.value == pytest.approx((ends[1] - ends[0]) / np.log(2056 / 2040), abs=0.01)
    assert found.lo <= found.value <= found.hi


def test_blocks_larger_than_any_measured_that_are_not_mapped_may_fault_too() -> None:
    costs = attention(SEEN, 1e11)
    errors = np.full(len(SEEN), 0.01)
    plain = predictor(Costs(SEEN, costs, errors))(2048, 128, 8)
    wary = predictor(Costs(SEEN, costs, errors, known=faults_of(SEEN, 2**33)))(2048, 128, 8)
    every = 3 * 4 * 8 * 2048**2 / PAGE_BYTES * PAGE_S
    assert wary.value - plain.value == pytest.approx(0.2 * every, rel=0.1)
    assert wary.hi > plain.value + 0.5 * every
    assert wary.lo < plain.value


def test_an_allocator_that_keeps_all_memory_pays_nothing() -> None:
    found = page_faults(SEEN, blocks_of(SEEN), [0] * len(SEEN), (PAGE_S, 0.05), None)
    assert found is not None
    beyond = ALL[ALL.n > 512]
    assert not found(beyond).any()
    assert not np.any(found.unmeasured(beyond))


def test_without_knowledge_of_page_faults_predictions_are_less_certain() -> None:
    costs, errors = noisy(attention(SEEN, 1e11), 0.02, 1), np.full(len(SEEN), 0.02)
    unknown = predictor(Costs(SEEN, costs, errors))(2048, 128, 2)
    steady = page_faults(SEEN, blocks_of(SEEN), [0] * len(SEEN), (PAGE_S, 0.05), None)
    known = predictor(Costs(SEEN, costs, errors, known=steady))(2048, 128, 2)
    assert unknown.hi / unknown.lo > 1.3 * known.hi / known.lo


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_jump_of_large_blocks_is_found_along_the_blocks_and_not_along_n(noise: float) -> None:
    scores = 4 * ALL.h * ALL.n**2
    costs = noisy((1e-9 * ALL.h * ALL.n**2 + attention(ALL, 1e11)) * np.where(scores >= 2**23, 2.0, 1.0), noise, 4)
    law = fit_pieces(Costs(ALL, costs, np.full(len(ALL), 0.02), known=faults_of(ALL, 2**40)))
    assert [found.bytes for found in law.breaks] == [2**23]
    assert law.breaks[0].n == 512  # with eight heads; 1024 with two
    beyond = Sizes.of([(512, 128, 8, 1), (512, 128, 2, 1), (1024, 128, 2, 1)])
    assert (law.position(beyond) >= law.breaks[0].position).tolist() == [True, False, True]


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_a_law_that_only_bends_has_no_break_along_its_blocks(noise: float) -> None:
    for seed in range(10):
        costs = noisy(attention(ALL, 1e11), noise, seed)
        assert (
            fit_pieces(Costs(ALL, costs, np.full(len(ALL), max(noise, 0.01)), known=faults_of(ALL, 2**40))).breaks == ()
        )
