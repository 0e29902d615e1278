"""How far back a gradient reaches, in words."""

import math

import pytest

from harness.fit.gradient_decay import Decay, Rate
from harness.report.attention_and_gradients import gradient_reach_sentence, rate_cells

SURE = Rate(0.8, 0.79, 0.81)


def found(rate: Rate | None = SURE, **change: object) -> Decay:
    facts = {"near": rate, "far": rate, "steady": True, "fitted": 100, "reach": 100, "ends": False, "underflows": False}
    return Decay(rate=rate, **(facts | change))


@pytest.mark.parametrize(
    ("decay", "says"),
    [
        (found(), "each step back keeps 0.800 (0.790 to 0.810) of it; half is gone after 3.11 tokens."),
        (found(Rate(0.8, 0, math.inf)), "each step back keeps 0.800 of it; half is gone after 3.11 tokens."),
        (
            found(Rate(0.8, 0.5, 1.3)),
            "each step back keeps 0.800 (0.500 to 1.300) of it, by seeds too few or too unlike to tell whether it "
            "fades.",
        ),
        (
            found(Rate(0.999, 0.998, 0.9999)),
            "no fading over 100 tokens: each step back keeps 0.999 (0.998 to 1.000) of it.",
        ),
        (found(Rate(1.1, 1.05, 1.15)), "it grows: each step back makes it 1.100 (1.050 to 1.150) times as large."),
        (
            found(steady=False, near=Rate(0.5, 0.4, 0.6), far=Rate(0.95, 0.94, 0.96)),
            "each step back keeps 0.800 (0.790 to 0.810) of it; half is gone after 3.11 tokens. "
            "Not at one rate: 0.500 a step up to 50 tokens, 0.950 beyond.",
        ),
        (
            found(None, fitted=1, reach=1, ends=True),
            "too few distances to tell a rate. Nothing from more than 1 token back has any influence: exactly 0.",
        ),
    ],
)
def test_what_each_step_keeps_is_a_plain_sentence(decay: Decay, says: str) -> None:
    assert gradient_reach_sentence(decay) == says


def test_where_the_line_ends_early_the_reason_is_told() -> None:
    assert gradient_reach_sentence(found(fitted=40, reach=44, ends=True, underflows=True)).endswith(
        " Beyond 40 tokens it is below 1e-290, too small for a float64."
    )
    assert gradient_reach_sentence(found(fitted=32, reach=32, ends=True)).endswith(
        " Nothing from more than 32 tokens back has any influence: exactly 0."
    )
    assert gradient_reach_sentence(found(fitted=6, reach=98, ends=True)).endswith(
        " It has gaps: from 7 tokens back comes nothing, from 98 something."
    )


def test_a_table_has_what_there_is() -> None:
    assert rate_cells(found()) == ("0.800", "0.790 to 0.810", "3.11")
    assert rate_cells(found(None)) == ("", "", "")
    assert rate_cells(found(Rate(0.8, 0, math.inf)))[1] == "one seed"
    assert rate_cells(found(Rate(1.0001, 0.9, 1.1)))[2] == "∞"
