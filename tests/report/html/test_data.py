"""The numbers of the charts."""

from dataclasses import replace

import pytest
from report.found import FORWARD, some_findings, some_lines
from rows import usual_lines

from harness.analysis.analyse import Analysis
from harness.report.html.charts import chart_data
from harness.report.html.tables import bar_widths, order_table


def panel(data: dict, **at: object) -> dict:
    (found,) = [one for one in data["panels"] if at.items() <= one["at"].items()]
    return found


@pytest.fixture(scope="module")
def data() -> dict:
    lines = some_lines()
    return chart_data(lines, some_findings(lines))


def test_there_is_a_panel_for_each_setting_width_and_number_of_heads(data: dict) -> None:
    assert len(data["panels"]) == 8
    values = {axis["name"]: axis["values"] for axis in data["axes"]}
    assert (values["mode"], values["d_model"], values["num_heads"]) == (["forward", "train"], [128, 256], [2, 8])
    assert values["threads"] == [1]


def test_it_opens_with_the_fullest_panel(data: dict) -> None:
    assert data["panels"][data["first"]]["at"].items() >= {"mode": "forward", "d_model": 256, "num_heads": 8}.items()


def test_curves_hold_values_intervals_and_texts_by_n(data: dict) -> None:
    curves = {one["impl"]: one for one in panel(data, mode="forward", d_model=256, num_heads=8)["time"]["curves"]}
    rnn = curves["rnn.torch"]
    assert rnn["n"] == [64, 128, 256, 512, 1024, 2048]
    assert all(lo < value < hi for lo, value, hi in zip(rnn["lo"], rnn["value"], rnn["hi"], strict=True))
    assert rnn["text"][3] == "6.71 ms (6.04 ms to 6.72 ms)"


def test_panels_of_a_setting_share_their_axes(data: dict) -> None:
    ranges = {tuple(one["time"]["y"]["range"]) for one in data["panels"] if one["at"]["mode"] == "forward"}
    assert len(ranges) == 1


def test_a_failed_case_is_where_it_would_have_been(data: dict) -> None:
    (failed,) = panel(data, mode="forward", d_model=256, num_heads=2)["time"]["failed"]
    assert (failed["impl"], failed["n"], failed["text"]) == ("attention.naive", 2048, "oom: out of memory")
    n, d = 2048, 256
    assert failed["value"] == pytest.approx(2 * (8 * n * d * d + 4 * n * n * d) / 1e11, rel=0.2)


def test_one_trial_has_no_interval() -> None:
    lines = [replace(line, time_lo_s=0.0, time_hi_s=None) for line in usual_lines()]
    curve = panel(chart_data(lines, Analysis()), d_model=256, num_heads=8)["time"]["curves"][0]
    assert set(curve["hi"]) == {None}
    assert curve["text"][0].endswith("(one trial)")


def test_a_layer_without_heads_is_under_the_roof_of_every_panel_of_its_width(data: dict) -> None:
    for heads in (2, 8):
        roofline = panel(data, mode="forward", d_model=128, num_heads=heads)["roofline"]
        assert {one["impl"] for one in roofline["curves"]} == {"attention.naive", "attention.fused", "rnn.torch"}
    assert panel(data, mode="train", d_model=128, num_heads=8)["roofline"] is None


def test_crossovers_are_in_the_panel_that_they_were_found_in(data: dict) -> None:
    rows = panel(data, mode="forward", d_model=256, num_heads=8)["crossovers"]["rows"]
    assert [(row["slower"], row["n"]) for row in rows] == [("attention.fused", 768.0), ("attention.naive", None)]
    assert panel(data, mode="forward", d_model=256, num_heads=2)["crossovers"] is None


def test_crossovers_of_two_layers_without_heads_are_in_every_panel_of_their_width() -> None:
    lines = [*usual_lines(), *(replace(line, impl="rnn.elman") for line in usual_lines() if line.family == "rnn")]
    found = some_findings([]).crossovers[0]
    headless = replace(found, slower="rnn.elman", faster="rnn.torch", num_heads=1, setting=FORWARD)
    data = chart_data(lines, Analysis(crossovers=[headless]))
    assert [one["at"]["num_heads"] for one in data["panels"] if one["crossovers"]] == [2, 8]


def test_bars_lie_on_one_scale() -> None:
    first, second, *_ = usual_lines()
    short = replace(first, time_s=1e-3, time_lo_s=1e-3, time_hi_s=1e-2)
    long = replace(second, time_s=0.1, time_lo_s=0.01, time_hi_s=1.0)
    none = replace(first, time_s=None, time_lo_s=None, time_hi_s=None)
    a, b, c = bar_widths([short, long, none])
    assert (a.lo, a.at, b.hi) == (6.0, 6.0, 154.0)
    assert b.lo == pytest.approx(a.hi)
    assert c is None


def test_each_reason_of_table_1_is_one_note() -> None:
    table = order_table(some_findings([]).table1)
    attention, convolution = table.kinds
    assert attention.claimed == ["O(n²·d)", "O(1)", "O(n²·d)"]
    ((impl, cells),) = attention.rows
    assert (impl, [cell.note for cell in cells]) == ("attention.fused", [1, 1, None])
    assert convolution.none == "no layer of this kind measured"
    assert len(table.notes) == 1
    assert table.measured


def test_it_opens_with_the_first_setting_of_the_grid_that_was_measured_most() -> None:
    lines = [replace(line, dtype=dtype) for line in some_lines() for dtype in ("bfloat16", "float32")]
    nothing = some_findings([])
    grid = {"dtype": ["float32", "bfloat16"], "mode": ["forward", "train"]}
    empty = replace(nothing, roofs=[], roof_points=[])

    def opened(of: list) -> tuple[str, str]:
        data = chart_data(of, empty, grid)
        at = data["panels"][data["first"]]["at"]
        return at["mode"], at["dtype"]

    assert opened(lines) == ("forward", "float32")
    assert opened([line for line in lines if line.dtype == "bfloat16" or line.seq_len > 64]) == ("forward", "bfloat16")
