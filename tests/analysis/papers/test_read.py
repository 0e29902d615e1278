"""What a paper's file holds is read whole, or refused with a line that says where."""

from typing import Any

import pytest
from analysis.papers.settings import paper

from harness.analysis.analyse import paper_of
from harness.errors import UsageError

A, B = "sdpa.naive", "sdpa.flash"
TABLE = {
    **{"title": "T", "quantity": "time_ms", "source": "table 1"},
    **{"along": "seq_len", "columns": [512, 1024], "rows": {A: [1, 2]}},
}
CAUSAL = {"at": {"mask": "causal"}}
CLAIM = {"says": "C", "of": f"{A} / {B}", "quantity": "time_ms", "at_least": 1}


def test_a_run_of_no_paper_has_none() -> None:
    assert paper_of({}) is paper_of({"paper": None}) is None


def test_a_cell_is_a_figure_at_its_column() -> None:
    table = {**TABLE, "at": {"mask": "none"}, "rows": {A: [3.67, "oom"], f"{A} / {B}": [None, 2]}}
    figures = paper(tables=[table]).figures
    assert [(one.of, one.over, one.value, one.ended) for one in figures] == [
        (A, "", 3.67, ""),
        (A, "", None, "oom"),
        (A, B, 2.0, ""),
    ]
    assert dict(figures[1].at) == {"mask": ("none",), "seq_len": (1024,)}
    assert figures[0].source == "table 1"


def test_a_table_is_of_the_papers_hardware_unless_it_says_another() -> None:
    read = paper(hardware="A100 and H100", tables=[TABLE, {**TABLE, "title": "H", "hardware": "H100"}])
    assert {(one.table, one.hardware) for one in read.figures} == {("T", "A100 and H100"), ("H", "H100")}


def test_what_all_of_it_is_at_is_said_once() -> None:
    read = paper(at={"mode": "train"}, tables=[{**TABLE, "at": {"mask": "none"}}], claims=[CLAIM])
    assert dict(read.figures[0].at) == {"mode": ("train",), "mask": ("none",), "seq_len": (512,)}
    assert dict(read.figures[0].differing) == {"mask": ("none",), "seq_len": (512,)}
    assert dict(read.claims[0].at) == {"mode": ("train",)}


