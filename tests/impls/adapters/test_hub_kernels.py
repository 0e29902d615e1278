"""Attention kernels of the kernels package against a package that computes what the real ones document."""

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from adapters.pretended import check_layout, install, later, take_on_the_cpu
from torch import Tensor

from harness.sweep_axes import Case
from harness.trial.layer_protocol import unsupported_reason
from harness.trial.verify import verify
from impls.adapters.entries import HUB_KERNELS
from impls.adapters.hub_kernels import HubFlashAttention, HubFlashAttention2, HubFlashAttention3, is_loaded

NAMES = [impl.name for impl in HUB_KERNELS]


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    check_layout(q, k, v)
    scores = torch.einsum("bihe,bjhe->bhij", q, k) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(later(q.shape[1], k.shape[1]), -torch.inf)
    return torch.einsum("bhij,bjhe->bihe", scores.softmax(-1), v)


def get_kernel(repository: str, revision: str | None = None, version: int | None = None) -> SimpleNamespace:
    assert os.environ["HF_HUB_OFFLINE"] == "1"  # a measurement downloads nothing
    assert version == 1
    if repository == "kernels-community/flash-attn2":
        return SimpleNamespace(flash_attn_func=lambda q, k, v, causal=False: attention(q, k, v, causal))
    assert repository == "kernels-community/flash-attn3"
    return SimpleNamespace(flash_attn_func=lambda q, k, v, causal=False: (attention(q, k, v, causal), None))


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_softmax_attention(name: str, mask: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    install(monkeypatch, "kernels", get_kernel=get_kernel)
    take_on_the_cpu(monkeypatch, HubFlashAttention)
    found = verify(Case(name, 13, 24, 3, batch_size=2, mode=mode, mask=mask), seed=0)
    assert found["against"] == "SdpaReference"


def refused(**changed: Any) -> str | None:
    case = Case(NAMES[0], 16, **{"d_model": 32, "num_heads": 4, "device": "cuda", "dtype": "bfloat16", **changed})
    return unsupported_reason(HubFlashAttention2, case)


def test_what_it_cannot_do_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kernels", None)
    assert refused() == "kernels is not installed: pip install kernels"
    assert refused(device="cpu") == "kernels computes on device=cuda alone"
    assert refused(d_model=2048) == "flash attention has heads of 256 at most, not 512"


@pytest.mark.parametrize("error", [ValueError, FileNotFoundError, ConnectionError])
def test_a_kernel_that_was_not_loaded_is_refused_with_the_command_that_loads_it(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(is_loaded.cache_clear)

    def only_flash3(repository: str, version: int) -> SimpleNamespace:
        if repository == "kernels-community/flash-attn2":
            raise error(repository)
        return get_kernel(repository, version=version)

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    install(monkeypatch, "kernels", get_kernel=only_flash3)
    call = "get_kernel('kernels-community/flash-attn2', version=1)"
    assert refused() == f'its kernel is not loaded: python -c "from kernels import get_kernel; {call}"'
    case = Case(NAMES[1], 16, 32, 4, device="cuda", dtype="bfloat16")
    assert unsupported_reason(HubFlashAttention3, case) is None
