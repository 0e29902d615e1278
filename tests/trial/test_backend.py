import pytest

from harness.case import Case
from harness.sweep.runner import Runner
from harness.trial.backend import backend


def test_a_fallback_to_math_shows() -> None:
    assert backend(["aten::linear", "aten::_scaled_dot_product_attention_math"]) == "math"
    assert backend(["aten::mm"]) == "aten"


@pytest.mark.parametrize(
    ("impl", "ran"), [("attention.fused", "flash"), ("attention.naive", "aten"), ("rnn.torch", "aten loop")]
)
def test_the_facts_of_a_case_name_the_kernel_that_ran(runner: Runner, impl: str, ran: str) -> None:
    facts = runner.run("facts", Case(impl, 16, 8, 1))
    assert facts["backend"] == ran
    assert facts["peak_bytes"] > 0
