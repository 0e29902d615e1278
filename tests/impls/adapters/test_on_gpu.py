"""The real packages, where there are a GPU and they."""

from collections.abc import Iterator

import pytest
import torch

from harness.sweep_axes import Case
from harness.trial.verify import verify
from harness.trial.workload import Unsupported
from impls.adapters.entries import ADAPTERS
from impls.impl import Impl
from impls.registry import IMPLS

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]


@pytest.fixture(autouse=True)
def _gradients_as_before() -> Iterator[None]:
    torch.set_grad_enabled(True)
    yield
    torch.set_grad_enabled(True)


@pytest.mark.parametrize("mode", ["forward", "train", "backward", "decode"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("impl", ADAPTERS, ids=lambda impl: impl.name)
def test_it_computes_what_our_layer_does(monkeypatch: pytest.MonkeyPatch, impl: Impl, dtype: str, mode: str) -> None:
    monkeypatch.setitem(IMPLS, impl.name, impl)
    case = Case(impl.name, 200, 256, 4, batch_size=2, mode=mode, dtype=dtype, device="cuda", mask="causal")
    try:
        verify(case, seed=0)
    except Unsupported as reason:
        pytest.skip(str(reason))
