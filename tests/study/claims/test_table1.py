"""Table 1 of *Attention Is All You Need*, measured. How it is shown is in tests/screens."""

from dataclasses import replace

import pytest
from study.laws.measured import CONFIRMED, NOT_MEASURED, REFUTED, UNDETERMINED, Cost, attention, judged, measured
from syrupy import SnapshotAssertion

from harness.core.results.columns import CaseResult
from harness.study.analyse import analyse
from harness.study.claims.claims_table import verdicts
from harness.study.claims.table1 import BeyondRow, Cell, Table1Row, table1
from harness.study.laws.fitted_laws import fit_laws

FULL, RESTRICTED = "Self-Attention", "Self-Attention (restricted)"
FUSED, ELMAN, THEIRS = (FULL, "attention.fused"), ("Recurrent", "rnn.elman"), (FULL, "their:Layer")
WIDTHS = (64, 128, 256)


def recurrent(n: int, d: int, h: int) -> int:
    return 4 * n * d * d


def window(n: int, d: int, h: int) -> int:
    return 8 * n * d * d + 384 * n * d


def usual(mode: str = "forward") -> list[CaseResult]:
    """Fused attention and an Elman network as they are."""
    of_attention = measured("attention.fused", attention, depth=lambda n, d, h: 5, mode=mode)
    of_rnn = measured("rnn.elman", recurrent, depth=lambda n, d, h: 3 * n + 2, heads=(1,), mode=mode)
    return of_attention + of_rnn


