"""report.md: short, whole, and escaped."""

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from report.found import EVIL, evil_findings, renamed, some_findings, some_lines, some_origin

from harness.analysis.analyse import Analysis
from harness.report.report_data import Contents, report_markdown


@pytest.fixture(scope="module")
def usual() -> str:
    lines = some_lines()
    return report_markdown(Contents(lines, some_findings(lines), some_origin(torch={"version": "2.13.0"})))


def test_the_answer_comes_first_and_the_command_last(usual: str) -> None:
    parts = usual.rstrip().split("\n\n")
    assert parts[0] == "# 2026-11-21\\_13-36-24" or parts[0] == "# 2026-11-21_13-36-24"
    assert "120 cases; torch 2.13.0." in parts[1]
    assert "**Fastest at n = 2048: rnn.torch" in usual
    assert parts[-1] == "Again: `python -m harness sweep impl=rnn.torch`"


def test_it_tells_verdicts_predictions_crossovers_and_failures(usual: str) -> None:
    assert "| attention.naive | forward |  | refuted |" in usual
    assert "- Refuted: attention.naive" in usual
    assert "Prediction check: cost models fitted to" in usual
    assert "attention.fused costs more time than rnn.torch from n = 768 (700 to 900) on" in usual
    assert "| attention.naive | oom | 2 | 2048 | out of memory |" in usual


def test_it_is_short_enough_for_a_pull_request() -> None:
    lines = [replace(line, batch_size=b) for line in some_lines() for b in range(1, 20)]
    lines = [replace(line, reason=f"{line.reason} {line.batch_size}") if line.reason else line for line in lines]
    found = some_findings(some_lines())
    crossing = [replace(found.crossovers[0], batch_size=b) for b in range(1, 60)]
    text = report_markdown(Contents(lines, replace(found, crossovers=crossing), some_origin()))
    assert len(text.splitlines()) < 150
    assert "and 34 more settings: see report.html" in text
    assert "and 7 more kinds of failure: see report.html" in text
    assert "and 47 more of them: see report.html" in text


def test_a_run_that_says_nothing_says_so() -> None:
    assert "Nothing was timed." in report_markdown(Contents([], Analysis(), some_origin()))


def test_nothing_from_outside_is_markup() -> None:
    lines = renamed(some_lines(), EVIL)
    text = report_markdown(
        Contents(lines, evil_findings(lines), replace(some_origin(host=EVIL), name=EVIL, command=EVIL))
    )
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in tables} <= {7, 6, 5}
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
