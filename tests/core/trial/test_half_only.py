"""A layer whose kernels are of half precision alone, as many a GPU's are, is verified as far as it can be."""

import pytest
import torch
from torch import Tensor, nn

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.verify import verify


class KernelError(Exception):
    """As a compiler of kernels raises it: no RuntimeError."""


class HalfOnly(nn.Module):
    """It says nowhere that it is, but when it is called."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype not in (torch.float16, torch.bfloat16):
            raise KernelError(f"no kernel for {x.dtype}")
        return x * self.weight


class HalfOnlyAndNotFinite(HalfOnly):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 0


class LooksAhead(nn.Module):
    """A token looks at the last one, by so little that half precision rounds it away."""

    causal = True

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + 1e-4 * x[:, -1:]


def verified(layer_class: type, monkeypatch: pytest.MonkeyPatch, **changed: str) -> dict[str, object]:
    monkeypatch.setattr(layer_lookup, "load_class", lambda name: layer_class)
    monkeypatch.setattr(layer_lookup, "load_reference", lambda name: None)
    monkeypatch.setattr(layer_lookup, "reference_options", lambda name: {})
    return verify(Case("own:Layer", 8, 4, 1, **{"dtype": "bfloat16", **changed}), seed=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
def test_that_it_runs_in_no_other_precision_is_no_fault_of_it(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    found = verified(HalfOnly, monkeypatch, mode=mode)
    assert found["against"] == "nothing: it does not run in float64"
    assert found["output_error"] is None


def test_it_is_wrong_where_its_output_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongResult, match="its output is not finite"):
        verified(HalfOnlyAndNotFinite, monkeypatch)


def test_in_a_precision_that_it_does_not_have_it_says_so_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KernelError, match=r"no kernel for torch\.float32"):
        verified(HalfOnly, monkeypatch, dtype="float32")


def test_what_half_precision_rounds_away_is_still_found_by_a_layer_that_has_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(WrongResult, match=r"^in float32: it sees later tokens"):
        verified(LooksAhead, monkeypatch, mask="causal")


class Rounds(LooksAhead):
    """It multiplies in bfloat16, in any precision."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model)
        self.linear = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = (one.to(torch.bfloat16) for one in self.linear.parameters())
        return nn.functional.linear(x.to(torch.bfloat16), weight, bias).to(x.dtype)


class UnderAutocast(Rounds):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.linear(x).to(x.dtype)


@pytest.mark.parametrize("layer_class", [Rounds, UnderAutocast])
def test_products_in_half_precision_are_right_in_that_precision_alone(
    layer_class: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = verified(layer_class, monkeypatch, mode="train")["output_error"]
    assert 1e-4 < error < 1e-2
    with pytest.raises(WrongResult, match=r"^output is off by"):
        verified(layer_class, monkeypatch, dtype="float32")
