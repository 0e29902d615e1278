"""The differences between two traced calls, chosen by the tests, and the pairs of a comparison that get them."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

from extras.compare.comparisons import blocks, comparison
from rich.console import Console

from harness.core.run.executor import Executor
from harness.extras.compare.compared_sides import explain_slower
from harness.extras.compare.explanation import Explanation, Total, TracedCall, difference
from harness.extras.compare.report import show_comparison
from harness.study.check.reporters import GateReport
from harness.study.report.document import Table, markdown

VIEW, PRODUCT, SUM = "aten::view", "aten::mm", "aten::add"


def call(name: str, **changed: Total) -> TracedCall:
    operations = {VIEW: Total(4), PRODUCT: Total(2, 2000, 800, {"a.py:1": 2}), SUM: Total(1, 0, 600, {"a.py:2": 1})}
    named = {f"aten::{operation}": total for operation, total in changed.items()}
    tensors = {(PRODUCT, "10×10", "float32"): (1, 400)}
    return TracedCall(name, operations | named, tensors, {PRODUCT: 0.75, SUM: 0.25})


def texts(explanation: Explanation, brief: bool = False) -> str:
    return "\n".join(part for part in explanation.parts(brief) if isinstance(part, str))


def rows(explanation: Explanation, table: int = 0) -> list[list[str]]:
    tables = [part for part in explanation.parts() if isinstance(part, Table)]
    return [[str(cell) for cell in row] for row in tables[table].rows]


def test_an_additional_product_has_its_calls_its_flops_to_the_last_digit_and_its_line() -> None:
    more = call("B", mm=Total(3, 3000, 1200, {"a.py:1": 2, "a.py:7": 1}))
    found = difference("B compared with A", call("A"), more)
    product, total = rows(found)
    assert product == ["mm", "2 → 3", "+1,000", "+400 B", "75 % → 75 %", "a.py:7 and 1 more"]
    assert total == ["all operations", "7 → 8", "+1,000", "+400 B", "", ""]
    assert "2 operations are the same on both sides." in texts(found)
    assert found.as_dict()["operations"][0]["flops"] == [2000, 3000]


def test_the_other_way_round_the_signs_change_and_the_line_is_that_of_the_first() -> None:
    more = call("A", mm=Total(3, 3000, 1200, {"a.py:1": 2, "a.py:7": 1}))
    assert rows(difference("", more, call("B")))[0][1:4] == ["3 → 2", "−1,000", "−400 B"]
    assert rows(difference("", more, call("B")))[0][-1].startswith("a.py:7")


def test_what_matters_comes_first_and_views_come_last() -> None:
    other = call("B", view=Total(400), add=Total(2, 0, 700), mm=Total(5, 5000, 2000))
    assert difference("", call("A"), other).operations == [PRODUCT, SUM, VIEW]


def test_tensors_of_one_side_alone_are_named_with_their_size() -> None:
    a, b = call("A"), call("B")
    scores = ("aten::bmm", "1×512×512", "float32")
    found = difference("", a, TracedCall("B", b.operations, {**b.tensors, scores: (2, 2 * 2**20)}, b.shares))
    assert found.operations == []
    assert rows(found) == [
        ["bmm", "1×512×512", "float32", "0 → 2", "+2.00 MiB"],
        ["all tensors", "", "", "", "+2.00 MiB"],
    ]


def test_equal_calls_say_so_and_point_to_the_shares() -> None:
    found = difference("", call("A"), call("B"))
    assert [*found.operations, *found.tensors] == []
    assert "Nothing exact differs between A and B" in texts(found)
    assert "estimates" in texts(found, brief=True)
    assert rows(found) == [["mm", "75 %", "75 %"], ["add", "25 %", "25 %"]]


def test_flops_without_a_formula_are_unknown_and_not_equal() -> None:
    found = difference("", call("A"), call("B", mm=Total(2, None, 800)))
    assert [row[2] for row in rows(found)] == ["unknown", "unknown"]


def test_a_side_that_could_not_be_observed_has_its_reason_and_no_differences() -> None:
    hidden = TracedCall("B", {}, {}, {PRODUCT: 1.0}, ["operations: its tensors are of a class of their own"])
    found = difference("", call("A"), hidden)
    assert "B: operations: its tensors are of a class of their own." in texts(found)
    assert "same" not in texts(found)
    assert found.operations == ()


def test_a_terminal_shows_a_few_rows_and_markdown_all() -> None:
    other = call("B", **{f"op{number}": Total(1, 0, 8) for number in range(20)})
    found = difference("title", call("A"), other)
    brief = [part for part in found.parts(brief=True) if isinstance(part, Table)]
    assert len(brief[0].rows) == 9
    assert "12 more operations differ" in texts(found, brief=True)
    assert "| op19 |" in markdown(found.section())


def test_slower_pairs_alone_are_explained_and_none_after_a_failed_control(runner: Executor, tmp_path: Path) -> None:
    sides = SimpleNamespace(base=runner, head=runner)
    measured = [blocks(1.0), blocks(1.3, again=1.3), blocks(0.7, again=0.7)]
    (found,) = explain_slower(comparison(measured), sides, tmp_path)
    assert isinstance(found, Explanation)
    assert "n=128" in found.title
    assert [*found.operations, *found.tensors] == []
    assert {path.name for path in tmp_path.iterdir()} == {"trace_2_base.json.gz", "trace_2_head.json.gz"}
    assert not list(explain_slower(comparison(measured, control=blocks(1.3)), sides, tmp_path))


def test_an_explanation_or_why_there_is_none_is_in_every_form_of_the_result() -> None:
    failed = Explanation("Where to look", failure="head could not be traced: oom: out of memory.")
    given = (failed, difference("Where to look", call("A"), call("B")))
    report = GateReport("compare", [], explanations=given)
    assert json.loads(report.as_json())["explanations"][1]["same_operations"] == 3
    assert json.loads(report.as_json())["explanations"][0]["failure"].startswith("head could not be traced")
    screen = StringIO()
    show_comparison("title", replace(comparison([blocks(1.0)]), explanations=given), Console(file=screen, width=150))
    for text in (report.as_markdown(), screen.getvalue()):
        assert "head could not be traced: oom: out of memory." in text
        assert "Nothing exact differs between A and B" in text
