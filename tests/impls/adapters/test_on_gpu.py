"""The real packages, where there are a GPU and they."""

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.trial.verify import verify
from harness.core.trial.workload import Unsupported
from impls.adapters.entries import ADAPTERS
from impls.registry import IMPLS
from impls.registry_entry import Impl

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]


MODES = ("forward", "train", "backward", "decode")
DTYPES = ("float16", "bfloat16")


def case_of(impl: str, dtype: str, mode: str) -> Case:
    """`tests/core/trial/test_cuda_cases.py` shows that none is refused."""
    return Case(impl, 200, 256, 4, batch_size=2, mode=mode, dtype=dtype, device="cuda", mask="causal")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("impl", ADAPTERS, ids=lambda impl: impl.name)
def test_it_computes_what_our_layer_does(monkeypatch: pytest.MonkeyPatch, impl: Impl, dtype: str, mode: str) -> None:
    monkeypatch.setitem(IMPLS, impl.name, impl)
    try:
        verify(case_of(impl.name, dtype, mode), seed=0)
    except Unsupported as reason:
        if "is not installed" not in str(reason):
            raise
        pytest.skip(str(reason))
