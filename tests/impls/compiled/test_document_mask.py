"""FlexAttention over packed sequences."""

from collections.abc import Iterator

import pytest
from compilers import needs_cxx
from torch._dynamo.utils import counters

from harness.core.model.sweep_axes import Case
from harness.core.trial.verify import verify

pytestmark = [needs_cxx, pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")]


@pytest.fixture(autouse=True)
def _leave_no_counts() -> Iterator[None]:
    yield
    counters.clear()


def test_a_compiled_document_mask_is_softmax_attention_of_each_sequence() -> None:
    case = Case("sdpa.document_mask.flex", 160, 32, 4, batch_size=3, lengths="zipf", mask="causal")
    assert verify(case, seed=0)["against"] == "softmax_attention"
