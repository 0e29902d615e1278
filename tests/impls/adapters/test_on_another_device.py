"""On a GPU an adapter finds all it needs there, and gives its package what lies there: shown on torch's `meta`."""

from typing import Any

import pytest
import torch
from adapters.pretended import check_layout, install
from another_device import THERE, AnotherDevice
from torch import Tensor

from harness.core.model.sweep_axes import Case
from harness.core.trial.workload import build
from impls.adapters.entries import ADAPTERS
from impls.registry import IMPLS


def attended(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
    """Something of the right shape that depends on all three: (b, n, h, head_dim)."""
    check_layout(q, k, v)
    return q * (k * v).sum(1, keepdim=True)


def linearly(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
    """The same beside a state (b, h, head_dim, head_dim), as fla gives it."""
    return attended(q, k, v), torch.einsum("bnhe,bnhf->bhef", k, v)


@pytest.fixture(params=[impl.name for impl in ADAPTERS])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An adapter whose package is installed."""
    install(monkeypatch, "flash_attn", flash_attn_func=attended)
    install(monkeypatch, "xformers.ops", memory_efficient_attention=attended, LowerTriangularMask=object)
    install(monkeypatch, "fla.ops.linear_attn", chunk_linear_attn=linearly, fused_recurrent_linear_attn=linearly)
    monkeypatch.setattr("impls.adapters.packages.find_spec", lambda package: package)
    adapter = next(impl for impl in ADAPTERS if impl.name == request.param)
    monkeypatch.setitem(IMPLS, adapter.name, adapter)
    return adapter.name


@pytest.mark.parametrize("mode", ["forward", "train", "backward", "decode"])
def test_nothing_of_a_call_is_on_the_cpu(name: str, mode: str) -> None:
    case = Case(name, 5, 32, 2, batch_size=2, mode=mode, mask="causal", dtype="bfloat16", device="cuda")
    with AnotherDevice() as device:
        work = build(case, seed=0)
        device.alone = True
        out = work.call()
    outputs = list(out) if mode == "backward" else [out]
    if mode == "train":
        outputs += [leaf.grad for leaf in (work.x, *work.layer.parameters())]
    for tensor in (*work.constants, *outputs):
        assert tensor.device == THERE
    assert {tensor.dtype for tensor in outputs} == {torch.bfloat16}
