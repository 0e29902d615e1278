"""The tables of every n: the same layers in the same order, each cost of its own n."""

from dataclasses import replace

from rows import usual_lines
from study.report.found import some_lines, some_origin

from harness.study.analyse import Analysis
from harness.study.report.figure_panels import panel_settings
from harness.study.report.html.page import page
from harness.study.report.report_data import Contents, report_markdown
from harness.study.report.text.costs import answers, tables_by_size


def test_each_ratio_is_to_the_fastest_or_to_the_baseline_at_the_same_n() -> None:
    panel = panel_settings(usual_lines())[0].panels[0]
    impls = panel.impls()
    _, ratios = tables_by_size(panel, impls, "forward")[:2]
    assert [row[0] for row in ratios.rows] == impls
    for column in range(1, len(ratios.columns)):
        assert min(float(str(row[column])) for row in ratios.rows) == 1
    _, to_rnn = tables_by_size(panel, impls, "forward", "rnn.torch")[:2]
    (own,) = (row for row in to_rnn.rows if row[0] == "rnn.torch")
    assert set(own[1:]) == {"1.00"}


def test_a_failed_case_is_empty_and_a_cost_that_nobody_knows_has_no_table() -> None:
    panel = panel_settings([line for line in some_lines() if line.mode == "forward"])[0].panels[2]
    titles = [table.title for table in tables_by_size(panel, panel.impls(), "forward")]
    assert titles == ["Time of one call", "Time as a ratio to the fastest at the same n"]
    (naive,) = (row for row in tables_by_size(panel, panel.impls(), "")[0].rows if row[0] == "attention.naive")
    assert naive[-1] == ""
    one_size = replace(panel, lines=tuple(line for line in panel.lines if line.seq_len == 64))
    assert tables_by_size(one_size, panel.impls(), "") == []


def test_both_reports_have_the_tables() -> None:
    contents = Contents(usual_lines(), Analysis(), some_origin())
    assert "Time as a ratio to the fastest at the same n (d=256 h=8" in report_markdown(contents)
    assert "Time as a ratio to the fastest at the same n" in page(contents)


def test_the_table_of_costs_is_sorted_by_the_time_that_it_shows() -> None:
    # The cost model would put the slowest first.
    lines = [
        replace(line, time_in_law_s=1 / line.time_s, time_in_law_lo_s=0, time_in_law_hi_s=9) for line in usual_lines()
    ]
    (answer,) = answers(panel_settings(lines), {}, {})
    last = {line.impl: line.time_s for line in answer.panel.lines if line.seq_len == 2048}
    assert [row[0] for row in answer.table.rows] == sorted(last, key=lambda impl: last[impl] or 0.0)


def test_errors_have_tables_and_a_suspect_time_has_no_ratio() -> None:
    lines = [replace(line, output_error=2e-7, error_ratio=1.25) for line in usual_lines()]
    lines = [replace(line, suspect="too fast") if line.impl == "rnn.torch" else line for line in lines]
    panel = panel_settings(lines)[0].panels[0]
    tables = {table.title: table for table in tables_by_size(panel, panel.impls(), "forward")}
    assert {cell for row in tables["Error, relative to float64 (RMS)"].rows for cell in row[1:]} == {"2.0e-07"}
    assert {cell for row in tables["Error over that of the plain layer"].rows for cell in row[1:]} == {"1.25"}
    ratios = {row[0]: row[1:] for row in tables["Time as a ratio to the fastest at the same n"].rows}
    assert set(ratios.pop("rnn.torch")) == {"suspect"}
    assert "1.00" in {cell for row in ratios.values() for cell in row}
