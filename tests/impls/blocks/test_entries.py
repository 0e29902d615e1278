"""A block around each rung, as data."""

from dataclasses import replace

import pytest

from harness.claims import of_impl, parse
from impls.attention.entries import ATTENTION
from impls.blocks.entries import BLOCKS, blocks

BY_NAME = {block.name: block for block in BLOCKS}
NAIVE = next(rung for rung in ATTENTION if rung.name == "attention.naive")


@pytest.mark.parametrize("rung", ["naive", "packed", "fused"])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_every_rung_of_softmax_attention_stands_in_both_blocks(side: str, rung: str) -> None:
    block = BY_NAME[f"{side}.{rung}"]
    assert block.family == side
    assert block.options["attention"] == next(one.target for one in ATTENTION if one.name == f"attention.{rung}")


def test_options_of_the_rung_go_with_it() -> None:
    (block, _) = blocks([replace(NAIVE, name="attention.naive.odd", options={"backend": "math"}, package="them")])
    assert block.name == "encoder.naive.odd"
    assert block.options["attention_options"] == {"backend": "math"}
    assert block.package == "them"


def test_around_a_single_head_or_another_mathematics_there_is_none() -> None:
    assert blocks([replace(NAIVE, has_heads=False), replace(NAIVE, reference="elsewhere:Reference")]) == ()


@pytest.mark.parametrize(
    ("name", "claim", "says"),
    [
        ("encoder.naive", "work", "24nd² + 4n²d"),
        ("encoder.fused", "work_train", "72nd² + 14n²d"),
        ("encoder.naive", "work_decode", ""),
        ("decoder.naive", "work", "32nd² + 8n²d"),
        ("decoder.naive", "work_train", "96nd² + 24n²d"),
        ("decoder.naive", "work_decode", "28d² + 8nd"),
    ],
)
def test_work_is_that_of_the_parts(name: str, claim: str, says: str) -> None:
    assert getattr(BY_NAME[name], claim) == says


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_the_claimed_sum_is_the_sum_of_the_claims(block) -> None:
    rung = of_impl(block.name.replace(block.family, "attention", 1))
    times = 1 if block.family == "encoder" else 2
    for claim, feed_forward in (("work", "16nd²"), ("work_train", "48nd²")):
        if getattr(block, claim):
            expected = times * rung[claim](n=7, d=16, h=4) + parse(feed_forward)(n=7, d=16)
            assert parse(getattr(block, claim))(n=7, d=16, h=4) == expected


def test_of_what_a_rung_does_not_claim_a_block_claims_nothing() -> None:
    (around, over) = blocks([replace(NAIVE, work_train="")])
    assert (around.work_train, over.work_train) == ("", "")
    assert around.work


def test_where_a_causal_mask_leaves_out_work_a_decoder_claims_no_exact_number() -> None:
    (around, over) = blocks([replace(NAIVE, name="attention.chunked")])
    assert around.work
    assert (over.work, over.work_train) == ("", "")
    assert over.work_decode
