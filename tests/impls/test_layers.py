"""Layers of one mathematics compute the same thing from the same weights, as their reference says it."""

from typing import Any

import pytest
import torch
from ladder import HERE, OTHER_BLOCKS, VARIED, case_of, cells, make, make_reference

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.layer_protocol import input_width
from harness.core.trial.verify import verify
from harness.core.trial.workload import build
from impls.registry import IMPLS

D, H = 48, 4
IN_FLOAT64 = {"": {"dtype": "float64"}}
MASKS: dict[str, dict[str, Any]] = {
    "no mask": {"mask": "none"},
    "causal": {"mask": "causal"},
    "padding": {"mask": "padding", "padding_fraction": 0.5, "batch_size": 3},
    "source": {"kv_len": 21},
    "padded source": {"kv_len": 21, "mask": "padding", "padding_fraction": 0.6},
}
# Outputs with and without a graph behind them, and every gradient: of `train` it is the first of those of `backward`.
MASKED = {
    f"{label}-{mode}": {**mask, "mode": mode, "dtype": "float64"}
    for label, mask in MASKS.items()
    for mode in ("forward", "backward")
}


def mathematics(name: str) -> tuple[Any, ...]:
    impl = IMPLS[name]
    return impl.reference, str(impl.reference_options), impl.has_heads


# Each layer and another of the same mathematics: what these two exchange, all of them do.
SAME = [
    (name, first)
    for name in HERE
    if name != (first := next(one for one in HERE if mathematics(one) == mathematics(name)))
]


@pytest.mark.parametrize(("name", "setting"), cells(VARIED, IN_FLOAT64))
@pytest.mark.parametrize("n", [1, 2, 130])
def test_any_length_matches_the_reference(name: str, setting: dict[str, Any], n: int) -> None:
    assert verify(case_of(name, n, D, H, batch_size=3, **setting), seed=0)["output_error"] < 1e-12


@pytest.mark.parametrize(("name", "setting"), cells(VARIED, MASKED))
def test_under_every_mask_and_source_it_is_what_the_reference_says(name: str, setting: dict[str, Any]) -> None:
    found = verify(case_of(name, 24, D, H, **setting), seed=1)
    assert found["output_error"] < 1e-12
    assert (setting["mode"] == "forward") == ("gradient_error" not in found)


@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
@pytest.mark.parametrize("name", OTHER_BLOCKS)
def test_a_block_around_any_other_layer_is_what_its_reference_says_too(name: str, mask: str) -> None:
    share = {"padding_fraction": 0.5} if mask == "padding" else {}
    found = verify(case_of(name, 20, D, H, mode="train", mask=mask, batch_size=2, **share), seed=1)
    assert found["gradient_error"] >= 0


@pytest.mark.parametrize(
    ("name", "setting"),
    cells(HERE, {f"source of {m}": {"mode": "decode", "dtype": "float64", "kv_len": m} for m in (0, 9)}),
)
def test_what_is_decoded_step_by_step_is_what_comes_out_all_at_once(name: str, setting: dict[str, Any]) -> None:
    found = verify(case_of(name, 37, D, H, **setting), seed=2)
    assert found["output_error"] < 1e-12
    assert found["generated"] == 16


@pytest.mark.parametrize("name", VARIED)
@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_in_every_precision_it_errs_no_more_than_rounding(name: str, dtype: str) -> None:
    verify(case_of(name, 30, D, H, mode="train", dtype=dtype), seed=3)  # and in float32, which it looks at first


@pytest.mark.parametrize("name", VARIED)
def test_a_second_backward_pass_over_the_same_graph_gives_the_same(name: str) -> None:
    work = build(case_of(name, 20, D, H, mode="backward"), seed=4)
    first, again = work.call(), work.call()
    for one, other in zip(first, again, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


@pytest.mark.parametrize(("a", "b"), SAME)
def test_one_loads_the_others_state(a: str, b: str) -> None:
    for one, other in ((a, b), (b, a)):
        make(case_of(one, 7, D, H)).load_state_dict(make(case_of(other, 7, D, H)).state_dict())


@pytest.mark.parametrize(("name", "setting"), cells(VARIED, {"": {"mask": "causal"}}))
def test_a_causal_mask_hides_all_that_comes_later(name: str, setting: dict[str, Any]) -> None:
    work = build(case_of(name, 30, D, H, **setting), seed=5)
    before = work.forward().clone()
    work.x[:, 17:] += 1.0
    after = work.forward()
    torch.testing.assert_close(after[:, :17], before[:, :17])
    assert not torch.allclose(after[:, 17:], before[:, 17:])


@pytest.mark.parametrize("name", VARIED)
def test_what_stands_in_the_padding_changes_nothing_that_is_real(name: str) -> None:
    work = build(case_of(name, 30, D, H, mask="padding", padding_fraction=0.5), seed=6)
    padded = work.x if work.source is None else work.source
    before = work.forward().clone()
    padded[:, 15:] += 1.0
    after = work.forward()
    torch.testing.assert_close(after[:, :15], before[:, :15])


@pytest.mark.parametrize("name", [name for name in VARIED if not name.startswith("decoder.")])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    """Those of a decoder are held against its reference's, of which those of its parts are checked."""
    layer = make(case := case_of(name, 3, 8, 4))
    x = torch.randn(1, case.seq_len, 8 * input_width(layer), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))


def test_attention_loads_the_weights_of_torchs_own_module_and_agrees_with_it() -> None:
    theirs = torch.nn.MultiheadAttention(24, 3, batch_first=True).double()
    layer = make(Case("attention.naive", 7, 24, 3))
    layer.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 7, 24, dtype=torch.float64)
    torch.testing.assert_close(layer(x), theirs(x, x, x, need_weights=False)[0])


def test_heads_that_do_not_divide_the_width_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="d_model=10 is not divisible by num_heads=3"):
        layer_lookup.load_class("attention.packed")(d_model=10, num_heads=3)


def test_every_layer_has_a_reference_that_is_another_class() -> None:
    assert [name for name in IMPLS if layer_lookup.load_reference(name) is layer_lookup.load_class(name)] == []


@pytest.mark.parametrize("name", HERE)
def test_a_reference_needs_no_more_than_the_layers_weights(name: str) -> None:
    case = case_of(name, 4, D, H)
    make_reference(case).load_state_dict(make(case).state_dict())