def single(of: list[CaseResult]) -> list[CaseResult]:
    """The lines, of one sequence in place of two."""
    return [replace(line, batch_size=1, flops=line.flops // 2, flops_full=line.flops // 2) for line in of]


def own(cost: Cost = attention, family: str = "attention", **changed: object) -> list[CaseResult]:
    """A layer of a user's own, by default with the work of attention."""
    return single(measured("their:Layer", cost, family=family, widths=WIDTHS, **changed))


def rows_of(lines: list[CaseResult]) -> dict[tuple[str, str | None], Table1Row]:
    laws = fit_laws(lines)
    return {(row.kind, row.impl): row for row in table1(lines, laws, verdicts(lines, laws))[0]}


def beyond(lines: list[CaseResult]) -> dict[str | None, BeyondRow]:
    laws = fit_laws(lines)
    return {row.impl: row for row in table1(lines, laws, verdicts(lines, laws))[1]}


def work(at: tuple[str, str | None], lines: list[CaseResult]) -> Cell:
    return rows_of(lines)[at].complexity


def test_a_cell_is_judged_by_the_term_that_the_paper_has(snapshot: SnapshotAssertion) -> None:
    def of_attention(cost: Cost, **options: object) -> Cell:
        return work(FUSED, measured("attention.fused", cost, **options))

    faster = single(measured("rnn.elman", attention, heads=(1,)))
    batches = measured("rnn.elman", lambda n, d, h: 3 * n * d * d, heads=(1,), widths=WIDTHS)
    batches += [replace(line, batch_size=4, flops=2 * line.flops) for line in batches]
    half = [replace(line, dtype="bfloat16", depth=line.seq_len) for line in usual()]
    restricted = rows_of(measured("attention.window", window))[RESTRICTED, "attention.window"]
    unrestricted = rows_of(measured("attention.window", attention))[RESTRICTED, "attention.window"]
    rnn = rows_of(usual())[ELMAN]
    told = judged(
        ("attention, whose projections come on top", CONFIRMED, work(FUSED, usual())),
        ("work of a recurrent layer", CONFIRMED, rnn.complexity),
        ("sequential operations of a recurrent layer", CONFIRMED, rnn.sequential),
        ("path of a recurrent layer", CONFIRMED, rnn.path),
        ("a kind that no layer is of", NOT_MEASURED, work(("Convolutional", None), usual())),
        ("no layer at all", NOT_MEASURED, work((FULL, None), [])),
        ("attention without quadratic work", REFUTED, of_attention(recurrent)),
        ("attention whose projections are quadratic in n", REFUTED, of_attention(lambda n, d, h: 8 * n * n * d * d)),
        ("a recurrent layer with quadratic work", REFUTED, work(ELMAN, faster)),
        ("work of no formula", UNDETERMINED, of_attention(lambda n, d, h: attention(n, d, h) + hash((n, d)) % 1000)),
        ("one n", UNDETERMINED, work(ELMAN, [line for line in usual() if line.seq_len == 64])),
        ("batches that vary", CONFIRMED, work(ELMAN, batches)),
        ("refuted in one setting of two", REFUTED, rows_of(usual() + half)[FUSED].sequential),
        ("a window, whose projections come on top", CONFIRMED, restricted.complexity),
        ("the path of one layer with a window", NOT_MEASURED, restricted.path),
        ("a window over everything", REFUTED, unrestricted.complexity),
    )
    assert told == snapshot


def test_a_users_layer_is_judged_as_its_family_or_by_its_confirmed_claim(snapshot: SnapshotAssertion) -> None:
    claimed = own(depth=lambda n, d, h: 7, claims='{"depth": "n"}')
    loop = own(depth=lambda n, d, h: 3 * n)
    narrow = [line for line in own(claims='{"work": "8nd² + 4n²d"}') if line.d_model == 64]
    of_window = own(window, claims='{"work": "8*n*d^2 + 4·96·n·d"}')
    told = judged(
        ("the work of its family", CONFIRMED, work(THEIRS, own())),
        ("its own claim beside the paper's", CONFIRMED, rows_of(claimed)[THEIRS].sequential),
        ("a loop", REFUTED, rows_of(loop)[THEIRS].sequential),
        ("a claim that gives the formula for one width", CONFIRMED, work(THEIRS, narrow)),
        ("a window by its claim", CONFIRMED, work((RESTRICTED, "their:Layer"), of_window)),
        ("less work than its family", UNDETERMINED, work(THEIRS, own(recurrent))),
        ("more work than its family", REFUTED, work(THEIRS, own(lambda n, d, h: n**3))),
    )
    assert told == snapshot


def test_the_path_of_a_users_layer_is_confirmed_only_if_it_claims_one_for_which_a_trial_then_looks() -> None:
    unclaimed = rows_of(own(depth=lambda n, d, h: 5))[THEIRS].path
    assert (unclaimed.verdict, unclaimed.measured) == (UNDETERMINED, "at most 5")
    assert "claim `path`" in unclaimed.reason
    assert rows_of(own(depth=lambda n, d, h: 5, claims='{"path": "1"}'))[THEIRS].path.verdict == CONFIRMED
    assert rows_of(own(depth=lambda n, d, h: 5, claims='{"path": "n"}'))[THEIRS].path.verdict == CONFIRMED
    long = rows_of(own(depth=lambda n, d, h: 3 * n))[THEIRS].path
    assert long.verdict == UNDETERMINED


def test_a_users_layer_stands_with_its_kind_after_ours() -> None:
    rows = rows_of(own() + usual())
    assert [impl for kind, impl in rows if kind == FULL] == ["attention.fused", "their:Layer"]
    assert "their:Layer" in beyond(own())


def test_a_window_is_restricted_only_by_a_confirmed_claim() -> None:
    assert THEIRS not in rows_of(own(window, claims='{"work": "8*n*d^2 + 4·96·n·d"}'))
    assert (RESTRICTED, "their:Layer") not in rows_of(own(window, claims='{"work": "8nd² + 4nd"}'))


LINEAR = own(lambda n, d, h: 8 * n * d * d + 4 * n * d * d // h, claims='{"work": "8nd² + 4nd²/h"}')
UNCOUNTED = [replace(line, flops=None) for line in own()]


@pytest.mark.parametrize("lines", [own(family="own"), own(mode="train"), UNCOUNTED, LINEAR])
def test_a_layer_of_another_kind_or_mode_or_without_counted_work_is_no_row(lines: list[CaseResult]) -> None:
    assert {impl for _, impl in rows_of(lines)} == {None}


def test_a_run_of_one_kind_has_no_rows_of_the_other_kinds() -> None:
    assert [row.kind for row in analyse(own()).table1] == [FULL]
    assert {row.impl for row in analyse(own()).beyond_table1} == {"their:Layer"}
    assert [row.kind for row in analyse(usual()).table1] == [FULL, "Recurrent", "Convolutional", RESTRICTED]


def test_work_refuted_in_one_setting_is_refuted_in_whatever_order_settings_come() -> None:
    wrong = measured("attention.naive", lambda n, d, h: attention(n, d, h) + n**3, widths=WIDTHS, threads=1)
    right = measured("attention.naive", attention, widths=WIDTHS, threads=2)
    for of in (right + wrong, wrong + right):
        cell = work((FULL, "attention.naive"), of)
        assert (cell.measured, cell.verdict) == ("2n³ + 8n²d + 16nd²", REFUTED)


@pytest.mark.parametrize(
    ("cost", "measured_as", "verdict"),
    [
        (lambda n, d, h: 4 * n * n * d + 5 * n * n * h, "8n²d + 10hn²", CONFIRMED),
        (lambda n, d, h: 4 * n * n * d // h, "8n²d/h", CONFIRMED),
        (lambda n, d, h: 4 * n * n * h, "8hn²", REFUTED),
    ],
)
def test_heads_are_named_in_the_work_and_at_most_as_many_as_d(cost: Cost, measured_as: str, verdict: str) -> None:
    cell = work((FULL, "attention.naive"), measured("attention.naive", cost, heads=(2, 4, 8), widths=WIDTHS))
    assert (cell.measured, cell.verdict) == (measured_as, verdict)


def test_training_and_one_token_stand_in_a_table_of_their_own(snapshot: SnapshotAssertion) -> None:
    def trained(impl: str, cost: Cost, heads: int) -> Cell:
        return beyond(measured(impl, cost, heads=(heads,), mode="train"))[impl].training

    def decoded(impl: str, cost: Cost, heads: int) -> Cell:
        return beyond(single(measured(impl, cost, heads=(heads,), widths=WIDTHS, mode="decode")))[impl].per_token

    faster = beyond(measured("rnn.elman", attention, heads=(1,), widths=WIDTHS))["rnn.elman"]
    odd = measured("rnn.elman", lambda n, d, h: 4 * n * d * d + hash((n, d)) % 1000, heads=(1,))
    rows = beyond(usual())
    assert rows.keys() == {"attention.fused", "rnn.elman", None}
    attention_of_both_passes = trained("attention.fused", lambda n, d, h: 24 * n * d * d + 14 * n * n * d, 2)
    told = judged(
        ("training attention", CONFIRMED, attention_of_both_passes),
        ("training an RNN", CONFIRMED, trained("rnn.elman", lambda n, d, h: 12 * n * d * d - 2 * d * d, 1)),
        ("training that was not measured", NOT_MEASURED, rows["rnn.elman"].training),
        ("a token of attention", CONFIRMED, decoded("attention.fused", lambda n, d, h: 8 * d * d + 4 * n * d, 2)),
        ("a token of an RNN", CONFIRMED, decoded("rnn.elman", lambda n, d, h: 4 * d * d, 1)),
        ("a token of attention, by difference of the work", CONFIRMED, rows["attention.fused"].per_token),
        ("a token of an RNN, by difference of the work", CONFIRMED, rows["rnn.elman"].per_token),
        ("a token whose work grows faster", REFUTED, faster.per_token),
        ("neither a token nor a forward pass", NOT_MEASURED, beyond(usual("train"))["rnn.elman"].per_token),
        ("a forward pass of no formula", UNDETERMINED, beyond(odd)["rnn.elman"].per_token),
    )
    assert told == snapshot
    assert set(beyond([])) == {None}
