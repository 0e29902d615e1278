"""The files in docs/examples are the code that pages print, and compute what they say."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from docs.test_tutorials import PAGES, ROOT, blocks

EXAMPLES = ROOT / "docs" / "examples"
PRINTED = {block.file: block.text for page in PAGES for block in blocks(page) if block.file}


def imported(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(name).stem, EXAMPLES / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_is_printed_by_a_page() -> None:
    assert sorted(PRINTED) == sorted(file.name for file in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", PRINTED)
def test_a_page_prints_the_file_as_it_is(name: str) -> None:
    assert PRINTED[name] == (EXAMPLES / name).read_text(encoding="utf-8")


def test_the_causal_mean_averages_each_token_with_all_before_it() -> None:
    layer = imported("my_layer.py").CausalMean(4)
    x = torch.randn(2, 5, 4)
    means = torch.stack([x[:, : t + 1].mean(1) for t in range(5)], dim=1)
    torch.testing.assert_close(layer(x), layer.out(means))
