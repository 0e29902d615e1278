"""How far back a gradient reaches, in words."""

import math

from screens.text_file import titled
from syrupy import SnapshotAssertion

from harness.extras.attention.pictures import Decay, Rate, gradient_reach_sentence, rate_cells

SURE = Rate(0.8, 0.79, 0.81)


def found(rate: Rate | None = SURE, **change: object) -> Decay:
    facts = {"halves": None, "fitted": 100, "reach": 100, "ends": False, "underflows": False}
    return Decay(rate=rate, **(facts | change))


def test_a_table_has_what_there_is() -> None:
    assert rate_cells(found()) == ("0.800", "0.790 to 0.810", "3.11")
    assert rate_cells(found(None)) == ("", "", "")
    assert rate_cells(found(Rate(0.8, 0, math.inf)))[1] == "one seed"
    assert rate_cells(found(Rate(1.0001, 0.9, 1.1)))[2] == "∞"


def test_a_gradients_reach_is_a_sentence(snapshot: SnapshotAssertion) -> None:
    states = {
        "fades": found(),
        "one seed": found(Rate(0.8, 0, math.inf)),
        "too few seeds": found(Rate(0.8, 0.5, 1.3)),
        "does not fade": found(Rate(0.999, 0.998, 0.9999)),
        "grows": found(Rate(1.1, 1.05, 1.15)),
        "two rates": found(halves=(0.5, 0.95)),
        "too few distances": found(None, fitted=1, reach=1, ends=True),
        "underflows": found(SURE, fitted=40, reach=44, ends=True, underflows=True),
        "ends": found(SURE, fitted=32, reach=32, ends=True),
        "has gaps": found(SURE, fitted=6, reach=98, ends=True),
    }
    assert titled({title: gradient_reach_sentence(decay) for title, decay in states.items()}) == snapshot
