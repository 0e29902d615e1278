"""Cost models and claims in m, the length of a source: cross-attention, or queries that are fewer than the keys."""

import pytest
from study.laws.measured import (
    CONFIRMED,
    NOT_MEASURED,
    REFUTED,
    SIZES,
    SOURCES,
    UNDETERMINED,
    Cost,
    attention,
    cross,
    measured,
    over_sources,
    scores,
    verdict,
)

from harness.core.results.columns import CaseResult
from harness.study.claims.claims_table import verdicts
from harness.study.claims.table1 import table1
from harness.study.complete_lines import complete_lines
from harness.study.laws.crossovers import crossovers
from harness.study.laws.fitted_laws import FittedLaw, fit_laws, laws_table
from harness.study.laws.predict import hold_out
from harness.study.report.figure_panels import panel_settings
from harness.study.report.text import cost_models

IN_M = "4nd² + 4md² + 4nmd"


def law_of(of: list[CaseResult], metric: str) -> FittedLaw:
    [found] = [law for law in fit_laws(of) if law.series.metric == metric]
    return found


@pytest.mark.parametrize(
    ("cost", "sizes", "law"),
    [
        (scores, SIZES, "8 n·m·d"),  # of two sequences
        (cross, SIZES, "8 n·d² + 8 n·m·d + 8 m·d²"),
        (scores, (64,), "512 m·d"),
        (cross, (64,), "8 m·d² + 512 d² + 512 m·d"),
    ],
)
def test_counts_over_sources_have_an_exact_law_in_m(cost: Cost, sizes: tuple[int, ...], law: str) -> None:
    found = law_of(over_sources(cost, sizes=sizes), "flops").law
    assert {*str(found).split(" + ")} == {*law.split(" + ")}
    assert found.exact


def test_a_time_has_the_terms_of_the_counts_in_m() -> None:
    found = law_of(over_sources(cross), "time")
    assert {str(term) for term in found.law.terms} == {"1", "n·d²", "n·m·d", "m·d²"}
    assert found.law.determined
    # 10 µs and 2·10⁻¹⁰ s for each FLOP of a sequence, at twice the largest source.
    expected = 1e-5 + 2e-10 * cross(512, 1024, 256)
    predicted = found.predict(512, 256, 2, 2, (("m", 1024),))
    assert predicted.value == pytest.approx(expected, rel=1e-3)
    assert predicted.lo <= expected <= predicted.hi


def test_one_length_of_a_source_stays_a_setting_and_no_source_has_laws_of_its_own() -> None:
    one = laws_table(fit_laws(over_sources(scores, sources=(128,))))
    assert set(one["kv_len"]) == {128}
    assert one["own_exponents"].isna().all()
    both = laws_table(fit_laws([*over_sources(scores), *measured("sdpa.fused", attention)]))
    flops = both[both["metric"] == "flops"].set_index("kv_len")["law"]
    assert dict(flops) == {"m": "8 n·m·d", 0: "8 n²·d + 16 n·d²"}


def test_lengths_that_grow_together_do_not_determine_the_law() -> None:
    of = [line for line in over_sources(scores, sources=SIZES) if line.seq_len == line.kv_len]
    assert not law_of(of, "flops").law.determined
    assert law_of(of, "time").law.reason == "n and m vary only together: vary one alone"


@pytest.mark.parametrize(
    ("claim", "expected", "reason"),
    [
        (IN_M, CONFIRMED, "to the last digit in 36 cases"),
        ("4nd² + 4md² + 2nmd", REFUTED, "at n = 64, d = 128, h = 2, m = 128 it claims 29,360,128 FLOPs and does"),
        ("8nd² + 4n²d", UNDETERMINED, "a claim in m covers a source of m tokens"),
    ],
)
def test_a_claim_in_m_is_judged_and_one_in_n_alone_is_not(claim: str, expected: str, reason: str) -> None:
    of = over_sources(cross, "their:Layer", work=claim)
    found = verdict("work", of, fit_laws(of))
    assert (found.claimed, found.verdict) == (claim, expected)
    assert reason in found.reason


def test_memory_is_judged_by_its_order_in_m() -> None:
    of_m = verdict("memory", over_sources(cross, "their:Layer", memory="md"))
    assert of_m.verdict == CONFIRMED
    # Two widths do not tell a term in m·d from one in m.
    below_m = verdict("memory", over_sources(cross, "their:Layer", memory="nd + m"))
    assert below_m.verdict == UNDETERMINED


def test_a_time_is_judged_by_the_exponent_of_the_claim_in_m() -> None:
    of = over_sources(cross, "their:Layer", work=IN_M)
    found = verdict("time", of, fit_laws(of))
    # At n = 2048, m = 512, d = 256, doubling n doubles 4nd² + 4nmd, which is all but 4md²: 12 parts of 13.
    assert found.claimed == "n^0.92 at n = 2048, d = 256"
    assert found.verdict == CONFIRMED


def test_layers_are_compared_over_the_same_source_only() -> None:
    both = [*over_sources(scores), *over_sources(cross, "sdpa.naive")]
    assert [one.at["kv_len"] for one in panel_settings(both)] == [*SOURCES]
    assert {one.setting.kv_len for one in crossovers(both)} == {*SOURCES}
    at_each = {line.kv_len: line for line in complete_lines(both, {}, baseline="sdpa.fused")[0] if line.seq_len == 64}
    of_cross = next(line for line in at_each.values() if line.impl == "sdpa.naive")
    times = (1e-5 + 2e-10 * cost(64, of_cross.kv_len, of_cross.d_model) for cost in (cross, scores))
    assert of_cross.ratio == pytest.approx(next(times) / next(times), rel=0.01)


def test_the_prediction_check_names_the_source() -> None:
    held_out = hold_out(over_sources(cross))
    rows = str(cost_models.held_out_table(held_out).groups)
    assert all(f"n = 2048, d = 256, h = 2, m = {m}" in rows for m in SOURCES)


def test_table_1_is_about_layers_that_attend_to_their_own_input() -> None:
    of = over_sources(scores, "attention.fused")
    laws = fit_laws(of)
    cells = [row.complexity for row in table1(of, laws, verdicts(of, laws))[0]]
    assert {cell.verdict for cell in cells} == {NOT_MEASURED}
