"""report.md: short, whole, and escaped."""

from dataclasses import replace

from markdown_it import MarkdownIt
from study.report.found import EVIL, evil_findings, renamed, some_lines, some_origin

from harness.study.report.report_data import Contents, report_markdown


def test_nothing_from_outside_is_markup() -> None:
    lines = renamed(some_lines(), EVIL)
    text = report_markdown(
        Contents(lines, evil_findings(lines), replace(some_origin(host=EVIL), name=EVIL, command=EVIL))
    )
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in tables} <= {8, 7, 6, 5}
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
