"""What the tests of the blocks share."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded_on_one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for sizes such as these, more only wait for one another
    yield
    torch.set_num_threads(threads)
