"""A trial notifies the driver when it begins to compile, and only then."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from harness.core.trial.compilation import give_notice
from harness.core.trial.sandbox import NOTICE


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "torch._inductor.compile_fx", raising=False)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    give_notice(writer)
    yield reader
    os.close(reader)
    os.close(writer)


def test_an_import_of_the_compiler_is_told_once(pipe: int) -> None:
    assert find_spec("torch._inductor.compile_fx") is not None
    assert find_spec("torch._inductor.compile_fx") is not None
    assert os.read(pipe, 100) == NOTICE


def test_other_imports_are_not(pipe: int) -> None:
    assert find_spec("torch.onnx") is not None
    with pytest.raises(BlockingIOError):
        os.read(pipe, 100)
