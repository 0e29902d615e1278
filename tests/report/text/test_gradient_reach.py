"""How far back a gradient reaches, in words."""

import math

from harness.fit.gradient_decay import Decay, Rate
from harness.report.attention_and_gradients import rate_cells

SURE = Rate(0.8, 0.79, 0.81)


def found(rate: Rate | None = SURE, **change: object) -> Decay:
    facts = {"near": rate, "far": rate, "steady": True, "fitted": 100, "reach": 100, "ends": False, "underflows": False}
    return Decay(rate=rate, **(facts | change))


def test_a_table_has_what_there_is() -> None:
    assert rate_cells(found()) == ("0.800", "0.790 to 0.810", "3.11")
    assert rate_cells(found(None)) == ("", "", "")
    assert rate_cells(found(Rate(0.8, 0, math.inf)))[1] == "one seed"
    assert rate_cells(found(Rate(1.0001, 0.9, 1.1)))[2] == "∞"
