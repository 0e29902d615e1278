"""A block around each attention layer, as data."""

from dataclasses import replace

import pytest

from harness.core.layers import layer_lookup
from harness.core.layers.layer_lookup import claims_of_impl
from harness.core.model.polynomial import parse
from impls.attention.entries import ATTENTION, COMPILED_ATTENTION, LINEAR
from impls.blocks.blocks import find, over_source
from impls.blocks.entries import BLOCKS, blocks
from impls.registry_entry import Impl

LAYERS = {layer.name: layer for layer in (*ATTENTION, *COMPILED_ATTENTION, *LINEAR)}
BY_NAME = {block.name: block for block in BLOCKS}
NAIVE = LAYERS["attention.naive"]
# Not twice what the layer claims: a causal mask changes its work, or another attention looks over the source.
ELSE = ("decoder.window", "decoder.linear.parallel", "decoder.linear.recurrent", "decoder.linear.chunked")
LIKE_THEIR_LAYER = [block for block in BLOCKS if block.name not in ELSE]


@pytest.mark.parametrize("layer", ["naive", "packed", "fused"])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_every_layer_of_softmax_attention_stands_in_both_blocks(side: str, layer: str) -> None:
    block = BY_NAME[f"{side}.{layer}"]
    assert block.family == side
    assert block.options["attention"] == next(one.target for one in ATTENTION if one.name == f"attention.{layer}")


def test_options_of_the_attention_go_with_it() -> None:
    (block, _) = blocks([replace(NAIVE, name="attention.naive.odd", options={"backend": "math"}, package="them")])
    assert block.name == "encoder.naive.odd"
    assert block.options["attention_options"] == {"backend": "math"}
    assert block.package == "them"


@pytest.mark.parametrize("layer", [*ATTENTION, *COMPILED_ATTENTION, *LINEAR], ids=lambda layer: layer.name)
def test_every_layer_of_ours_stands_in_both_blocks(layer: Impl) -> None:
    for side in ("encoder", "decoder"):
        block = BY_NAME[layer.name.replace("attention", side, 1)]
        assert (block.has_heads, block.compiled) == (layer.has_heads, layer.compiled)


def test_around_another_mathematics_there_is_none() -> None:
    assert blocks([replace(NAIVE, reference="elsewhere:Reference")]) == ()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_an_encoder_is_causal_where_the_attention_inside_is_and_every_decoder_is(block: Impl) -> None:
    inside = find(block.options["attention"])
    causal = getattr(layer_lookup.load_class(block.name), "causal", False)
    assert causal == (block.family == "decoder" or getattr(inside, "causal", False))
    assert causal == getattr(layer_lookup.load_reference(block.name), "causal", False)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.family == "decoder"], ids=lambda one: one.name)
def test_a_decoder_says_which_attention_looks_over_its_source(block: Impl) -> None:
    inside = find(block.options["attention"])
    stands_in = over_source(inside) is not inside
    assert ("that by attention.fused" in block.summary) == stands_in
    references = {"cross_attention": "impls.attention.reference:AttentionReference"} if stands_in else {}
    assert block.reference_options == {
        "attention": LAYERS[block.name.replace("decoder", "attention", 1)].reference,
        "attention_options": LAYERS[block.name.replace("decoder", "attention", 1)].reference_options,
        **references,
    }


@pytest.mark.parametrize(
    ("name", "claim", "says"),
    [
        ("encoder.naive", "work", "24nd² + 4n²d"),
        ("encoder.fused", "work_train", "72nd² + 14n²d"),
        ("encoder.naive", "work_decode", ""),
        ("decoder.naive", "work", "32nd² + 8n²d"),
        ("decoder.naive", "work_train", "96nd² + 24n²d"),
        ("decoder.naive", "work_decode", "28d² + 8nd"),
        ("encoder.linear.recurrent", "work_decode", "24d² + 4d²/h"),
        ("encoder.linear.chunked", "work", ""),
        ("decoder.window", "work", "32nd² + 256nd + 4n²d"),
        ("decoder.linear.parallel", "work", "32nd² + 4n²d + 4nd²/h"),
        ("decoder.linear.parallel", "work_decode", "28d² + 6d²/h"),
        ("decoder.linear.recurrent", "work_train", "96nd² + 16nd²/h + 14n²d"),
    ],
)
def test_work_is_that_of_the_parts(name: str, claim: str, says: str) -> None:
    said = claims_of_impl(name).get(claim)
    assert (str(said) if said else "") == says


@pytest.mark.parametrize("block", LIKE_THEIR_LAYER, ids=lambda block: block.name)
def test_where_a_mask_changes_nothing_the_claimed_sum_is_the_sum_of_the_claims(block: Impl) -> None:
    layer = claims_of_impl(block.name.replace(block.family, "attention", 1))
    times = 1 if block.family == "encoder" else 2
    for claim, feed_forward in (("work", "16nd²"), ("work_train", "48nd²")):
        if getattr(block, claim):
            expected = times * layer[claim](n=7, d=16, h=4) + parse(feed_forward)(n=7, d=16)
            assert claims_of_impl(block.name)[claim](n=7, d=16, h=4) == expected


def test_of_what_an_attention_does_not_claim_a_block_claims_nothing() -> None:
    (around, over) = blocks([replace(NAIVE, work_train="")])
    assert (around.work_train, over.work_train) == ("", "")
    assert around.work


def test_where_a_causal_mask_leaves_out_work_a_decoder_claims_no_exact_number() -> None:
    (around, over) = blocks([replace(NAIVE, name="attention.chunked")])
    assert around.work
    assert (over.work, over.work_train) == ("", "")
    assert over.work_decode
