"""What a block needs beside its weights is made before it is timed, and is no weight."""

import pytest
from blocks.parts import D, H
from ladder import BLOCK_OF_EACH_KIND

from harness.core.model.sweep_axes import Case
from harness.core.trial.workload import build
from impls.blocks import blocks

# A stack has a test of its own.
BLOCKS = [name for name in BLOCK_OF_EACH_KIND if not name.startswith("encoder6.")]


@pytest.mark.parametrize("name", BLOCKS)
def test_neither_positions_nor_masks_are_made_in_the_measured_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work = build(Case(name, 12, D, H, mask="causal"), seed=0)

    def made(*_: object, **__: object) -> None:
        raise AssertionError("made on the clock")

    for module in (blocks, blocks, blocks):
        monkeypatch.setattr(module, "sinusoids", made)
    for module in (blocks, blocks):
        monkeypatch.setattr(module, "arguments_for", made)
    assert work.call().shape == (1, 12, D)


@pytest.mark.parametrize("name", BLOCKS)
def test_positions_are_no_weights(name: str) -> None:
    state = build(Case(name, 12, D, H), seed=0).layer.state_dict()
    assert all(name.split(".")[-1] in ("weight", "bias") or "attention." in name for name in state)
    assert sum(value.numel() for value in state.values()) > 8 * D * D
