"""The numbers by which two processes tell whether their references compute the same output."""

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.trial.verify import project_reference

CASE = Case("attention.fused", seq_len=24, d_model=16, num_heads=2, batch_size=2)


def projections(case: Case, seed: int = 0) -> list[float]:
    return project_reference(case, seed)["projections"]


@pytest.mark.parametrize("other", ["attention.naive", "attention.fused"])
def test_equal_outputs_have_equal_projections_whatever_the_kernel(other: str) -> None:
    assert projections(Case(other, 24, 16, 2, 2)) == pytest.approx(projections(CASE), rel=1e-9)


def test_other_weights_or_another_layer_have_others() -> None:
    norm = projections(CASE)[0]
    for others in (projections(CASE, seed=1), projections(Case("rnn.elman", 24, 16, 1, 2))):
        assert max(abs(a - b) for a, b in zip(projections(CASE), others, strict=True)) > 1e-3 * norm


@pytest.mark.parametrize(
    "changed", [{"mode": "decode", "mask": "causal"}, {"mask": "padding", "padding_fraction": 0.5}]
)
def test_they_are_finite_in_every_mode_and_at_padding(changed: dict) -> None:
    found = projections(Case(**{**CASE.as_dict(), **changed}))
    assert found[0] > 0
    assert found == pytest.approx(found)
