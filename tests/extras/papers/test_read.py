"""What a paper's file holds is read whole, or refused with a line that says where."""

import pytest
from extras.papers.settings import paper
from syrupy import SnapshotAssertion

from harness.core.model.errors import UsageError
from harness.extras.papers.papers import paper_of

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


WRONG_TABLES = [
    *({"quantity": "time"}, {"along": "seqlen"}, {"rows": {A: [1]}}, {"rows": {A: [1, "om"]}}, {"rows": {A: [1, -1]}}),
    *({"rows": []}, {"at": 3}, {"hardware": 3}, {"source": ""}, {"colums": []}, {"columns": [512, 512]}),
    *({"columns": ["a", "b"]}, {"at": {"mask": "nobody"}}, {"rows": {"sdpa.nave": [1, 2]}}),
    *({"rows": {"sdpa.naive/sdpa.flash": [1, 2]}}, {"rows": {f"{A} / ": [1, 2]}}),
]
WRONG_CLAIMS = [
    *({"about": 2}, {"at_least": "x"}, {"at_least": [1, 2]}, {"says": ""}, {"within": 0.1}),
    *({"against": {"mask": "none"}}, {**CAUSAL, "against": CAUSAL["at"]}, {**CAUSAL, "against": {"msk": "none"}}),
    {**CAUSAL, "against": {"mask": ["none", "padding"]}},
]
BARE_CLAIM = {"says": "C", "of": A, "quantity": "work"}
BARE_CLAIMS = [
    *({"says": "C"}, {**BARE_CLAIM, "exponent": 2}, {**BARE_CLAIM, "about": 2, "within": -1}),
    *({**BARE_CLAIM, "overtakes": [1, 2]}, {**BARE_CLAIM, "of": CLAIM["of"], "overtakes": 3}),
    {**BARE_CLAIM, "of": CLAIM["of"], "overtakes": [64, 8]},
]
WRONG = [
    *((wrong, wrong) for wrong in ({"tables": {}}, {"tables": [3]}, {"hardware": 3}, {"hardwear": "x"})),
    *((wrong, {"tables": [{**TABLE, **wrong}]}) for wrong in WRONG_TABLES),
    *((wrong, {"claims": [{**CLAIM, **wrong}]}) for wrong in WRONG_CLAIMS),
    *((wrong, {"claims": [wrong]}) for wrong in BARE_CLAIMS),
]


def test_what_cannot_be_read_is_told_in_a_line(snapshot: SnapshotAssertion) -> None:
    told = []
    for wrong, parts in WRONG:
        with pytest.raises(UsageError) as caught:
            paper(**parts)
        told.append(f"{wrong}\n  {caught.value}\n")
    assert sum(text.count("\n") for text in told) == 2 * len(WRONG)
    assert "".join(told) == snapshot
