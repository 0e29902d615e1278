"""Table 1 of *Attention Is All You Need*, measured."""

from dataclasses import replace

import pytest
from analysis.measured import Cost, attention, measured

from harness.analysis.claims_table import verdicts
from harness.analysis.fitted_laws import fit_laws
from harness.analysis.table1 import BeyondRow, Table1Row, rows_beyond_table1, table1
from harness.results.columns import CaseResult


def recurrent(n: int, d: int, h: int) -> int:
    return 4 * n * d * d


def usual(mode: str = "forward") -> list[CaseResult]:
    """Fused attention and an Elman network as they are."""
    of_attention = measured("attention.fused", attention, depth=lambda n, d, h: 5, mode=mode)
    of_rnn = measured("rnn.elman", recurrent, depth=lambda n, d, h: 3 * n + 2, heads=(1,), mode=mode)
    return of_attention + of_rnn


def rows_of(lines: list[CaseResult]) -> dict[tuple[str, str | None], Table1Row]:
    laws = fit_laws(lines)
    return {(row.kind, row.impl): row for row in table1(lines, laws, verdicts(lines, laws))}


def beyond(lines: list[CaseResult]) -> dict[str | None, BeyondRow]:
    laws = fit_laws(lines)
    return {row.impl: row for row in rows_beyond_table1(lines, laws, verdicts(lines, laws))}


def test_attention_is_confirmed_in_its_own_term_and_the_projections_are_said_to_come_on_top() -> None:
    cell = rows_of(usual())["Self-Attention", "attention.fused"].complexity
    assert (cell.claimed, cell.measured, cell.verdict) == ("O(n²·d)", "4n²d + 8nd²", "confirmed")
    assert "4n²d is the leading term" in cell.reason
    assert "the projections add 8nd², which dominates while n < 2d" in cell.reason


def test_a_recurrent_layer_is_confirmed_in_all_three_cells() -> None:
    row = rows_of(usual())["Recurrent", "rnn.elman"]
    cells = [(cell.claimed, cell.measured, cell.verdict) for cell in (row.complexity, row.sequential, row.path)]
    assert cells == [
        ("O(n·d²)", "4nd²", "confirmed"),
        ("O(n)", "3n + 2", "confirmed"),
        ("O(n)", "at most 3n + 2", "confirmed"),
    ]


def test_kinds_that_no_layer_is_of_have_a_row_that_says_so() -> None:
    rows = rows_of(usual())
    for kind, claimed in (("Convolutional", "O(k·n·d²)"), ("Self-Attention (restricted)", "O(r·n·d)")):
        row = rows[kind, None]
        assert (row.complexity.claimed, row.complexity.verdict) == (claimed, "undetermined")
        assert row.path.reason == "no layer of this kind measured"
    assert rows_of([])["Self-Attention", None].complexity.reason == "no layer of this kind measured"


