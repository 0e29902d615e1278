"""Memory against the exact law of its bytes, or against its growth at the largest sizes."""

from dataclasses import replace

import pytest
from analysis.measured import Cost, measured, verdict

from harness.analysis.claim_rules import judge_memory
from harness.polynomial import Term, parse

N2D, ND2, ND, N = Term(n=2, d=1), Term(n=1, d=2), Term(n=1, d=1), Term(n=1)


def test_memory_of_the_claimed_order_is_confirmed_whatever_its_constants() -> None:
    one = verdict("memory", measured("attention.packed", memory=lambda n, d, h: 8 * h * n * n + 16 * n * d + 5 * n))
    assert (one.claimed, one.verdict) == ("O(hn² + nd)", "confirmed")
    assert one.measured == "n^1.96·d^0.02·h^0.94"
    assert "words for each claimed" in one.reason


@pytest.mark.parametrize(
    ("memory", "term"),
    [
        (lambda n, d, h: 4 * n * n + 16 * n * d, "n²"),
        (lambda n, d, h: 16 * n * d * d, "n·d²"),
        (lambda n, d, h: 16 * n * d * h, "h·n·d"),
    ],
)
def test_memory_that_grows_faster_than_claimed_is_refuted_by_the_term(memory: Cost, term: str) -> None:
    one = verdict("memory", measured("attention.fused", memory=memory, widths=(64, 128, 256), heads=(2, 4, 8)))
    assert one.verdict == "refuted"
    assert one.reason.startswith(f"{term} grows faster than the claim")


@pytest.mark.parametrize(
    ("memory", "axis"),
    [
        (lambda n, d, h: 4 * n * n + 16 * n * d + n % 7, "n"),
        (lambda n, d, h: 16 * n * d * d + n % 7, "d"),
        (lambda n, d, h: 16 * n * d * h + n % 7, "h"),
    ],
)
def test_memory_without_an_exact_law_is_refuted_by_the_axis_along_which_it_grows_faster(
    memory: Cost, axis: str
) -> None:
    one = verdict("memory", measured("attention.fused", memory=memory, widths=(64, 128, 256), heads=(2, 4, 8)))
    assert (one.verdict, f": with {axis} it grows faster than the claim" in one.reason) == ("refuted", True)


def test_memory_of_each_head_is_within_that_of_the_width() -> None:
    for rest in (0, 1):  # with and without an exact law
        memory = measured("attention.fused", memory=lambda n, d, h, r=rest: 16 * n * h + r * (n % 7), widths=(64, 128))
        assert verdict("memory", memory).verdict == "confirmed"


def fused_workspace(n: int, d: int, h: int) -> int:
    """Memory of the order nd, except for a workspace from n = 1024 on."""
    return 10 * n * d + (6 * 10**5 if n >= 1024 else 0)


@pytest.mark.parametrize("sizes", [(512, 1024), (256, 512, 1024), (128, 256, 512, 1024), (64, 128, 256, 512, 1024)])
def test_a_single_step_at_the_largest_n_refutes_no_order(sizes: tuple[int, ...]) -> None:
    one = verdict("memory", measured("attention.fused", memory=fused_workspace, sizes=sizes, widths=(64, 128)))
    assert (one.verdict, one.measured) == ("undetermined", "n^1.54·d^0.61·h^0.00")
    few, more = "1.54 along n, 0.61 along d", "1.00 to 1.54 along n, 0.61 along d"
    assert one.reason.startswith(f"measured exponents {few if len(sizes) == 2 else more}")
    assert ("two n cannot tell growth from a step" in one.reason) == (len(sizes) == 2)
    assert ("larger sizes would tell" in one.reason) == (len(sizes) > 2)


def test_memory_that_a_layer_allocates_outside_torch_at_one_size_leaves_its_claim_undetermined() -> None:
    seen = measured("attention.fused", memory=lambda n, d, h: 16 * n * d)
    partly = [
        replace(line, peak_bytes=None, peak_traced_bytes=2**17) if line.seq_len == 2048 else line for line in seen
    ]
    assert judge_memory(seen, parse("nd")).verdict == "confirmed"
    found = judge_memory(partly, parse("nd"))
    assert (found.verdict, found.measured) == ("undetermined", "")
    assert found.reason == "its peak memory is not known: it allocates memory outside torch"


def test_a_step_that_larger_n_have_left_behind_confirms_the_order() -> None:
    one = verdict("memory", measured("attention.fused", memory=fused_workspace, widths=(64, 128)))
    assert one.verdict == "confirmed"


