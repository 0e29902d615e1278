"""The tolerance of gradients where the products have fewer bits than the input and the output."""

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

# Roundings of bfloat16 explain 8 units in its last place, 2⁻⁷; sums over 64 terms in float32 add 8 · 2⁻²³.
OF_BFLOAT16 = 8 * 2**-7 + 8 * 2**-23


@pytest.mark.parametrize("mode", ["train", "backward"])
@pytest.mark.parametrize("layer", ["UnderAutocast", "CastsByHand"])
def test_gradients_may_be_as_inexact_as_the_products(layer: str, mode: str, runner: Executor) -> None:
    found = runner.run("verify", Case(f"own_layer.few_bits:{layer}", 64, 64, 1, mode=mode))
    assert found.status == "ok", found.reason
    assert found.values["gradient_tolerance"] == pytest.approx(OF_BFLOAT16, rel=1e-9)
    assert 1e-4 < found.values["gradient_error"] < 0.02


@pytest.mark.parametrize("mode", ["train", "backward"])
@pytest.mark.parametrize(("layer", "limit"), [("WrongGradient", "6.3e-02"), ("WrongInFloat32", "1.4e-03")])
def test_wrong_gradients_are_found_all_the_same(layer: str, limit: str, mode: str, runner: Executor) -> None:
    found = runner.run("verify", Case(f"own_layer.few_bits:{layer}", 64, 64, 1, mode=mode))
    assert found.status == "incorrect"
    assert str(found.reason).startswith("gradient of ")
    assert f"at most {limit} is tolerated" in str(found.reason)
