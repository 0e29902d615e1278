"""Findings as text: the table of claims, Table 1, cost models and crossings."""

import math
from dataclasses import replace

from screens.text_file import table_text, titled
from study.claims.test_table1 import own, usual
from study.laws.measured import attention, measured
from study.report.found import FORWARD, some_findings, some_lines
from syrupy import SnapshotAssertion

from harness.core.model.polynomial import Term
from harness.core.model.sweep_axes import Setting
from harness.core.results.columns import CaseResult
from harness.study.claims.claims_table import verdicts
from harness.study.claims.table1 import table1
from harness.study.laws.crossovers import Crossover
from harness.study.laws.fitted_laws import FittedLaw, fit_laws
from harness.study.laws.laws import Break, Coefficient, Range
from harness.study.report.text import claims, cost_models, costs

ND2, N2D, N = Term(n=1, d=2), Term(n=2, d=1), Term(n=1)


def test_the_claims_of_a_run_are_a_table_and_what_is_refuted_a_sentence(snapshot: SnapshotAssertion) -> None:
    of = measured("attention.fused", attention, depth=lambda n, d, h: 5)
    wrong = measured("attention.naive", lambda n, d, h: attention(n, d, h) + 1, depth=lambda n, d, h: 5)
    half = [replace(line, dtype="bfloat16", threads=2) for line in wrong]
    found = verdicts([*of, *wrong, *half], [])
    sentences = [claims.verdict_count([one.verdict for one in found]), *claims.refuted_sentences(found)]
    assert "\n".join([table_text(claims.claims_table(found)), "", *sentences]) == snapshot


def table1_text(lines: list[CaseResult]) -> str:
    laws = fit_laws(lines)
    found = verdicts(lines, laws)
    tables = table1(lines, laws, found)
    return "\n\n".join(table_text(claims.order_table(rows)) for rows in tables)


def test_table_1_has_the_papers_orders_and_what_was_measured_of_them(snapshot: SnapshotAssertion) -> None:
    theirs = own(depth=lambda n, d, h: 7, claims='{"depth": "n"}')
    states = {"nothing measured": [], "ours and a user's layer": [*theirs, *usual()], "training": usual("train")}
    assert titled({title: table1_text(lines) for title, lines in states.items()}) == snapshot


def crossover(n: float | None, lo: float | None, hi: float | None) -> Crossover:
    return Crossover("a", "b", FORWARD, "time", 256, 8, 1, n, lo, hi, 64, 2048)


def test_a_crossing_is_one_sentence_and_one_cell(snapshot: SnapshotAssertion) -> None:
    states = {
        "at an n": crossover(768.0, 700.0, 900.0),
        "exactly at an n": crossover(512.4, 512.0, 513.0),
        "at every n": crossover(0.0, 0.0, 0.0),
        "at the one n": replace(crossover(0.0, 0.0, 0.0), measured_to=64),
        "at no n": crossover(None, 2048.0, None),
        "not at the one n": replace(crossover(None, 64.0, None), measured_to=64),
        "undecided below": crossover(None, 128.0, 512.0),
        "undecided above": crossover(None, 128.0, None),
        "undecided": crossover(None, 0.0, None),
    }
    assert titled({title: f"{costs.crossover_sentence(c)}\n{c}" for title, c in states.items()}) == snapshot


def test_cost_models_and_predictions_are_tables(snapshot: SnapshotAssertion) -> None:
    found = some_findings(some_lines())
    time, work = found.laws

    def changed(of: FittedLaw, metric: str = "time", exponent: Range | None = None, **law: object) -> FittedLaw:
        series = replace(of.series, metric=metric, setting=Setting(mode="train", threads=2))
        return replace(of, series=series, law=replace(of.law, **law), exponent_n=exponent)

    minus = (Coefficient(Term(d=2), -2.0, -2.0, -2.0), Coefficient(Term(n=1, d=2), 12.0, 12.0, 12.0))
    open_ends = (Coefficient(Term(), 1e-6, -math.inf, math.inf), Coefficient(Term(n=1), 1e-6, 0.0, math.inf))
    laws = [
        *found.laws,
        changed(time, "memory", coefficients=(Coefficient(Term(n=2), 8.0, 8, 8),)),
        changed(time, exponent=Range(-0.001, -0.06, 0.5), coefficients=open_ends),
        changed(time, exponent=Range(1.0, -math.inf, 2.0), breaks=(Break(256),)),
        changed(time, determined=False, reason="n takes 2 values"),
        changed(work, "flops", exponent=Range(2, 2, 2), coefficients=minus),
    ]
    tables = [cost_models.laws_table(laws), cost_models.held_out_table(found.held_out)]
    text = [*map(table_text, tables), "\n".join(cost_models.held_out_sentences(found.held_out))]
    assert "\n\n".join(text) == snapshot


def test_a_reason_that_several_cost_models_or_claims_share_is_told_once_with_their_layers() -> None:
    time, _ = some_findings(some_lines()).laws
    vague = replace(time, law=replace(time.law, determined=False, reason="n takes 2 values"))
    other = replace(vague, series=replace(vague.series, impl="rnn.torch"))
    memory = replace(other, series=replace(other.series, metric="memory"))
    table = cost_models.laws_table([time, vague, other, memory])
    assert table.notes == [
        "undetermined: n takes 2 values: time of attention.fused, rnn.torch; peak memory of rnn.torch"
    ]
    assert table_text(table).count("n takes 2 values") == 1
    of = [*measured("attention.fused", attention), *measured("attention.naive", attention)]
    text = table_text(claims.claims_table(verdicts(of, [])))
    assert text.count("it has no law of time") == 1
    assert "it has no law of time: time of attention.fused, attention.naive" in text
