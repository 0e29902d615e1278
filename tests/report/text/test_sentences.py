"""The sentences of the report about the analysis."""

import math
from dataclasses import replace

import pytest
from report.found import FORWARD, some_findings

from harness.analysis.crossovers import Crossover
from harness.fit.laws import Break, Coefficient, Range
from harness.polynomial import Term
from harness.report.text import claims, costs
from harness.report.text.costs import COST_TEXTS, crossover_sentence, possible_crossings
from harness.sweep_axes import Setting

FOUND = some_findings([])
WITHIN = "the difference is within the measurement error"


def crossover(n: float | None, lo: float | None, hi: float | None, slower: str = "a", faster: str = "b") -> Crossover:
    return Crossover(slower, faster, FORWARD, "time", 256, 8, 1, n, lo, hi, 64, 2048)


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((768.0, 700.0, 900.0), "a costs more time than b from n = 768 (700 to 900) on."),
        ((0.0, 0.0, 0.0), "a costs more time than b at every n measured, n = 64 to 2048."),
        ((None, 2048.0, None), "a costs no more time than b at n = 64 to 2048."),
        (
            (None, 128.0, 512.0),
            f"a costs more time than b from n = 512 on. Below that, {WITHIN}.",
        ),
        (
            (None, 128.0, None),
            f"a costs no more time than b at n = 128. Above that, {WITHIN}.",
        ),
        (
            (None, 0.0, None),
            f"Whether a costs more time than b is undecided: at n = 64 to 2048, {WITHIN}.",
        ),
    ],
)
def test_a_crossover_is_one_sentence(ends: tuple, said: str) -> None:
    assert crossover_sentence(crossover(*ends)) == said


def test_a_pair_is_told_once_and_only_if_it_crosses_or_may() -> None:
    crossing = crossover(768.0, 700.0, 900.0)
    back = crossover(None, 0.0, None, "b", "a")
    never = crossover(None, 2048.0, None, "a", "c")
    always = crossover(0.0, 0.0, 0.0, "c", "a")
    assert possible_crossings([back, crossing, never, always]) == [crossing]


def test_sure_crossings_come_before_undecided_ones_and_by_n() -> None:
    late, early = crossover(900.0, 800.0, 950.0), crossover(100.0, 90.0, 120.0, "c", "d")
    open_one = crossover(None, 0.0, None, "e", "f")
    assert possible_crossings([open_one, late, early]) == [early, late, open_one]


def test_predictions_are_scored_in_one_sentence_a_metric() -> None:
    time, memory = costs.held_out_sentences(FOUND.held_out)
    assert "with a median error of 3.0 % (worst: 3.0 %, rnn.torch n=2048 d=256 h=1)" in time
    assert "The 95 % prediction intervals contain 1 of 1 values." in time
    assert "contain 0 of 1 values" in memory
    assert costs.signed_share(-0.031) == "−3.1 %"


def test_verdicts_are_counted_and_what_is_refuted_is_told() -> None:
    assert claims.verdict_count([one.verdict for one in FOUND.verdicts]) == "Of 2 claims 1 confirmed, 1 refuted."
    assert claims.verdict_count([]) == ""
    (said,) = claims.refuted_sentences(FOUND.verdicts)
    assert said.startswith("Refuted: attention.naive (forward) claims memory of O(n²), measured n^1.10:")


def test_a_refuted_claim_names_what_tells_its_setting_from_others() -> None:
    refuted = next(one for one in FOUND.verdicts if one.verdict == "refuted")
    half = replace(refuted, setting=Setting(dtype="bfloat16", threads=2))
    one, other = claims.refuted_sentences([refuted, half])
    assert "attention.naive (forward, float32, 1 thread) claims" in one
    assert "attention.naive (forward, bfloat16, 2 threads) claims" in other


def test_a_law_is_read_with_units_the_fastest_growing_term_first() -> None:
    time, work = FOUND.laws
    assert costs.law_formula(time) == "3.00 ps·n²·d + 2.00 µs·n"
    assert costs.law_formula(work) == "4n·d²"
    memory = replace(time, series=replace(time.series, metric="memory"))
    assert (
        costs.law_formula(replace(memory, law=replace(time.law, coefficients=(Coefficient(Term(n=2), 8.0, 8, 8),))))
        == "8 B·n²"
    )


def test_what_is_taken_away_has_a_minus() -> None:
    work = FOUND.laws[1]
    terms = (Coefficient(Term(d=2), -2.0, -2.0, -2.0), Coefficient(Term(n=1, d=2), 12.0, 12.0, 12.0))
    assert costs.law_formula(replace(work, law=replace(work.law, coefficients=terms))) == "12n·d² − 2d²"


def test_exponents_have_their_interval_unless_exact() -> None:
    assert costs.exponent_text(Range(1.87, 1.79, 2.0)) == "1.87 (1.79 to 2.00)"
    assert costs.exponent_text(Range(-0.001, -0.06, 0.5)) == "0.00 (−0.06 to 0.50)"
    assert costs.exponent_text(Range(2, 2, 2)) == "2.00"
    assert costs.exponent_text(None) == ""


def test_what_nothing_bounds_is_said_to_be_so() -> None:
    law = FOUND.laws[0]
    ends = (Coefficient(Term(), 1e-6, -math.inf, math.inf), Coefficient(Term(n=1), 1e-6, 0.0, math.inf))
    assert costs.coefficient_texts(replace(law, law=replace(law.law, coefficients=ends))) == [
        "n: 1.00 µs (at least 0 s)",
        "1: 1.00 µs (not bounded)",
    ]
    assert costs.exponent_text(Range(1.0, -math.inf, 2.0)) == "1.00 (at most 2.00)"


def test_a_law_that_holds_from_some_n_on_says_so() -> None:
    law = FOUND.laws[0]
    assert costs.break_text(law) == ""
    assert costs.break_text(replace(law, law=replace(law.law, breaks=(Break(256, 1.2),)))) == "from n = 256 on"


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("time", 0.0021, "2.10 ms"),
        ("memory", 2**20, "1.00 MiB"),
        ("flops", 4.19e8, "4.19·10⁸ FLOPs"),
        ("depth", 770, "770"),
    ],
)
def test_a_cost_has_its_unit(metric: str, value: float, text: str) -> None:
    assert COST_TEXTS[metric](value) == text
