"""A function as a layer: what it takes is found by looking, or described beside it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.core.layers import layer_lookup
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.trial import function_layer
from harness.core.trial.accuracy import measure_accuracy
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.described_layer import describe_layer, describe_page
from harness.core.trial.function_layer import class_of
from harness.core.trial.layer_inputs import draw, read_inputs
from harness.core.trial.layer_protocol import unsupported_reason
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.reuse_between_calls import Renewal
from harness.core.trial.trial_kinds import outcome_of_exception
from harness.core.trial.verify import verify
from harness.core.trial.workload import build
from impls.attention.reference import softmax_attention

FILE = Path(__file__).parent / "functions.py"


def case_of(name: str, **given: Any) -> Case:
    return replace(Case(f"{FILE}:{name}", 12, 16, 4, batch_size=2), **given)


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
@pytest.mark.parametrize("name", ["attention", "tokens_first", "grouped", "without_dropout"])
def test_attention_over_heads_is_verified_in_every_mode(name: str, mode: str, mask: str) -> None:
    against = "attention" if name == "tokens_first" else "softmax_attention"
    assert verify(case_of(name, mode=mode, mask=mask), seed=0)["against"] == against


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_a_function_that_is_causal_by_nature_is_compared_with_causal_attention_whatever_the_mask(mask: str) -> None:
    case = case_of("always_causal", mask=mask, mode="train")
    assert verify(case, seed=0)["against"] == "softmax_attention"
    found = measure_accuracy(build(replace(case, seq_len=300), seed=0), replace(case, seq_len=300), 0, None, None, [])
    assert found["output_error"] < 1e-5


@pytest.mark.parametrize("mode", ["forward", "train"])
def test_outliers_may_cost_digits_and_a_wrong_scale_is_wrong_all_the_same(mode: str) -> None:
    shape = {"seq_len": 64, "d_model": 256, "mode": mode, "inputs": "outliers"}
    assert verify(case_of("attention", **shape), seed=0)["output_error"] < 1e-4
    with pytest.raises(WrongResult, match="off by"):
        verify(case_of("unscaled", **shape), seed=0)


@pytest.mark.parametrize("name", ["annotated", "described_tokens_first"])
def test_an_annotation_or_the_described_shapes_tell_the_layout(name: str) -> None:
    assert [tuple(x.shape) for x in build(case_of(name), seed=0).inputs] == [(2, 12, 4, 4)] * 3
    assert verify(case_of(name), seed=0)["against"] == "softmax_attention"


def test_decoding_is_one_query_against_all_keys() -> None:
    case = case_of("tokens_first", mode="decode", mask="causal")
    assert [tuple(x.shape) for x in build(case, seed=0).inputs] == [(2, 1, 4, 4), (2, 12, 4, 4), (2, 12, 4, 4)]
    assert verify(case, seed=0)["against"] == "attention"


def test_an_approximation_may_be_off_by_what_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verify(case_of("coarse", mode="train"), seed=0)
    assert found["tolerance"] == 0.3 > found["output_error"] > 0.01
    assert describe_page(case_of("coarse"))["reference"].endswith("softmax_attention, within 30 %")
    assert found["gradient_error"] < 1e-6  # its gradients are compared with its own in float64
    case = case_of("coarse")
    work = build(case, seed=0)
    facts = measure_accuracy(work, case, 0, None, None, [])
    assert 0.01 < facts["output_error"] < 0.3
    assert facts["error_ratio"] > 1000
    monkeypatch.setattr(type(work.layer), "allowed_error", 0.01)
    with pytest.raises(WrongResult, match=r"is off by .* of its norm, where at most 1\.0e-02 is tolerated"):
        verify(case, seed=0)
    monkeypatch.setattr(type(work.layer), "allowed_error", 1)
    said = "allowed_error is 1: it must be a share of the output's norm"
    with pytest.raises(UsageError, match=said):
        verify(case, seed=0)
    assert said in describe_layer(case)["refused"]


def test_an_error_that_may_be_rounding_names_the_attribute_that_allows_it() -> None:
    with pytest.raises(WrongResult, match=r"is tolerated \(a layer that rounds more declares `allowed_error`\)"):
        verify(case_of("slightly_off"), seed=0)
    with pytest.raises(WrongResult, match=r"write unscaled\.reference = another function") as wrong:
        verify(case_of("unscaled"), seed=0)
    assert "rounds more" not in str(wrong.value)


def test_an_approximation_may_not_look_at_later_tokens() -> None:
    verify(case_of("coarse_and_leaky"), seed=0)
    with pytest.raises(WrongResult, match="sees later tokens that the mask hides"):
        verify(case_of("coarse_and_leaky", mask="causal"), seed=0)


@pytest.mark.parametrize("mode", ["forward", "train"])
def test_what_prepare_draws_is_the_same_in_the_reference(mode: str) -> None:
    assert verify(case_of("projected", mode=mode), seed=0)["output_error"] < 1e-6


def test_keys_and_values_may_have_fewer_heads_and_a_length_of_their_own() -> None:
    case = case_of("grouped", num_kv_heads=2, kv_len=5)
    assert [tuple(x.shape) for x in build(case, seed=0).inputs] == [(2, 4, 12, 4), (2, 2, 5, 4), (2, 2, 5, 4)]
    verify(case, seed=0)


# Chunked prefill: 12 queries are the last of 20 tokens.
CHUNK = {"kv_len": 20, "mask": "causal"}


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
@pytest.mark.parametrize("name", ["last_queries", "last_queries_by_bias", "last_queries_tokens_first", "masked"])
def test_the_last_of_the_queries_sees_the_last_of_more_keys(name: str, mode: str) -> None:
    found = verify(case_of(name, mode=mode, **CHUNK), seed=0)
    assert found["against"] == "softmax_attention"
    assert found["output_error"] < 1e-6


def test_a_mask_from_the_top_left_is_incorrect_for_fewer_queries_than_keys() -> None:
    with pytest.raises(
        WrongResult, match=r"whose last query sees all keys \(torch's causal_lower_right, and not is_causal\)\."
    ):
        verify(case_of("without_dropout", **CHUNK), seed=0)
    verify(case_of("without_dropout", kv_len=12, mask="causal"), seed=0)
    with pytest.raises(WrongResult, match="it sees later tokens that the mask hides"):
        verify(case_of("last_queries_leaky", **CHUNK), seed=0)


def test_a_mask_from_the_top_left_is_found_at_the_timed_size_too() -> None:
    case = case_of("last_queries_late", seq_len=200, kv_len=1000, mask="causal", batch_size=1)
    verify(case.small(), seed=0)
    with pytest.raises(WrongResult, match="64 rows"):
        measure_accuracy(build(case, seed=0), case, 0, None, None, [])
    right = replace(case, impl=f"{FILE}:last_queries")
    assert measure_accuracy(build(right, seed=0), right, 0, None, None, [])["output_error"] < 1e-6


def test_a_causal_mask_over_fewer_keys_than_queries_is_unsupported() -> None:
    for name in ("last_queries", "last_queries_tokens_first"):
        case = case_of(name, kv_len=11, mask="causal")
        reason = unsupported_reason(layer_lookup.load_class(case.impl), case)
        assert reason == "the last query of a causal mask is the last key: give kv_len of seq_len or more"


@pytest.mark.parametrize(
    ("name", "mode", "times"),
    [("masked", "forward", 4), ("last_queries_by_bias", "forward", 4), ("last_queries_by_bias", "train", 14)],
)
def test_a_chunk_has_the_flops_of_all_its_pairs(name: str, mode: str, times: int) -> None:
    facts = collect_metrics(case_of(name, mode=mode, **CHUNK), seed=0)
    assert facts["flops"] == 2 * times * 12 * 20 * 16
    assert facts["facts_unknown"] == []


def test_padding_reaches_a_function_that_takes_a_mask() -> None:
    verify(case_of("grouped", mode="train", mask="padding", padding_fraction=0.25), seed=0)
    refused = unsupported_reason(layer_lookup.load_class(case_of("attention").impl), case_of("x", mask="padding"))
    assert refused == "it takes neither attn_mask nor cu_seqlens, and it has no causal = True"


@pytest.mark.parametrize(("mode", "times"), [("forward", 4), ("train", 12)])
def test_exact_flops_of_a_function_equal_its_claim(mode: str, times: int) -> None:
    facts = collect_metrics(case_of("attention", mode=mode), seed=0)
    assert facts["flops"] == facts["flops_claimed"] == 2 * times * 12**2 * 16


@pytest.mark.parametrize(("mode", "times"), [("forward", 4), ("train", 12)])
@pytest.mark.parametrize(("kv_len", "m"), [(0, 12), (20, 20)])
def test_a_claim_in_m_holds_for_a_source_and_without_one(kv_len: int, m: int, mode: str, times: int) -> None:
    facts = collect_metrics(case_of("crossing", mode=mode, kv_len=kv_len), seed=0)
    assert facts["flops"] == facts["flops_claimed"] == 2 * times * 12 * m * 16
    in_n_alone = collect_metrics(case_of("attention", mode=mode, kv_len=20), seed=0)
    assert in_n_alone["flops_claimed"] is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "unscaled",
            r"output is off by .*, compared with softmax attention. If unscaled computes something",
        ),
        ("unscaled_in_blocks", "compared with softmax attention"),
        (
            "transposed",
            r"shape \(2, 12, 4, 4\) for .* \(2, 4, 12, 4\)\. .* set transposed\.layout = .bnhd.",
        ),
    ],
)
def test_a_function_that_computes_something_else_is_incorrect(name: str, said: str) -> None:
    with pytest.raises(WrongResult, match=said):
        verify(case_of(name), seed=0)


@pytest.mark.parametrize(
    ("name", "mask", "said"),
    [
        ("tokens_first_unstated", "none", "It is softmax attention of q, k, v in (b, n, h, head_dim): write "),
        ("tokens_first_unstated", "causal", "It is softmax attention of q, k, v in (b, n, h, head_dim): write "),
        ("biased_tokens_first", "none", "must match the size of tensor b (12) at non-singleton dimension 3 "),
        (
            "flat_tokens_first",
            "none",
            "shape (2, 4, 48) for an input of shape (2, 4, 12, 4), read as (b, h, n, ",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_a_function_that_does_not_state_its_other_layout_is_told_so(name: str, mask: str, said: str, mode: str) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        verify(case_of(name, mask=mask, mode=mode), seed=0)
    reason = outcome_of_exception(raised.value)["reason"]
    assert said in reason
    assert reason.endswith(f'write {name}.layout = "bnhd"')


def test_an_error_that_is_not_of_shapes_is_told_no_layout() -> None:
    with pytest.raises(ValueError, match="a window of whole tiles") as found:
        verify(case_of("of_whole_tiles"), seed=0)
    assert outcome_of_exception(found.value)["reason"].endswith("a window of whole tiles (functions.py:357)")


@pytest.mark.parametrize("mode", ["forward", "backward"])
@pytest.mark.parametrize(
    ("name", "heads", "note"),
    [
        ("expands_a_weight", 4, ""),
        ("expands_a_weight", 2, ""),
        ("biased_tokens_first", 4, 'If q, k, v are (b, n, h, head_dim), write biased_tokens_first.layout = "bnhd"'),
        ("of_equal_heads", 2, ""),  # it runs in the other layout, and with equal heads in this one
        ("biased_tokens_first", 2, ""),  # it fails with equal heads in this layout, and with 2 in the other
    ],
)
def test_an_error_of_shapes_is_told_only_what_makes_the_function_run(
    name: str, heads: int, note: str, mode: str
) -> None:
    with pytest.raises(RuntimeError) as raised:
        verify(case_of(name, num_kv_heads=heads, mode=mode), seed=0)
    reason = outcome_of_exception(raised.value)["reason"]
    assert reason.endswith(f"). {note}" if note else ")")


def test_an_output_with_too_few_elements_is_told_no_layout() -> None:
    with pytest.raises(WrongResult) as raised:
        verify(case_of("averages"), seed=0)
    assert str(raised.value) == "it returned shape (2, 4, 12, 1) for an input of shape (2, 4, 12, 4)"


def test_a_function_of_whole_chunks_is_told_to_say_so_and_not_of_another_layout() -> None:
    with pytest.raises(RuntimeError) as raised:
        verify(case_of("in_chunks", seq_len=248), seed=0)
    assert outcome_of_exception(raised.value)["reason"].endswith(
        ". If n must be a multiple, as it runs at n=64 and 192 and fails at n=248, write "
        'in_chunks.supports = lambda case: "n is no multiple of 64" if case.seq_len % 64 else None'
    )
    assert verify(case_of("in_chunks", seq_len=128), seed=0)["output_error"] < 1e-6


@pytest.mark.parametrize(
    ("name", "n", "note"),
    [
        # 128 is a multiple of 64, and none of 256.
        ("in_long_chunks", 128, "runs at n=256 and 768 and fails at n=128, write in_long_chunks.supports = lambda"),
        ("in_long_chunks", 96, '"n is no multiple of 256" if case.seq_len % 256 else None'),
        ("of_many_tokens", 128, ""),  # a least length is no multiple
        ("in_chunks_of_96", 128, ""),  # no power of two
    ],
)
def test_the_multiple_that_a_function_is_told_to_demand_is_its_own(name: str, n: int, note: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        verify(case_of(name, seq_len=n), seed=0)
    reason = outcome_of_exception(raised.value)["reason"]
    assert note in reason
    assert ("multiple" in reason) is bool(note)


@pytest.mark.parametrize("name", ["biased_tokens_first_stated", "biased_heads_first"])
def test_a_function_that_states_its_layout_is_told_no_other(name: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        verify(case_of(name, seq_len=8), seed=0)
    assert "layout" not in outcome_of_exception(raised.value)["reason"]


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("name", ["forgetful", "tokens_first_forgetful"])
def test_a_function_that_is_wrong_beyond_the_verified_size_is_incorrect_at_its_own(name: str, mask: str) -> None:
    case = case_of(name, seq_len=512, mask=mask)
    verify(case.small(), seed=0)
    with pytest.raises(WrongResult, match=r"output is off by .* at n = 512 \(64 rows\)"):
        collect_metrics(case, 0, measure_accuracy)


@pytest.mark.parametrize("options", ["none", "window=7"])
def test_a_reference_that_takes_rows_computes_64_of_them(options: str) -> None:
    case = case_of("windowed_by_rows", seq_len=300, mode="train", options=options)
    facts = collect_metrics(case, 0, measure_accuracy)
    assert facts["accuracy_by"] == "64 rows, _some_rows"
    assert 1e-8 < facts["output_error"] < 1e-6
    with pytest.raises(WrongResult, match=r"output is off by .* at n = 512 \(64 rows\)"):
        collect_metrics(replace(case, seq_len=512), 0, measure_accuracy)


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("attention", {"mask": "causal"}),
        ("tokens_first_exact", {"mask": "causal"}),
        ("tokens_first_exact", {}),
        ("grouped", {"num_kv_heads": 2, "kv_len": 70}),
        ("grouped", {"mask": "padding", "padding_fraction": 0.25}),
    ],
)
def test_errors_at_the_timed_size_are_those_of_rounding(name: str, axes: dict[str, Any], mode: str) -> None:
    facts = collect_metrics(case_of(name, seq_len=300, mode=mode, **axes), 0, measure_accuracy)
    assert facts["accuracy_by"] == "64 rows, softmax_attention"
    for column in ("output_error", "gradient_error")[: 1 + (mode == "train")]:
        assert 1e-8 < facts[column] < 1e-6
    assert 1 / 8 < facts["error_ratio"] < 8


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
def test_described_inputs_are_drawn_and_get_gradients(mode: str) -> None:
    work = build(case_of("decay", mode=mode), seed=0)
    x, dt, decay = work.inputs
    assert (x.shape, dt.shape, decay.shape) == ((2, 12, 4, 4), (2, 12, 4), (4, 4))
    assert dt.min() > 0
    assert 0.001 <= decay.min() <= decay.max() <= 0.1
    result = verify(case_of("decay", mode=mode, mask="causal"), seed=0)
    assert (result["against"], "gradient_error" in result) == ("itself in float64", mode != "forward")


def test_positive_inputs_are_renewed_between_calls_and_lengths_are_not() -> None:
    work = build(case_of("decay"), seed=0)
    before = [tensor.clone() for tensor in work.varying]
    assert [tuple(tensor.shape) for tensor in work.varying] == [(2, 12, 4, 4), (2, 12, 4), (4, 4)]
    renewal = Renewal(work.varying)
    renewal()
    assert [bool((tensor > 0).all()) for tensor in work.varying] == [False, True, True]
    for now, then in zip(work.varying, before, strict=True):
        assert not (now == then).any()
        torch.testing.assert_close(now.abs(), then.abs(), rtol=0.2, atol=0)
    assert [tuple(tensor.shape) for tensor in build(case_of("packed_mean"), seed=0).varying] == [(24, 16)]


def test_what_is_kept_of_a_positive_input_is_found() -> None:
    with pytest.raises(WrongResult, match="with a second input"):
        verify(case_of("kept_decay", num_heads=1), seed=0)


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (lambda shape: torch.rand(shape), r"fill of 'x', called as fill\(2, 12\), failed: TypeError: .* 2 were given"),
        (lambda *shape: torch.rand(3), r"returned \(3,\): it must return a tensor of this shape"),
        (lambda *shape: 0.5, "returned float: it must"),
    ],
)
def test_a_fill_that_fails_is_named_with_its_input(fill: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        draw(read_inputs({"x": {"shape": "b n", "fill": fill}})[0], case_of("x"), 0, {})


def test_a_reference_that_takes_no_mask_is_as_causal_as_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of("decay", mask="causal")
    function = layer_lookup.load_class(case.impl).function
    monkeypatch.setattr(function, "reference", lambda x, dt, A: function(x, dt, A), raising=False)
    monkeypatch.setattr(function_layer, "_MADE", {})
    assert verify(case, seed=0)["against"] == "<lambda>"
    assert measure_accuracy(build(case, seed=0), case, 0, None, None, [])["error_ratio"] == 1


def test_cumulative_lengths_are_whole_numbers_without_a_gradient() -> None:
    case = case_of("packed_mean", num_heads=1, mode="train")
    assert build(case, seed=0).inputs[1].tolist() == [0, 12, 24]
    verify(case, seed=0)


def test_heads_matter_if_a_shape_has_them() -> None:
    heads = {
        name: describe_layer(case_of(name))["has_heads"] for name in ("attention", "decay", "packed_mean", "split")
    }
    assert heads == {"attention": True, "decay": True, "packed_mean": False, "split": True}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unknown", r"unknown\(a, b\) is neither f\(q, k, v\) nor f\(x\): describe .* unknown.inputs = {'a': 'b n d'"),
        ("without_default", "{'q': 'b h n D', .*}, with b, n, h, d, and D = d/h; or give window a default"),
        ("rescaled", "rescaled has no parameter 'scales', which its inputs name; did you mean 'scale'?"),
    ],
)
def test_inputs_that_are_not_known_are_a_mistake_in_words(name: str, said: str) -> None:
    with pytest.raises(TypeError, match=said.replace("?", r"\?")):
        layer_lookup.load_class(case_of(name).impl)


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ("b n d", "it must be {'q': 'b h n D'"),
        ({"x": "b n w"}, "the shape of 'x' has 'w': give words in n, d, h, b, D, g, m"),
        ({"x": {"shape": "b n d", "fil": "normal"}}, "unknown key 'fil'; did you mean 'fill'"),
        (
            {"x": {"shape": "b n d", "fill": "positiv"}},
            "unknown fill 'positiv': give a function, or one of normal, positive, ",
        ),
        ({"x": {"shape": "b n d", "fill": "uniform"}}, "or one of normal, positive, log-uniform, cumulative lengths, "),
        ({"x": {"shape": "b n d", "dtype": "float31"}}, "unknown dtype 'float31'"),
        (
            {"x": {"shape": "b n", "dtype": "int64"}},
            r"is int64 and needs a 'fill', such as lambda \*shape: torch",
        ),
        ({"x": {"shape": "b n d", "grad": "no"}}, "has 'grad': 'no': give True or False"),
        ({"x": 3}, "give its shape"),
    ],
)
def test_a_mistake_in_a_description_is_named(described: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_inputs(described)


@pytest.mark.filterwarnings("ignore")  # the compiler warns of its own parts
def test_a_compiled_function_and_a_module_are_functions_too() -> None:
    compiled = class_of(torch.compile(softmax_attention), __name__)
    assert (compiled.compiled, compiled.layout) == (True, "bhnd")  # type: ignore[attr-defined]
    built = class_of(torch.nn.Linear(16, 16), __name__)(d_model=16)
    assert built(torch.ones(2, 3, 16)).shape == (2, 3, 16)
    assert len(list(built.parameters())) == 2