def own(family: str = "attention", **changed: object) -> list[CaseResult]:
    """A layer of somebody's own that does the work of attention, of one sequence."""
    of = measured("their:Layer", attention, family=family, widths=(64, 128, 256), **changed)
    return [replace(line, batch_size=1, flops=line.flops // 2, flops_full=line.flops // 2) for line in of]


def test_somebodys_own_layer_stands_with_its_kind_after_ours() -> None:
    rows = rows_of(own(depth=lambda n, d, h: 7) + usual())
    assert [impl for kind, impl in rows if kind == "Self-Attention"] == ["attention.fused", "their:Layer"]
    row = rows["Self-Attention", "their:Layer"]
    assert (row.complexity.measured, row.complexity.verdict) == ("4n²d + 8nd²", "confirmed")
    assert (row.sequential.measured, row.sequential.verdict, row.path.verdict) == ("7", "confirmed", "confirmed")
    assert "their:Layer" in beyond(own())


def test_what_somebodys_own_layer_claims_is_no_measure_of_the_table() -> None:
    of = own(depth=lambda n, d, h: 7, claims='{"depth": "n"}')
    cell = rows_of(of)["Self-Attention", "their:Layer"].sequential
    assert (cell.claimed, cell.verdict) == ("O(1)", "confirmed")
    assert cell.reason.endswith("the layer itself claims O(n)")
    loop = rows_of(own(depth=lambda n, d, h: 3 * n))["Self-Attention", "their:Layer"].sequential
    assert loop.verdict == "refuted"


def test_the_claimed_work_of_somebodys_own_layer_is_its_formula_once_confirmed() -> None:
    of = [line for line in own(claims='{"work": "8nd² + 4n²d"}') if line.d_model == 64]
    cell = rows_of(of)["Self-Attention", "their:Layer"].complexity
    assert (cell.measured, cell.verdict) == ("4n²d + 8nd²", "confirmed")


def own_of_work(cost: Cost, claims: str | None = None) -> list[CaseResult]:
    of = measured("their:Layer", cost, family="attention", widths=(64, 128, 256), claims=claims)
    return [replace(line, batch_size=1, flops=line.flops // 2, flops_full=line.flops // 2) for line in of]


def test_a_window_of_somebodys_own_is_restricted_by_its_confirmed_claim() -> None:
    def window(n: int, d: int, h: int) -> int:
        return 8 * n * d * d + 384 * n * d

    rows = rows_of(own_of_work(window, '{"work": "8*n*d^2 + 4·96·n·d"}'))
    assert rows["Self-Attention (restricted)", "their:Layer"].complexity.verdict == "confirmed"
    assert ("Self-Attention", "their:Layer") not in rows
    refuted = rows_of(own_of_work(window, '{"work": "8nd² + 4nd"}'))
    assert ("Self-Attention (restricted)", "their:Layer") not in refuted


def test_linear_attention_of_somebodys_own_is_of_no_kind_by_its_confirmed_claim() -> None:
    of = own_of_work(lambda n, d, h: 8 * n * d * d + 4 * n * d * d // h, '{"work": "8nd² + 4nd²/h"}')
    assert {impl for _, impl in rows_of(of)} == {None}


def test_a_layer_of_somebodys_own_that_does_less_than_its_familys_bound_does_not_refute_it() -> None:
    cell = rows_of(own_of_work(recurrent))["Self-Attention", "their:Layer"].complexity
    assert (cell.measured, cell.verdict) == ("4nd²", "undetermined")
    assert cell.reason.startswith("does less than O(n²·d)")
    more = rows_of(own_of_work(lambda n, d, h: n**3))["Self-Attention", "their:Layer"].complexity
    assert more.verdict == "refuted"


@pytest.mark.parametrize("lines", [own("own"), own(mode="train"), [replace(line, flops=None) for line in own()]])
def test_a_layer_of_another_family_or_mode_or_without_counted_work_is_no_row(lines: list[CaseResult]) -> None:
    assert {impl for _, impl in rows_of(lines)} == {None}


def test_attention_that_does_no_quadratic_work_refutes_the_cell() -> None:
    lines = [replace(line, batch_size=1) for line in measured("attention.fused", recurrent)]
    cell = rows_of(lines)["Self-Attention", "attention.fused"].complexity
    assert (cell.verdict, cell.reason) == ("refuted", "there is no term of O(n²·d)")
    assert cell.measured == "8nd²"  # of two sequences


def test_work_that_grows_faster_than_the_table_has_refutes_the_cell() -> None:
    lines = [replace(line, batch_size=1) for line in measured("rnn.elman", attention, heads=(1,))]
    cell = rows_of(lines)["Recurrent", "rnn.elman"].complexity
    assert (cell.verdict, cell.reason) == ("refuted", "8n²d grows faster")


def test_work_that_no_formula_gives_is_undetermined() -> None:
    lines = measured("attention.fused", lambda n, d, h: attention(n, d, h) + hash((n, d)) % 1000)
    assert rows_of(lines)["Self-Attention", "attention.fused"].complexity.verdict == "undetermined"


def test_one_n_tells_nothing_of_growth() -> None:
    cell = rows_of([line for line in usual() if line.seq_len == 64])["Recurrent", "rnn.elman"].complexity
    assert (cell.verdict, cell.reason) == ("undetermined", "n was not varied (mode=forward)")


def test_a_claim_refuted_in_one_setting_is_refuted() -> None:
    wrong = [replace(line, dtype="bfloat16", depth=line.seq_len) for line in usual()]
    assert rows_of(usual() + wrong)["Self-Attention", "attention.fused"].sequential.verdict == "refuted"


def test_work_refuted_in_one_setting_is_refuted_in_whatever_order_settings_come() -> None:
    def cubic(n: int, d: int, h: int) -> int:
        return attention(n, d, h) + n**3

    wrong = measured("attention.naive", cubic, heads=(2,), widths=(64, 128, 256), threads=1)
    right = measured("attention.naive", attention, heads=(2,), widths=(64, 128, 256), threads=2)
    for of in (right + wrong, wrong + right):
        cell = rows_of(of)["Self-Attention", "attention.naive"].complexity
        assert (cell.measured, cell.verdict) == ("2n³ + 8n²d + 16nd²", "refuted")


@pytest.mark.parametrize(
    ("work", "measured_as", "verdict"),
    [
        (lambda n, d, h: 4 * n * n * d + 5 * n * n * h, "8n²d + 10hn²", "confirmed"),
        (lambda n, d, h: 4 * n * n * d // h, "8n²d/h", "confirmed"),
        (lambda n, d, h: 4 * n * n * h, "8hn²", "refuted"),
    ],
)
def test_heads_are_named_in_the_work_and_at_most_as_many_as_d(work: Cost, measured_as: str, verdict: str) -> None:
    of = measured("attention.naive", work, heads=(2, 4, 8), widths=(64, 128, 256))
    cell = rows_of(of)["Self-Attention", "attention.naive"].complexity
    assert (cell.measured, cell.verdict) == (measured_as, verdict)


def test_batches_are_named_in_the_work_where_they_vary() -> None:
    of = measured("rnn.elman", lambda n, d, h: 3 * n * d * d, heads=(1,), widths=(64, 128, 256))
    of += [replace(line, batch_size=4, flops=2 * line.flops) for line in of]
    cell = rows_of(of)["Recurrent", "rnn.elman"].complexity
    assert (cell.measured, cell.verdict) == ("3bnd²", "confirmed")


def test_training_and_inference_stand_in_a_table_of_their_own() -> None:
    rows = beyond(usual())
    assert rows.keys() == {"attention.fused", "rnn.elman", None}
    for impl, training, per_token in (("attention.fused", "O(n²·d)", "O(n·d)"), ("rnn.elman", "O(n·d²)", "O(d²)")):
        row = rows[impl]
        assert (row.training.claimed, row.training.reason) == (training, "not measured (mode=train)")
        assert row.per_token.claimed == per_token
    assert set(beyond([])) == {None}


@pytest.mark.parametrize(
    ("impl", "heads", "measured_as"),
    [("attention.fused", (2,), "14n²d + 24nd²"), ("rnn.elman", (1,), "12nd² − 2d²")],
)
def test_training_is_judged_by_the_work_of_both_passes(impl: str, heads: tuple[int, ...], measured_as: str) -> None:
    def work(n: int, d: int, h: int) -> int:
        return 24 * n * d * d + 14 * n * n * d if "attention" in impl else 12 * n * d * d - 2 * d * d

    cell = beyond(measured(impl, work, heads=heads, mode="train"))[impl].training
    assert (cell.measured, cell.verdict) == (measured_as, "confirmed")


def test_a_restricted_layer_is_judged_by_what_it_does_between_positions_its_projections_beside_it() -> None:
    of = measured("attention.window", lambda n, d, h: 8 * n * d * d + 384 * n * d)
    row = rows_of(of)["Self-Attention (restricted)", "attention.window"]
    assert (row.complexity.verdict, row.complexity.claimed) == ("confirmed", "O(r·n·d)")
    assert "the projections add 8nd²" in row.complexity.reason
    assert (row.path.verdict, row.path.reason) == (
        "undetermined",
        "that of a stack of n/r layers: one layer was measured",
    )


def test_a_restricted_layer_that_meets_all_others_is_refuted() -> None:
    row = rows_of(measured("attention.window", attention))["Self-Attention (restricted)", "attention.window"]
    assert row.complexity.verdict == "refuted"


def test_the_projections_of_no_other_kind_are_left_out() -> None:
    of = measured("attention.fused", lambda n, d, h: 8 * n * n * d * d + 4 * n * n * d, widths=(64, 128, 256))
    assert rows_of(of)["Self-Attention", "attention.fused"].complexity.verdict == "refuted"


def test_one_token_at_inference_is_judged_by_its_counted_work_where_it_was_measured() -> None:
    def attention_token(n: int, d: int, h: int) -> int:
        return 8 * d * d + 4 * n * d

    widths = (64, 128, 256)
    decoded = measured("attention.fused", attention_token, mode="decode", widths=widths)
    decoded += measured("rnn.elman", lambda n, d, h: 4 * d * d, mode="decode", heads=(1,), widths=widths)
    rows = beyond([replace(line, batch_size=1, flops=line.flops // 2) for line in decoded])
    assert (rows["attention.fused"].per_token.measured, rows["attention.fused"].per_token.verdict) == (
        "4nd + 8d²",
        "confirmed",
    )
    assert (rows["rnn.elman"].per_token.measured, rows["rnn.elman"].per_token.verdict) == ("4d²", "confirmed")
    assert "not timed" not in rows["attention.fused"].per_token.reason


def test_one_token_more_is_judged_by_the_difference_of_the_work_where_decoding_was_not_measured() -> None:
    rows = beyond(usual())
    cell = rows["attention.fused"].per_token
    assert (cell.measured, cell.verdict) == ("8nd + 8d² − 4d, by difference of the work", "confirmed")
    assert cell.reason.startswith("8nd is the leading term; the projections add 8d², which dominates while n < d; ")
    assert "decoding itself was not timed, and does less" in cell.reason
    cell = rows["rnn.elman"].per_token
    assert (cell.measured, cell.verdict) == ("4d², by difference of the work", "confirmed")
    assert cell.reason == "4d² is its leading term, to the last digit; decoding itself was not timed"


def test_a_token_whose_work_grows_faster_than_claimed_refutes_its_cell() -> None:
    of = measured("rnn.elman", attention, heads=(1,), widths=(64, 128, 256))
    cell = beyond(of)["rnn.elman"].per_token
    assert (cell.claimed, cell.verdict, cell.reason.startswith("16nd grows faster")) == ("O(d²)", "refuted", True)


def test_without_a_forward_pass_or_a_formula_nothing_is_said_of_one_token() -> None:
    trained = beyond(usual("train"))["rnn.elman"].per_token
    assert (trained.verdict, trained.reason) == ("undetermined", "not measured (mode=decode)")
    odd = measured("rnn.elman", lambda n, d, h: 4 * n * d * d + hash((n, d)) % 1000, heads=(1,))
    assert beyond(odd)["rnn.elman"].per_token.verdict == "undetermined"
