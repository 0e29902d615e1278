"""torch's compiler in this process, with a directory of this session's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from harness.core.trial import compilation
from impls.attention.entries import COMPILED_ATTENTION
from impls.registry import IMPLS
from impls.rnn.entries import COMPILED_RNN


@pytest.fixture(scope="session")
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compile-cache")


@pytest.fixture(autouse=True)
def _compiler(monkeypatch: pytest.MonkeyPatch, compile_cache: Path) -> Iterator[None]:
    for name, value in compilation.SETTINGS.items():
        monkeypatch.setenv(name, value)
    compilation.preload_compiler("cpu")  # what it finds out about the machine, torch keeps in its own directory
    torch._inductor.config.compile_threads = 1  # somebody may have brought it in before the settings
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(compile_cache))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(compile_cache / "triton"))
    for impl in (*COMPILED_ATTENTION, *COMPILED_RNN):
        monkeypatch.setitem(IMPLS, impl.name, impl)
    yield
    torch._dynamo.reset()