def test_a_rise_that_only_the_upper_half_of_the_sizes_has_is_undetermined() -> None:
    def risen(n: int, d: int, h: int) -> int:
        return 10 * n * d * (4 if n >= 1024 else 1)

    one = verdict("memory", measured("attention.fused", memory=risen))
    assert one.verdict == "undetermined"
    assert one.reason.startswith("measured exponents 1.00 to 3.00 along n, ")


@pytest.mark.parametrize("sizes", [(512, 1024, 2048), (64, 128, 256, 512, 1024, 2048)])
def test_memory_that_rises_faster_throughout_is_refuted(sizes: tuple[int, ...]) -> None:
    one = verdict("memory", measured("attention.fused", memory=lambda n, d, h: 4 * n * n + 16 * n * d, sizes=sizes))
    assert (one.verdict, one.measured) == ("refuted", "4 n² + 16 n·d bytes")


@pytest.mark.parametrize(
    ("impl", "memory", "law"),
    [
        ("attention.packed", lambda n, d, h: 16 * n * h, "16 h·n bytes"),
        ("attention.fused", lambda n, d, h: 16 * n * d + 10**7, "16 n·d + 10,000,000 bytes"),
    ],
)
def test_memory_that_grows_more_slowly_than_claimed_is_within_the_bound(impl: str, memory: Cost, law: str) -> None:
    one = verdict("memory", measured(impl, memory=memory))
    assert (one.verdict, one.measured) == ("confirmed", law)


@pytest.mark.parametrize("sizes", [(512,), (256, 512), (16, 32, 64), (64, 128, 256, 512, 1024, 2048)])
def test_one_head_of_attention_that_writes_down_its_scores_alone_is_not_refuted(sizes: tuple[int, ...]) -> None:
    found = judge_memory(
        measured("their:Layer", memory=lambda n, d, h: 8 * n * n + 12, heads=(1,), sizes=sizes), parse("n² + nd")
    )
    assert found.verdict == ("confirmed" if len(sizes) > 1 else "undetermined")


def test_memory_within_one_term_of_its_claim_is_confirmed_and_the_product_of_two_is_not() -> None:
    def verdict_of(memory: Cost) -> str:
        return judge_memory(measured("their:Layer", memory=memory, widths=(64, 128, 256)), parse("hn² + nd")).verdict

    assert verdict_of(lambda n, d, h: 16 * n * d) == "confirmed"
    assert verdict_of(lambda n, d, h: 16 * n * n * d * h) == "refuted"
    assert verdict_of(lambda n, d, h: 16 * n**3) == "refuted"


def test_memory_is_not_confirmed_along_an_axis_that_was_not_varied() -> None:
    one = verdict("memory", measured("attention.fused", memory=lambda n, d, h: 16 * n * d, widths=(128,)))
    assert (one.verdict, one.measured) == ("undetermined", "2,048 n bytes")
    assert one.reason.startswith("d was not varied")


def test_memory_handed_out_in_blocks_refutes_nothing_between_sizes_that_are_close() -> None:
    def in_blocks(n: int, d: int, h: int) -> int:
        return 4 * d * (-(-n // 64) * 64)

    one = verdict("memory", measured("attention.fused", memory=in_blocks, sizes=(40, 50, 64, 70)))
    assert (one.verdict, one.measured) == ("undetermined", "d^1.00·h^0.00")
    assert one.reason.startswith("n was not varied by a factor of two")


def test_memory_is_compared_between_sizes_a_factor_of_two_apart_where_there_are_closer_ones() -> None:
    def in_blocks(n: int, d: int, h: int) -> int:
        return 4 * d * (-(-n // 64) * 64)

    one = verdict("memory", measured("attention.fused", memory=in_blocks, sizes=(512, 1024, 1088, 1090)))
    assert (one.verdict, one.measured) == ("confirmed", "n^1.07·d^1.00·h^0.00")


def test_memory_between_two_terms_of_its_claim_is_within_their_sum() -> None:
    of = measured("their:Layer", memory=lambda n, d, h: 16 * n * d, widths=(64, 128, 256))
    assert judge_memory(of, parse("n² + d²")).verdict == "confirmed"
    assert judge_memory(of, parse("n² + d")).verdict == "refuted"


def test_memory_at_one_size_tells_nothing_of_its_order() -> None:
    one = verdict("memory", measured("attention.fused", memory=lambda n, d, h: n * d, sizes=(64,))[:1])
    assert (one.verdict, one.reason) == ("undetermined", "no size was varied by a factor of two")


def test_memory_that_nobody_knows_is_undetermined() -> None:
    one = verdict("memory", [replace(line, peak_bytes=None) for line in measured("attention.fused")])
    assert (one.verdict, one.reason) == ("undetermined", "its peak memory is not known")