def test_a_claim_has_one_kind() -> None:
    claims = paper(
        claims=[
            {**CLAIM, "at": {"seq_len": [1, 2]}},
            {"says": "D", "of": A, "quantity": "work", "exponent": 2, "within": 0.1},
        ]
    ).claims
    assert [(*one.of, one.kind, one.wanted, one.within) for one in claims] == [
        (A, B, "at_least", (1.0,), 0.0),
        (A, "", "exponent", (2.0,), 0.1),
    ]
    assert dict(claims[0].at) == {"seq_len": (1, 2)}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"tables": {}}, "paper test: tables is an object, not a valid list"),
        ({"tables": [3]}, "paper test: tables: 1 is 3, not a valid dictionary"),
        (
            {"tables": [{**TABLE, "quantity": "time"}]},
            "paper test: T: quantity: unknown 'time'; did you mean 'time_ms'?",
        ),
        ({"tables": [{**TABLE, "along": "seqlen"}]}, "paper test: T: along: unknown 'seqlen'; did you mean 'seq_len'?"),
        ({"tables": [{**TABLE, "rows": {A: [1]}}]}, "paper test: T: sdpa.naive has 1 cells for 2 columns"),
        ({"tables": [{**TABLE, "rows": {A: [1, "om"]}}]}, "om: a cell is a number above 0, null, or one of oom,"),
        ({"tables": [{**TABLE, "rows": {A: [1, -1]}}]}, "paper test: T: rows: sdpa.naive: 2: -1: a cell is a number"),
        ({"tables": [{**TABLE, "rows": []}]}, "paper test: T: rows is a list, not a valid dictionary"),
        ({"tables": [{**TABLE, "at": 3}]}, "paper test: T: at is 3, not a valid dictionary"),
        ({"claims": [{**CLAIM, "about": 2}]}, "paper test: C: it takes one of about, at_least, at_most"),
        ({"claims": [{"says": "C"}]}, "paper test: C: of is missing"),
        ({"claims": [{**CLAIM, "at_least": "x"}]}, "paper test: C: at_least: 1 is the text 'x', not a valid number"),
        (
            {"claims": [{"says": "C", "of": CLAIM["of"], "quantity": "work", "overtakes": 3}]},
            "paper test: C: overtakes takes two numbers",
        ),
        ({"claims": [{**CLAIM, "at_least": [1, 2]}]}, "paper test: C: at_least takes one number"),
        (
            {"claims": [{**CLAIM, "against": {"mask": "none"}}]},
            "paper test: C: against: mask: it takes axes of at, with",
        ),
        ({"claims": [{**CLAIM, **CAUSAL, "against": CAUSAL["at"]}]}, "paper test: C: against: mask: it takes axes of"),
        (
            {"claims": [{**CLAIM, **CAUSAL, "against": {"mask": ["none", "padding"]}}]},
            "with one value there and another",
        ),
        (
            {"claims": [{**CLAIM, **CAUSAL, "against": {"msk": "none"}}]},
            "C: against: msk: unknown 'msk'; did you mean 'mask'?",
        ),
        ({"tables": [{**TABLE, "hardware": 3}]}, "paper test: T: hardware is 3, not a valid string"),
        ({"hardware": 3}, "paper test: hardware is 3, not a valid string"),
        ({"hardwear": "x"}, "paper test: unknown 'hardwear'; did you mean 'hardware'?"),
        ({"tables": [{**TABLE, "source": ""}]}, "paper test: T: source: say where its figures are from"),
        ({"tables": [{**TABLE, "colums": []}]}, "paper test: T: unknown 'colums'; did you mean 'columns'?"),
        ({"tables": [{**TABLE, "columns": [512, 512]}]}, "paper test: T: seq_len has a value twice"),
        ({"tables": [{**TABLE, "columns": ["a", "b"]}]}, "paper test: T: seq_len=a: it takes whole numbers"),
        ({"tables": [{**TABLE, "at": {"mask": "nobody"}}]}, "paper test: T: at: unknown mask 'nobody'"),
        ({"tables": [{**TABLE, "rows": {"sdpa.nave": [1, 2]}}]}, "did you mean 'sdpa.naive'?"),
        ({"tables": [{**TABLE, "rows": {"sdpa.naive/sdpa.flash": [1, 2]}}]}, "unknown impl 'sdpa.naive/sdpa.flash'"),
        ({"tables": [{**TABLE, "rows": {f"{A} / ": [1, 2]}}]}, "unknown impl ''"),
        ({"claims": [{**CLAIM, "says": ""}]}, "says: say in words what each claim is"),
        ({"claims": [{**CLAIM, "within": 0.1}]}, "paper test: C: within goes with about and exponent"),
        ({"claims": [{"says": "C", "of": A, "quantity": "work", "exponent": 2}]}, "C: within goes with about and"),
        (
            {"claims": [{"says": "C", "of": A, "quantity": "work", "about": 2, "within": -1}]},
            "C: within is -1, not greater than or equal to 0",
        ),
        (
            {"claims": [{"says": "C", "of": f"{A} / {B}", "quantity": "work", "overtakes": [64, 8]}]},
            "two n, the smaller first",
        ),
    ],
)
def test_what_cannot_be_read_is_told_in_a_line(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        paper(**parts)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_overtakes_another() -> None:
    with pytest.raises(UsageError, match="of takes 'impl / other'"):
        paper(claims=[{"says": "C", "of": A, "quantity": "time_ms", "overtakes": [1, 2]}])
