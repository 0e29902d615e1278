"""Work, depth and path against counts that are exact."""

import json
import math
from dataclasses import replace

import pytest
from study.laws.measured import CONFIRMED, REFUTED, UNDETERMINED, Cost, attention, judged, measured, verdict
from syrupy import SnapshotAssertion

from harness.core.model import own_axes
from harness.core.model.polynomial import parse
from harness.study.claims.claim_rules import judge_memory, judge_work
from harness.study.claims.claims_table import ClaimVerdict, verdicts
from harness.study.laws.fitted_laws import fit_laws

BOTH = ("depth", "path")


def half_the_scores(n: int, d: int, h: int) -> int:
    return 8 * n * d * d + 2 * n * (n + 1) * d


def test_work_is_judged_to_the_last_digit(snapshot: SnapshotAssertion) -> None:
    def work(cost: Cost | None = attention, impl: str = "attention.fused", **options: object) -> ClaimVerdict:
        return verdict("work", measured(impl, cost, **options))

    usual = measured("attention.fused", attention)
    one = [replace(line, batch_size=1, flops=line.flops // 2) for line in usual]
    causal = [replace(line, flops=line.flops // 2 + 1) for line in usual]
    padded = measured("attention.fused", lambda n, d, h: attention(n, d, h) + 1, widths=(24,), device="cuda")
    theirs = [replace(line, flops_full=None) for line in measured("their:Layer", attention)]
    stated = [replace(line, flops_claimed=line.flops) for line in theirs]
    wrong = replace(stated[0], flops_claimed=stated[0].flops + 1)
    hidden = [replace(line, mask="causal", flops_claimed=line.flops - 1) for line in theirs]
    uncounted = replace(theirs[0], flops=None, flops_full=None, flops_claimed=1)
    no_formula = "flops: mylib::scan has no formula"
    told = judged(
        ("every count is the claim times the batch", CONFIRMED, work()),
        ("counts with a law", CONFIRMED, verdict("work", one, fit_laws(one))),
        ("one case", CONFIRMED, verdict("work", one[:1])),
        ("without what a causal mask leaves out", CONFIRMED, verdict("work", causal)),
        ("one operation too many at n = 512", REFUTED, work(lambda n, d, h: attention(n, d, h) + (n == 512))),
        ("no formula", UNDETERMINED, work(None, facts_unknown=no_formula)),
        ("no case ended", UNDETERMINED, work(None, status="oom", reason="can't allocate")),
        ("heads padded on a GPU", UNDETERMINED, verdict("work", [line for line in padded if line.num_heads == 8])),
        ("claimed in two cases", CONFIRMED, verdict("work", stated[:2] + theirs[2:])),
        ("claimed wrongly in one case", REFUTED, verdict("work", [*theirs[1:], wrong])),
        ("claimed in a case that was not counted", UNDETERMINED, verdict("work", [uncounted, *theirs[1:]])),
        ("a claim that cannot be read", UNDETERMINED, work(impl="their:Layer", claims='{"work": "8nd^^2"}')),
        ("less under a mask", CONFIRMED, work(half_the_scores, mask="causal")),
        ("more under a mask", UNDETERMINED, work(lambda n, d, h: 8 * n * d * d + 5 * n * n * d, mask="causal")),
        ("far less under a mask", UNDETERMINED, work(lambda n, d, h: 2 * n * d * d, mask="causal")),
        ("more than its own formula under a mask", UNDETERMINED, verdict("work", hidden)),
        ("less without a mask", REFUTED, work(half_the_scores)),
    )
    assert told == snapshot


def test_work_of_packed_sequences_is_judged_by_the_sum_over_their_lengths() -> None:
    def packed(share: int, **changed: object) -> ClaimVerdict:
        """Two sequences of n and n/2 tokens, whose count is `share` n²d."""
        usual = measured("sdpa.varlen", lambda n, d, h: n * n * d * share // 2, lengths="zipf", mask="padding")
        told = [
            replace(line, lengths_as="packed", sequence_lengths=f"{line.seq_len},{line.seq_len // 2}") for line in usual
        ]
        return verdict("work", [replace(line, **changed) for line in told])  # type: ignore[arg-type]

    assert packed(5).verdict == CONFIRMED
    assert packed(5).reason == "to the last digit in 24 cases"
    assert packed(8).verdict == REFUTED
    assert packed(8, lengths_as="padded").verdict == CONFIRMED
    # Without the lengths, only what the trial found itself is known.
    assert packed(5, sequence_lengths=None).verdict == UNDETERMINED


def test_work_of_other_modes_is_judged_by_the_claim_of_that_mode(snapshot: SnapshotAssertion) -> None:
    def token(cost: Cost) -> ClaimVerdict:
        return verdict("work_decode", measured("attention.fused", cost, mode="decode", mask="causal"))

    trained = measured("rnn.torch", lambda n, d, h: 12 * n * d * d - 2 * d * d, heads=(1,), mode="train")
    assert {one.quantity for one in verdicts(trained, [])} == {"work_train", "time"}
    backward = measured("attention.packed", lambda n, d, h: 16 * n * d * d + 8 * n * n * d, mode="backward")
    told = judged(
        ("both passes of training", CONFIRMED, verdict("work_train", trained)),
        ("a backward pass, as training less a forward pass", CONFIRMED, verdict("work_backward", backward)),
        ("one token", CONFIRMED, token(lambda n, d, h: 8 * d * d + 4 * n * d)),
        ("one token, with too little work", REFUTED, token(lambda n, d, h: 2 * d * d)),
    )
    assert told == snapshot


def test_a_layer_that_decodes_and_claims_a_whole_pass_alone_is_told_which_claim_it_lacks() -> None:
    def found(**claims: str) -> list[tuple[str, str, str]]:
        cost = measured("attention.fused", lambda n, d, h: 8 * d * d + 4 * n * d, mode="decode", mask="causal")
        told = verdicts([replace(line, impl="their:step", claims=json.dumps(claims)) for line in cost], [])
        return [(one.quantity, one.verdict, one.reason) for one in told if one.quantity != "time"]

    reason = "`work` is claimed of a whole pass: claim `work_decode` of one token"
    assert found(work="4nd") == [("work_decode", UNDETERMINED, reason)]
    assert [one[:2] for one in found(work="4nd", work_decode="8d² + 4nd")] == [("work_decode", CONFIRMED)]
    assert found(memory="nd") == []


def recurrent(depth: Cost, *sizes: int, impl: str = "rnn.elman") -> dict[str, ClaimVerdict]:
    """The verdicts on depth and path, both claimed to be of order n."""
    of = measured(impl, depth=depth, heads=(1,), sizes=sizes or (64, 128, 256, 512))
    return {quantity: verdict(quantity, of) for quantity in BOTH}


def scan(n: int, d: int, h: int) -> int:
    return 7 + 4 * (n - 1).bit_length()


def padded_scan(n: int, d: int, h: int) -> int:
    """A scan that pads to whole blocks of 64 in two operations."""
    return 20 + 3 * (n - 1).bit_length() + 2 * (n % 64 > 0)


def blocks_and_rounds(n: int, d: int, h: int) -> int:
    return n // 16 + 20 * (n - 1).bit_length()


@pytest.mark.parametrize("quantity", BOTH)
@pytest.mark.parametrize(
    ("claim", "depth", "expected"),
    [
        ("n log n", lambda n, d, h: n * (n - 1).bit_length(), CONFIRMED),
        ("n log n", lambda n, d, h: 3 * n + 2, REFUTED),
        ("n", lambda n, d, h: 3 * n + 2, CONFIRMED),
        ("1", lambda n, d, h: 9 - (n >= 300), CONFIRMED),
        ("1", lambda n, d, h: max(3, 12 - n // 128), CONFIRMED),
    ],
    ids=["n log n", "n is not n log n", "n", "falls once", "falls"],
)
@pytest.mark.parametrize(
    "sizes",
    [
        (64, 128, 256, 512, 1024),
        (96, 128, 160, 192, 224, 256, 320, 384),
        (48, 96, 100, 192, 384),
        (70, 100, 190, 333, 515, 900, 1700),
    ],
    ids=["doubling", "dense", "odd", "every"],
)
def test_the_verdict_on_a_depth_is_the_same_at_sizes_of_all_kinds(
    claim: str, depth: Cost, expected: str, sizes: tuple[int, ...], quantity: str
) -> None:
    of = measured("their:Layer", depth=depth, sizes=sizes, heads=(1,), claims=json.dumps({quantity: claim}))
    assert verdict(quantity, of).verdict == expected


@pytest.mark.parametrize("quantity", BOTH)
def test_depth_and_path_are_judged_by_their_order(quantity: str, snapshot: SnapshotAssertion) -> None:
    flat = measured("attention.fused", depth=lambda n, d, h: 5, depth_declared=3)
    step = measured("attention.fused", depth=lambda n, d, h: 5 + (n > 1000))
    window = measured("attention.fused", depth=lambda n, d, h: min(n, 1024))
    chain = measured("attention.naive", depth=lambda n, d, h: 3 * n)
    heads = measured("attention.naive", depth=lambda n, d, h: 4 + 3 * h)
    more_heads = measured("attention.naive", depth=lambda n, d, h: 4 + 3 * h, heads=(2, 4, 8))
    wide = measured("attention.naive", depth=lambda n, d, h: d // 2, widths=(64, 128, 256))
    short = measured("attention.naive", depth=lambda n, d, h: 5, sizes=(64, 128))
    partly = [*short, *measured("attention.naive", depth=lambda n, d, h: 5, widths=(64,))]
    masked = measured("attention.linear.parallel", attention, depth=lambda n, d, h: 3 * n, mask="causal")
    # A path is at most as long as the longest chain. A long chain does not show that no short path exists.
    unseen = REFUTED if quantity == "depth" else UNDETERMINED
    known = [
        ("the same at every n", CONFIRMED, flat),
        ("other with two h, the same at every n", UNDETERMINED, heads),
        ("of order h, the same at every n", unseen, more_heads),
        ("of order d, the same at every n", unseen, wide),
        ("the same at two n", UNDETERMINED, short),
        ("the same at two n of some widths, and at every n of another", CONFIRMED, partly),
        ("a step", UNDETERMINED, step),
        ("of order n up to a window", UNDETERMINED, window),
        ("of order n where 1 is claimed", unseen, chain),
        ("under a mask that was not claimed", UNDETERMINED, masked),
    ]
    close, two, odd = (40, 50, 64, 70), (64, 128), (48, 96, 100, 192, 384)
    every = (70, 100, 190, 333, 515, 900, 1700)
    doubling = [64 << power for power in range(9)]
    dense = (96, 128, 160, 192, 224, 256, 320, 384)
    rnn = [
        ("of order n", CONFIRMED, recurrent(lambda n, d, h: 3 * n)),
        ("of order n, with a constant", CONFIRMED, recurrent(lambda n, d, h: 3 * n + 2)),
        ("of order n, with a large constant", CONFIRMED, recurrent(lambda n, d, h: 3 * n + 5000)),
        ("constant", REFUTED, recurrent(lambda n, d, h: 7, *doubling)),
        ("constant up to a block of 512", UNDETERMINED, recurrent(lambda n, d, h: 7)),
        ("of order log n", REFUTED, recurrent(lambda n, d, h: n.bit_length(), *doubling)),
        ("bends down", REFUTED, recurrent(lambda n, d, h: 90 + math.isqrt(16 * n), *doubling)),
        ("bends down no more than n and log n do", UNDETERMINED, recurrent(lambda n, d, h: 90 + math.isqrt(n))),
        ("of order √n, at three n", UNDETERMINED, recurrent(lambda n, d, h: 4 * math.isqrt(n), 64, 128, 256)),
        ("of order n with rounds of log n", CONFIRMED, recurrent(blocks_and_rounds)),
        ("of order n with rounds, not doubled from 64", UNDETERMINED, recurrent(blocks_and_rounds, 100, 200, 400, 800)),
        ("of order n with rounds, at n of all kinds", UNDETERMINED, recurrent(blocks_and_rounds, *every)),
        ("bends up out of its constant", UNDETERMINED, recurrent(lambda n, d, h: 500 + n + -(-n // 100))),
        ("bends up out of a large constant", UNDETERMINED, recurrent(lambda n, d, h: 5000 + n + -(-n // 100))),
        ("in blocks, at n that are close", UNDETERMINED, recurrent(lambda n, d, h: 3 * -(-n // 64) + 2, *close)),
        ("in blocks of 256, at n of all kinds", UNDETERMINED, recurrent(lambda n, d, h: 3 + -(-n // 256), *every)),
        ("of order n log n", UNDETERMINED, recurrent(lambda n, d, h: n * (n - 1).bit_length(), *every)),
        ("n and a small square", UNDETERMINED, recurrent(lambda n, d, h: n + n * n // 10_000, *every)),
        ("two n, in proportion", UNDETERMINED, recurrent(lambda n, d, h: 3 * n + 2, *two)),
        ("two n, with a large constant", UNDETERMINED, recurrent(lambda n, d, h: 3 * n + 5000, *two)),
        ("two n, a constant", UNDETERMINED, recurrent(lambda n, d, h: 7, *two)),
        ("one n", UNDETERMINED, recurrent(lambda n, d, h: 3 * n, 64)),
        ("of order log n, as claimed", CONFIRMED, recurrent(scan, impl="rnn.linear_scan")),
        ("of order log n, at n that are no powers of two", CONFIRMED, recurrent(scan, *odd, impl="rnn.linear_scan")),
        ("of order log n, and padding", UNDETERMINED, recurrent(padded_scan, *dense, impl="rnn.linear_scan")),
        ("of order √n", unseen, recurrent(lambda n, d, h: math.isqrt(n), *doubling, impl="rnn.linear_scan")),
        ("a step a block of tokens", CONFIRMED, recurrent(lambda n, d, h: 9 + 2 * n // 64)),
        ("of order log n, as claimed, at two n", UNDETERMINED, recurrent(scan, *two, impl="rnn.linear_scan")),
    ]
    told = judged(
        *((title, expected, verdict(quantity, of)) for title, expected, of in known),
        *((title, expected, found[quantity]) for title, expected, found in rnn),
    )
    assert told == snapshot


THREE, FOUR, UNEVEN = (64, 128, 256), (64, 128, 256, 512), (65, 129, 257)


# Each depth is of the claimed order, however blocks, windows and offsets round it at its sizes.
@pytest.mark.parametrize(
    ("claim", "depth", "sizes"),
    [
        ("log n", lambda n, d, h: max(7, (n - 1).bit_length()), THREE),  # 7, 7, 8
        ("log n", lambda n, d, h: min(n, 256) + 3 * (n - 1).bit_length(), (64, 128, 256, 512, 1024, 2048)),
        ("n", lambda n, d, h: -(-n // 512) + 10, UNEVEN),  # 11 everywhere
        ("n", lambda n, d, h: -(-n // 128) + 3 * (n - 1).bit_length(), UNEVEN),  # 23, 26, 30
        ("n", lambda n, d, h: 8 * -(-n // 512), (333, 777, 1555, 3111, 4001)),  # 8, 16, 32, 56, 64
        ("n", lambda n, d, h: max(1, n - 60), (16, 32, 64, 128, 256)),  # 1, 1, 4, 68, 196
        ("n", lambda n, d, h: max(8, n - 200), FOUR),  # 8, 8, 56, 312
        ("n", lambda n, d, h: n + 5 * min(n, 256), FOUR),  # 384, 768, 1536, 1792
        ("n²", lambda n, d, h: max(1, n - 60) ** 2, (100, 300, 700)),  # 1600, 57600, 409600
        ("n²", lambda n, d, h: n * -(-n // 128), (65, 129, 257, 513, 1025)),
        ("1", lambda n, d, h: 5 + (n > 300), FOUR),  # 5, 5, 5, 6
        ("1", lambda n, d, h: min(n, 300), FOUR),  # 64, 128, 256, 300
        ("1", lambda n, d, h: min(n, 512), (129, 257, 513)),
        ("1", lambda n, d, h: min(n, 256) + 7, (64, 128, 256)),  # n + 7 up to there
        ("1", lambda n, d, h: min(n, 511) + 7, (64, 96, 128, 200, 256, 384, 511)),
        ("log n", lambda n, d, h: min(n, 256) + 7, (32, 64, 128, 256)),
        ("n", lambda n, d, h: n * min(n, 256), (64, 128, 256)),
    ],
)
def test_a_depth_of_the_claimed_order_is_not_refuted(claim: str, depth: Cost, sizes: tuple[int, ...]) -> None:
    of = measured("their:Layer", depth=depth, sizes=sizes, heads=(1,), claims=json.dumps({"depth": claim}))
    assert verdict("depth", of).verdict != REFUTED


@pytest.mark.parametrize("sizes", [FOUR, (65, 129, 257, 513, 1025), (1000, 2000, 4000, 8000)])
@pytest.mark.parametrize(
    ("claim", "depth"),
    [
        ("1", lambda n, d, h: (n - 1).bit_length()),
        ("1", lambda n, d, h: -(-n // 16) + 7),
        ("log n", lambda n, d, h: n + n % 7),
        ("n", lambda n, d, h: (-(-n // 16)) ** 2),
        ("n", lambda n, d, h: int(n**1.5)),
        ("n²", lambda n, d, h: 3 * n + 2),
        ("n²", lambda n, d, h: n * (n - 1).bit_length()),
    ],
)
def test_a_depth_of_another_order_is_refuted_at_four_sizes(claim: str, depth: Cost, sizes: tuple[int, ...]) -> None:
    of = measured("their:Layer", depth=depth, sizes=sizes, heads=(1,), claims=json.dumps({"depth": claim}))
    assert verdict("depth", of).verdict == REFUTED


def test_a_window_ends_at_512_tokens_or_before() -> None:
    claims = json.dumps({"depth": "1", "path": "1"})
    short, long = (
        measured("their:Layer", depth=lambda n, d, h: n + 7, sizes=sizes, claims=claims)
        for sizes in ((64, 128, 256), (64, 128, 256, 512))
    )
    one = verdict("depth", short)
    assert (one.verdict, one.measured) == (UNDETERMINED, "n + 7")
    assert one.reason == (
        "71 at n = 64 and 263 at n = 256: larger n than 512 would tell, as a window or block may end there"
    )
    assert verdict("depth", long).verdict == REFUTED


@pytest.mark.parametrize(("depth", "order"), [(lambda n, d, h: 1, "1"), (lambda n, d, h: 3 * n, "n")])
def test_a_path_that_does_not_exist_is_not_confirmed(depth: Cost, order: str) -> None:
    claims = json.dumps({"path": order, "depth": order})
    of = measured("their:Layer", depth=depth, claims=claims)
    assert verdict("path", of).verdict == CONFIRMED
    why = "at n = 2048 the last output has no gradient by the first token"
    cut = [replace(line, facts_unknown=f"flops: no formula; path: {why}; more") for line in of]
    assert verdict("depth", cut).verdict == CONFIRMED
    one = verdict("path", [*of[:-1], cut[-1]])
    assert (one.verdict, one.reason) == (UNDETERMINED, why)


def test_a_depth_of_another_order_than_claimed_is_refuted() -> None:
    assert recurrent(lambda n, d, h: n * n)["depth"].verdict == REFUTED
    assert recurrent(lambda n, d, h: 7 + 4 * n, impl="rnn.linear_scan")["depth"].verdict == REFUTED
    unmasked = measured("attention.linear.parallel", attention, depth=lambda n, d, h: 3 * n)
    assert verdict("depth", unmasked).verdict == REFUTED


@pytest.mark.parametrize("quantity", BOTH)
def test_a_scan_in_one_operation_does_not_refute_a_depth_of_log_n(quantity: str) -> None:
    found = recurrent(lambda n, d, h: 10, impl="rnn.linear_scan")[quantity]
    assert found.verdict == UNDETERMINED
    assert "10 at every n from 64 to 512: each operation of torch counts as one" in found.reason


@pytest.mark.parametrize("quantity", BOTH)
def test_a_constant_depth_at_n_that_one_block_may_hold_does_not_refute_a_depth_of_n(quantity: str) -> None:
    found = recurrent(lambda n, d, h: 11, 16, 32, 512)[quantity]
    assert found.verdict == UNDETERMINED
    assert "11 at every n from 16 to 512: a layer that works block by block may have had one block" in found.reason
    assert recurrent(lambda n, d, h: 11, 16, 32, 1024)[quantity].verdict == REFUTED


@pytest.mark.parametrize(
    ("claim", "windows", "expected"),
    [("1", (16, 32, 64), REFUTED), ("1", (16, 32), UNDETERMINED), ("w", (16, 32, 64), CONFIRMED)],
)
def test_depth_that_grows_along_an_own_axis_must_be_claimed(
    claim: str, windows: tuple[int, ...], expected: str
) -> None:
    own = {"own_axes": '{"window": ["w", 8]}', "claims": json.dumps({"depth": claim})}
    of = []
    for window in windows:
        depth = 2 * window + 1
        of += measured("their:Layer", depth=lambda n, d, h, depth=depth: depth, options=f"window={window}", **own)
    one = verdict("depth", of)
    assert one.verdict == expected
    if expected == REFUTED:
        assert one.measured == "2w + 1"
        assert one.reason == "33 at w = 16 and 129 at w = 64, where the claim is a constant"


@pytest.mark.parametrize("quantity", BOTH)
def test_one_series_that_tells_a_depth_refutes_it_beside_one_that_does_not(quantity: str) -> None:
    short = measured("rnn.elman", depth=lambda n, d, h: 5, heads=(1,), widths=(256,), sizes=(40, 50))
    long = measured("rnn.elman", depth=lambda n, d, h: 7, heads=(1,), widths=(128,))
    assert verdict(quantity, short + long).verdict == REFUTED


def test_a_registered_claim_in_n_is_not_judged_for_a_source() -> None:
    found = verdicts(measured("attention.packed", attention, kv_len=128), [])
    assert {one.quantity for one in found} == {"work", "memory", "depth", "path"}
    assert {one.verdict for one in found} == {UNDETERMINED}
    assert all("a claim in m covers a source of m tokens" in one.reason for one in found)


@pytest.mark.parametrize(("claim", "verdict"), [("n + 64h", CONFIRMED), ("d + hn", UNDETERMINED)])
def test_heads_need_not_vary_if_the_terms_of_memory_without_them_suffice(claim: str, verdict: str) -> None:
    of = measured("own:Layer", memory=lambda n, d, h: 4 * n + 64, heads=(2,))
    one = judge_memory(of, parse(claim))
    assert one.verdict == verdict
    assert ("h was not varied by a factor of two" in one.reason) == (verdict == UNDETERMINED)


@pytest.mark.parametrize("claim", ["d²/h", "nd/h", "hn² + nd/h"])
def test_a_claim_that_falls_with_heads_is_judged_at_one_number_of_heads(claim: str) -> None:
    of = measured("own:Layer", memory=lambda n, d, h: d * d // h, heads=(4,), widths=(64, 128))
    one = judge_memory(of, parse(claim))
    assert one.verdict in (CONFIRMED, UNDETERMINED)
    assert one.verdict == UNDETERMINED or "at h = 4 alone" in one.reason


@pytest.mark.parametrize(("window", "verdict"), [(64, CONFIRMED), (48, UNDETERMINED)])
def test_a_claim_divided_by_a_letter_is_judged_where_it_is_a_whole_number(window: int, verdict: str) -> None:
    own = f'{{"window": ["w", {window}]}}'
    of = measured(
        "own:Layer", lambda n, d, h: n * n * d // window, memory=lambda n, d, h: n * d // window, own_axes=own
    )
    claim = parse("n²d/w", own_axes.letters_of_texts([own]))
    # 2¹⁹ is a multiple of 64, but not of 48.
    one = judge_work([line for line in of if line.seq_len == 64], claim, None)
    assert one.verdict == verdict
    of_memory = judge_memory(of, parse("nd/w", own_axes.letters_of_texts([own])))
    assert f", at w = {window} alone; " in of_memory.reason
    assert "words for each claimed" in of_memory.reason


def test_claims_that_differ_between_the_rows_of_a_layer_are_not_judged() -> None:
    lines = measured("their:Layer", depth=lambda n, d, h: n)
    unlike = [replace(line, claims=json.dumps({"depth": "1" if line.seq_len < 200 else "n"})) for line in lines]
    told = [(one.verdict, one.reason) for one in verdicts(unlike, [])]
    assert told == [(UNDETERMINED, "its rows state different claims")]
