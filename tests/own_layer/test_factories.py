"""A callable whose first parameter is d_model builds a layer: a partial of a class, or a function."""

from pathlib import Path

import pytest
import torch

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.described_layer import describe_layer
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.trial_kinds import outcome_of_exception
from harness.core.trial.verify import verify
from harness.core.trial.workload import Unsupported, build

FILE = Path(__file__).parent / "factories.py"


def case_of(name: str, **changed: object) -> Case:
    sizes: dict[str, object] = {"seq_len": 16, "d_model": 8, "num_heads": 2, **changed}
    return Case(f"{FILE}:{name}", **sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_a_partial_is_measured_as_its_class_and_its_reference_has_its_values(mode: str, mask: str) -> None:
    found = verify(case_of("near_3", mode=mode, mask=mask), seed=0)
    assert found["against"] == "Near"
    assert found["output_error"] < 1e-6
    assert build(case_of("near_3"), seed=0).layer.window == 3  # type: ignore[comparison-overlap]
    torch.set_grad_enabled(True)
    assert verify(case_of("named_3", mode=mode, mask=mask), seed=0)["output_error"] < 1e-6
    torch.set_grad_enabled(True)
    with pytest.raises(WrongResult, match="output is off by"):
        verify(case_of("other_3", mode=mode, mask=mask), seed=0)


def test_an_option_replaces_the_value_of_a_partial() -> None:
    assert build(case_of("near_3", options="window=5"), seed=0).layer.window == 5  # type: ignore[comparison-overlap]
    assert verify(case_of("near_3", options="window=5"), seed=0)["output_error"] < 1e-6
    described = describe_layer(case_of("near_3"))
    assert (described["own_axes"], described["options"]["window"]) == ('{"window": ["w", 3]}', "3")
    claims = layer_lookup.claims_of_class(layer_lookup.load_class(f"{FILE}:near_3"), case_of("near_3"))
    assert claims["work"].value(16, 8, 2) == 2 * 16 * 8**2 + 4 * 16**2 * 8


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", ["make", "make_near", "compiled"])
def test_a_function_of_the_width_builds_a_layer(name: str) -> None:
    assert verify(case_of(name), seed=0)["output_error"] < 1e-6
    assert describe_layer(case_of(name))["has_heads"] == (name == "make")


def test_what_a_factory_builds_takes_what_its_annotation_says() -> None:
    assert verify(case_of("make_near", mask="causal"), seed=0)["against"] == "Near"
    with pytest.raises(Unsupported, match="its forward takes neither is_causal nor attn_mask"):
        build(case_of("make", mask="causal"), seed=0)


def test_the_attributes_of_a_factory_describe_its_layer() -> None:
    with pytest.raises(WrongResult, match="it sees later tokens"):
        verify(case_of("sees_all"), seed=0)


def test_a_partial_of_a_size_of_the_sweep_is_refused() -> None:
    said = "its partial fixes num_heads, which the sweep gives: leave it out, and give num_heads=1"
    with pytest.raises(TypeError, match=said):
        layer_lookup.load_class(f"{FILE}:of_one_head")


def test_a_factory_of_no_layer_is_refused() -> None:
    with pytest.raises(TypeError) as raised:
        build(case_of("make_none"), seed=0)
    assert "make_none is not a torch.nn.Module" in outcome_of_exception(raised.value)["reason"]
