"""Memory against the exact law of its bytes, or against its growth at the largest sizes."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from study.laws.measured import CONFIRMED, REFUTED, SIZES, UNDETERMINED, Cost, judged, measured, verdict
from syrupy import SnapshotAssertion

from harness.core.model.polynomial import parse
from harness.study.claims.claim_rules import judge_memory
from harness.study.claims.claims_table import ClaimVerdict


def memory(cost: Cost, impl: str = "attention.fused", **options: object) -> ClaimVerdict:
    return verdict("memory", measured(impl, memory=cost, **options))


def linear(n: int, d: int, h: int) -> int:
    return 16 * n * d


def step(n: int, d: int, h: int) -> int:
    """Memory of the order nd, except for a workspace from n = 1024 on."""
    return 10 * n * d + (6 * 10**5 if n >= 1024 else 0)


def blocks(n: int, d: int, h: int) -> int:
    """Memory in blocks of 64 tokens."""
    return 4 * d * (-(-n // 64) * 64)


def heads_squared(n: int, d: int, h: int) -> int:
    """Beside nd, a term that is beyond it: h may be as large as d."""
    return 8 * n * d + 8 * n * h * h


def quadratic(n: int, d: int, h: int) -> int:
    return 4 * n * n + 16 * n * d


def test_memory_is_judged_by_its_exact_law_or_by_how_fast_it_grows(snapshot: SnapshotAssertion) -> None:
    wide = {"widths": (64, 128, 256), "heads": (2, 4, 8)}
    narrow = {"widths": (64, 128)}
    unknown = [replace(line, peak_bytes=None) for line in measured("attention.fused")]
    outside = [
        replace(line, peak_bytes=None, peak_traced_bytes=2**17) if line.seq_len == 2048 else line
        for line in measured("attention.fused", memory=linear)
    ]
    masked = memory(lambda n, d, h: 4 * n * n + n * d, "attention.linear.parallel", mask="causal")
    unmasked = memory(lambda n, d, h: 4 * n * n + n * d, "attention.linear.parallel")
    told = judged(
        ("of its order", CONFIRMED, memory(lambda n, d, h: 8 * h * n * n + 16 * n * d + 5 * n, "attention.packed")),
        ("faster along n", REFUTED, memory(quadratic, **wide)),
        ("faster along n, at three sizes", REFUTED, memory(quadratic, sizes=(512, 1024, 2048))),
        ("faster along d", REFUTED, memory(lambda n, d, h: 16 * n * d * d, **wide)),
        ("faster along h", REFUTED, memory(lambda n, d, h: 16 * n * d * h, **wide)),
        ("faster along n, without a law", REFUTED, memory(lambda n, d, h: quadratic(n, d, h) + n % 7, **wide)),
        ("faster along d, without a law", REFUTED, memory(lambda n, d, h: 16 * n * d * d + n % 7, **wide)),
        ("faster along h, without a law", REFUTED, memory(lambda n, d, h: 16 * n * d * h + n % 7, **wide)),
        ("of each head, within the width", CONFIRMED, memory(lambda n, d, h: 16 * n * h, **narrow)),
        ("of each head, without a law", CONFIRMED, memory(lambda n, d, h: 16 * n * h + n % 7, **narrow)),
        ("faster along two h, on a constant", UNDETERMINED, memory(heads_squared, **narrow, heads=(2, 4))),
        ("faster along three h, on a constant", UNDETERMINED, memory(heads_squared, **narrow, heads=(2, 4, 8))),
        ("a step, at two sizes", UNDETERMINED, memory(step, sizes=(512, 1024), **narrow)),
        ("a step, at three sizes", UNDETERMINED, memory(step, sizes=(256, 512, 1024), **narrow)),
        ("a step, at five sizes", UNDETERMINED, memory(step, sizes=(64, 128, 256, 512, 1024), **narrow)),
        ("a step that larger n leave behind", CONFIRMED, memory(step, **narrow)),
        ("risen in the upper half", UNDETERMINED, memory(lambda n, d, h: 10 * n * d * (4 if n >= 1024 else 1))),
        ("slower along n", CONFIRMED, memory(lambda n, d, h: 16 * n * h, "attention.packed")),
        ("a large constant", CONFIRMED, memory(lambda n, d, h: linear(n, d, h) + 10**7)),
        ("one size", UNDETERMINED, verdict("memory", measured("attention.fused", memory=linear, sizes=(64,))[:1])),
        ("d was not varied", UNDETERMINED, memory(linear, widths=(128,))),
        ("in blocks, at n that are close", UNDETERMINED, memory(blocks, sizes=(40, 50, 64, 70))),
        ("in blocks, at some n that are close", UNDETERMINED, memory(blocks, sizes=(512, 1024, 1088, 1090))),
        ("not known", UNDETERMINED, verdict("memory", unknown)),
        ("allocated outside torch at one n", UNDETERMINED, verdict("memory", outside)),
        ("under a mask that was not claimed", UNDETERMINED, masked),
        ("the same without a mask", REFUTED, unmasked),
    )
    assert told == snapshot


@pytest.mark.parametrize("sizes", [(512,), (256, 512), (16, 32, 64), (64, 128, 256, 512, 1024, 2048)])
def test_one_head_of_attention_that_writes_down_its_scores_alone_is_not_refuted(sizes: tuple[int, ...]) -> None:
    of = measured("their:Layer", memory=lambda n, d, h: 8 * n * n + 12, heads=(1,), sizes=sizes)
    # Two sizes of a peak without an exact law do not tell how it grows.
    assert judge_memory(of, parse("n² + nd")).verdict == (CONFIRMED if len(sizes) > 2 else UNDETERMINED)


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (linear, CONFIRMED),
        (lambda n, d, h: 16 * n * n * d * h, REFUTED),
        (lambda n, d, h: 16 * n**3, REFUTED),
    ],
)
def test_memory_within_one_term_of_its_claim_is_confirmed_and_the_product_of_two_is_not(
    cost: Cost, expected: str
) -> None:
    of = measured("their:Layer", memory=cost, widths=(64, 128, 256))
    assert judge_memory(of, parse("hn² + nd")).verdict == expected


@pytest.mark.parametrize(("claim", "expected"), [("n² + d²", CONFIRMED), ("n² + d", REFUTED)])
def test_memory_between_two_terms_of_its_claim_is_within_their_sum(claim: str, expected: str) -> None:
    of = measured("their:Layer", memory=linear, widths=(64, 128, 256))
    assert judge_memory(of, parse(claim)).verdict == expected


@pytest.mark.parametrize("sizes", [(129, 257, 513), (64, 128, 256, 512), (65, 129, 257, 513, 1025)])
@pytest.mark.parametrize("widths", [(64, 128), (64, 128, 256)])
def test_a_window_refutes_no_claim_of_memory_below_twice_its_tokens(
    sizes: tuple[int, ...], widths: tuple[int, ...]
) -> None:
    of = measured("their:Layer", memory=window(512), sizes=sizes, widths=widths)
    assert judge_memory(of, parse("nd")).verdict == UNDETERMINED


def test_memory_that_grows_with_the_cube_of_n_is_refuted_by_few_tokens() -> None:
    of = measured("their:Layer", memory=lambda n, d, h: 8 * n**3, sizes=(64, 128, 256), widths=(64, 128, 256))
    assert judge_memory(of, parse("nd")).verdict == REFUTED


@pytest.mark.parametrize("cost", [quadratic, lambda n, d, h: quadratic(n, d, h) + n % 7])
@pytest.mark.parametrize("widths", [(64, 128), (64, 128, 256)])
def test_memory_of_all_pairs_refutes_a_claim_of_the_order_nd_at_usual_sizes(
    cost: Cost, widths: tuple[int, ...]
) -> None:
    of = measured("their:Layer", memory=cost, widths=widths)
    assert judge_memory(of, parse("nd")).verdict == REFUTED


def test_two_widths_whose_bytes_may_be_of_the_order_nd_do_not_refute_it() -> None:
    of = measured("their:Layer", memory=lambda n, d, h: n * (48 * d - 512), widths=(16, 32))
    found = judge_memory(of, parse("nd"))
    assert found.verdict == UNDETERMINED
    assert "two d cannot tell growth from a step" in found.reason


def kernel(block: Callable[[int], int]) -> Cost:
    """Memory of torch's flash kernel on a CPU: 20nd bytes, or inputs and the scores of one block."""

    def cost(n: int, d: int, h: int) -> int:
        queries, keys = block(n), min(n, 512)
        return max(20 * n * d, 16 * n * d + 4 * n * h + 4 * queries * (keys + 2 + d // h))

    return cost


def queries_of_torch(n: int) -> int:
    return 256 if n >= 768 else 64 if n >= 192 else 32


def quarter_of_queries(n: int) -> int:
    """As many as torch's up to n = 256, and then ever more, so that memory is quadratic up to the largest block."""
    return max(32, n // 4)


FEW, SIX = (64, 128, 256), SIZES
# By hand: 16·64·32 + 4·64·4 + 4·32·(64 + 2 + 8) = 43,264, and 20·64·64 = 81,920.
FLASH = {
    (64, 32): 43_264,
    (128, 32): 85_248,
    (256, 32): 203_264,
    (64, 64): 81_920,
    (128, 64): 163_840,
    (256, 64): 336_384,
}


@pytest.mark.parametrize(
    ("cost", "sizes", "expected"),
    [
        (lambda n, d, h: FLASH[n, d], FEW, UNDETERMINED),
        (kernel(queries_of_torch), FEW, UNDETERMINED),
        (kernel(quarter_of_queries), FEW, UNDETERMINED),
        (kernel(queries_of_torch), SIX, CONFIRMED),
        (kernel(quarter_of_queries), SIX[:-1], UNDETERMINED),
        (lambda n, d, h: 20 * n * d, FEW, CONFIRMED),
        (lambda n, d, h: 20 * n * d + n * n // 8, FEW, UNDETERMINED),  # as of a window of 256
        (lambda n, d, h: 20 * n * d + n * n // 7, FEW, UNDETERMINED),
        (lambda n, d, h: 20 * n * d + n * n // 7, (128, 256), UNDETERMINED),
        (lambda n, d, h: 10**6 + 20 * n * d + n * n // 7, FEW, UNDETERMINED),
        (lambda n, d, h: 20 * n * d + n * n // 7 + (10**6 if n >= 1024 else 0), SIX, UNDETERMINED),
        (lambda n, d, h: 20 * n * d + 8 * n * math.isqrt(n) + n * n % 5, FEW, UNDETERMINED),
        (lambda n, d, h: 20 * n * d + 8 * n * n.bit_length() + n * n % 5, FEW, UNDETERMINED),
        (lambda n, d, h: 20 * d * (-(-n // 64) * 64), (64, 128, 260), UNDETERMINED),
        (lambda n, d, h: 20 * n * d + n % 5, FEW, CONFIRMED),
        (lambda n, d, h: 20 * n * d + 4096 * n + 777 * d + n % 5, FEW, CONFIRMED),
    ],
)
def test_few_sizes_confirm_only_what_no_faster_law_gives_too(cost: Cost, sizes: tuple[int, ...], expected: str) -> None:
    assert memory(cost, sizes=sizes, widths=(32, 64), heads=(4,)).verdict == expected


@pytest.mark.parametrize("sizes", [(64, 128, 256), (512, 1024, 2048)])
@pytest.mark.parametrize("widths", [(8, 16), (32, 64)])
def test_two_widths_confirm_no_sum_whose_powers_of_n_and_d_both_exceed_it_by_little(
    sizes: tuple[int, ...], widths: tuple[int, ...]
) -> None:
    """4nd + nd²/32 grows as n d^1.06 to n d^1.26 between these widths, the claim as n d or d²."""
    of = measured(
        "their:Layer", memory=lambda n, d, h: 4 * n * d + n * d * d // 32, sizes=sizes, widths=widths, heads=(1,)
    )
    assert judge_memory(of, parse("nd + d²")).verdict == UNDETERMINED
    linear_of = measured("their:Layer", memory=lambda n, d, h: 4 * n * d, sizes=sizes, widths=widths, heads=(1,))
    assert judge_memory(linear_of, parse("nd + d²")).verdict == CONFIRMED


def test_three_sizes_of_a_kernel_are_those_of_a_quadratic_one_too() -> None:
    for (n, d), counted in FLASH.items():
        assert kernel(queries_of_torch)(n, d, 4) == kernel(quarter_of_queries)(n, d, 4) == counted


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (lambda n, d, h: 20 * n * d + n * n // 8, REFUTED),  # one bit for each pair: an exact law of eighths
        (lambda n, d, h: 20 * n * d + n * n // 7, UNDETERMINED),  # no exact law; the exponent rises to 1.04
        (lambda n, d, h: 20 * n * d + n % 7, CONFIRMED),
        (lambda n, d, h: 20 * n * d + 4 * n * h + 512, CONFIRMED),
    ],
)
def test_a_small_term_beyond_the_claim_keeps_it_from_being_confirmed(cost: Cost, expected: str) -> None:
    assert memory(cost, widths=(64, 128, 256)).verdict == expected


DOUBLED = (64, 128, 256, 512, 1024)
ONE_MORE, ONE_LESS = (tuple(n + more for n in DOUBLED) for more in (1, -1))


def window(size: int) -> Cost:
    """Scores within a window of tokens: n² up to its size, and then n."""
    return lambda n, d, h: 8 * n * min(n, size) + 8 * n * d


# From the last change on, the memory is of the order of its claim: a window, padding, whole chunks, and a table.
@pytest.mark.parametrize(
    "sizes", [DOUBLED, ONE_MORE, ONE_LESS, (100, 300, 900), (*DOUBLED, 2048), (65, 97, 257, 513, 1025)]
)
@pytest.mark.parametrize(
    "cost",
    [
        window(512),
        window(300),
        window(200),
        lambda n, d, h: 8 * max(n, 256) * d,
        lambda n, d, h: 128 * -(-n // 128) * 8 * d,
        lambda n, d, h: 8 * n * d + (4 * 512**2 if n < 512 else 0),
        lambda n, d, h: 8 * n * d + (4 * 512**2 if n > 512 else 0),
    ],
    ids=["window of 512", "window of 300", "window of 200", "padding", "chunks", "table below", "table above"],
)
def test_growth_that_ends_within_the_sizes_refutes_no_claim(cost: Cost, sizes: tuple[int, ...]) -> None:
    assert memory(cost, sizes=sizes, widths=(64, 128, 256), heads=(4,)).verdict != REFUTED


@pytest.mark.parametrize(
    ("cost", "sizes", "expected"),
    [
        (window(512), ONE_MORE, UNDETERMINED),  # of the last regime there are two sizes
        (window(512), (*ONE_MORE, 2049), CONFIRMED),
        (window(512), (64, 100, 128, 200, 256, 384, 512, 640, 768, 1024), CONFIRMED),
        (window(256), ONE_MORE, CONFIRMED),
        (lambda n, d, h: 8 * max(n, 256) ** 2 + 8 * n * d, DOUBLED, REFUTED),
        (lambda n, d, h: 8 * max(n, 512) ** 2 + 8 * n * d, DOUBLED, UNDETERMINED),
        (lambda n, d, h: 8 * n * n + 8 * n * d + n % 7, ONE_MORE, REFUTED),
    ],
)
def test_the_last_regime_decides_if_it_has_sizes_enough(cost: Cost, sizes: tuple[int, ...], expected: str) -> None:
    assert memory(cost, sizes=sizes, widths=(64, 128, 256), heads=(4,)).verdict == expected


# Each memory is of a higher order than its claim, along an axis of which the run knows one size.
@pytest.mark.parametrize(
    ("claim", "cost", "varied", "alone"),
    [
        ("n", lambda n, d, h: 4 * n * d, {"widths": (64,), "heads": (4,)}, ", at d = 64 alone, at h = 4 alone; "),
        ("n", lambda n, d, h: 4 * n * d, {"widths": (64,), "heads": (2, 8)}, ", at d = 64 alone; "),
        ("nd", lambda n, d, h: 4 * n * d * h, {"widths": (64, 128, 256), "heads": (4,)}, ", at h = 4 alone; "),
        ("n", lambda n, d, h: 4 * n * d + n % 7, {"widths": (64,)}, ", at d = 64 alone; "),
        ("n", lambda n, d, h: n * (d > 0) + n % 7, {"widths": (64, 96)}, ", at d = 64 and 96 alone; "),
        ("d", lambda n, d, h: 4 * n * d, {"sizes": (64,), "widths": (64, 128, 256)}, ", at n = 64 alone; "),
        ("n + 64h", lambda n, d, h: 4 * n * h, {"heads": (2,)}, ", at h = 2 alone; "),
        ("n", lambda n, d, h: 4 * n, {"widths": (64, 128), "heads": (2, 8)}, "no term grows faster than the claim; "),
    ],
)
def test_a_confirmed_claim_of_memory_names_the_axes_of_which_nothing_is_known(
    claim: str, cost: Cost, varied: dict[str, object], alone: str
) -> None:
    one = judge_memory(measured("their:Layer", memory=cost, **varied), parse(claim))
    assert one.verdict == CONFIRMED
    assert alone in one.reason


def test_a_confirmed_claim_of_memory_names_an_own_axis_outside_it() -> None:
    of = measured("their:Layer", memory=lambda n, d, h: 4 * n * 32, own_axes='{"window": ["w", 32]}')
    assert ", at w = 32 alone; " in judge_memory(of, parse("n")).reason
