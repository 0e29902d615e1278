"""Fixtures of the tests of attention layers."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _gradients_as_before() -> Iterator[None]:
    torch.manual_seed(0)
    torch.set_grad_enabled(True)
    yield
    torch.set_grad_enabled(True)
