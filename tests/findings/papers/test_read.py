"""What a paper's file holds is read whole, or refused with a line that says where."""

from typing import Any

import pytest
from findings.papers.settings import paper

from harness.errors import UsageError
from harness.findings.papers.read import paper_of

TABLE = {"title": "T", "quantity": "time_ms", "along": "seq_len", "columns": [512, 1024], "rows": {"a": [1, 2]}}
CLAIM = {"says": "C", "of": "a / b", "quantity": "time_ms", "at_least": 1}


def test_a_run_of_no_paper_has_none() -> None:
    assert paper_of({}) is paper_of({"paper": None}) is paper_of(None) is None


def test_a_cell_is_a_figure_at_its_column() -> None:
    table = {**TABLE, "at": {"mask": "none"}, "rows": {"a": [3.67, "oom"], "a / b": [None, 2]}, "source": "table 1"}
    figures = paper(tables=[table]).figures
    assert [(one.of, one.over, one.value, one.ended) for one in figures] == [
        ("a", "", 3.67, ""),
        ("a", "", None, "oom"),
        ("a", "b", 2.0, ""),
    ]
    assert dict(figures[1].at) == {"mask": ("none",), "seq_len": (1024,)}
    assert figures[0].source == "table 1"


def test_a_claim_has_one_kind() -> None:
    claims = paper(claims=[{**CLAIM, "at": {"seq_len": [1, 2]}}, {**CLAIM, "of": "a", "within": 0.1}]).claims
    assert [(one.of, one.over, one.kind, one.wanted, one.within) for one in claims] == [
        ("a", "b", "at_least", (1.0,), 0.0),
        ("a", "", "at_least", (1.0,), 0.1),
    ]
    assert dict(claims[0].at) == {"seq_len": (1, 2)}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"tables": {}}, "paper test: tables: it takes a list"),
        ({"tables": [3]}, "paper test: a table is no table"),
        ({"tables": [{**TABLE, "quantity": "time"}]}, "paper test: T: quantity: time; did you mean 'time_ms'?"),
        ({"tables": [{**TABLE, "along": "seqlen"}]}, "paper test: T: along: seqlen; did you mean 'seq_len'?"),
        ({"tables": [{**TABLE, "rows": {"a": [1]}}]}, "paper test: T: a has 1 cells for 2 columns"),
        ({"tables": [{**TABLE, "rows": {"a": [1, "om"]}}]}, "paper test: T: a: om; did you mean 'oom'?"),
        ({"tables": [{**TABLE, "rows": {"a": [1, -1]}}]}, "paper test: T: a: -1"),
        ({"tables": [{**TABLE, "rows": []}]}, "paper test: T: rows is no table of rows"),
        ({"tables": [{**TABLE, "at": 3}]}, "paper test: T: at is no table of axes"),
        ({"claims": [{**CLAIM, "about": 2}]}, "paper test: C: it takes one of about, at_least, at_most"),
        ({"claims": [{"says": "C"}]}, "paper test: C: it takes one of about"),
        ({"claims": [{**CLAIM, "at_least": "x"}]}, "paper test: C: at_least: x is no number"),
        ({"claims": [{"says": "C", "overtakes": 3}]}, "paper test: C: overtakes takes two numbers"),
        ({"claims": [{**CLAIM, "at_least": [1, 2]}]}, "paper test: C: at_least takes one number"),
        ({"hardware": 3}, "paper test: hardware: 3 is no text"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_line(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        paper(**parts)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_overtakes_another() -> None:
    with pytest.raises(UsageError, match="of takes 'impl / other'"):
        paper(claims=[{"says": "C", "of": "a", "quantity": "time_ms", "overtakes": [1, 2]}])
