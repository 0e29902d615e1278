"""The numbers of the charts."""

from dataclasses import replace

import pytest
from rows import usual_lines
from screens.text_file import printed, terminal
from study.report.found import FORWARD, some_findings, some_lines, some_origin

from harness.study.analyse import Analysis
from harness.study.report.html.chart_data import chart_data
from harness.study.report.html.page import bar_places, page
from harness.study.report.report_data import Contents, report_markdown, show_answer
from harness.study.report.text.claims import order_table


def panel(data: dict, **at: object) -> dict:
    (found,) = [one for one in data["panels"] if at.items() <= one["at"].items()]
    return found


@pytest.fixture(scope="module")
def data() -> dict:
    lines = some_lines()
    return chart_data(Contents(lines, some_findings(lines)))


def test_there_is_a_panel_for_each_setting_width_and_number_of_heads(data: dict) -> None:
    assert len(data["panels"]) == 8
    values = {axis["name"]: axis["values"] for axis in data["axes"]}
    assert (values["mode"], values["d_model"], values["num_heads"]) == (["forward", "train"], [128, 256], [2, 8])
    assert values["threads"] == [1]


def test_it_opens_with_the_fullest_panel(data: dict) -> None:
    assert data["panels"][data["first"]]["at"].items() >= {"mode": "forward", "d_model": 256, "num_heads": 8}.items()


def test_the_screen_report_md_and_the_page_begin_with_the_setting_that_has_the_most_times() -> None:
    lines = usual_lines()
    short = [replace(line, mode="backward") for line in lines if line.seq_len <= 512]
    contents = Contents([*short, *lines], Analysis())
    assert contents.answers[0].title.startswith("forward, ")
    assert [one.fastest.partition(":")[0] for one in contents.answers] == ["Fastest at n=2048", "Fastest at n=512"]
    console = terminal(100)
    show_answer(contents, console)
    screen, data = printed(console), chart_data(contents)
    assert screen.index("n=2048 d=256") < screen.index("n=512 d=256")
    assert report_markdown(contents).index("Fastest at n=2048") < report_markdown(contents).index("Fastest at n=512")
    assert data["panels"][data["first"]]["at"]["mode"] == "forward"
    assert '<p class="lede">Fastest at n=2048' in page(contents)


def test_curves_hold_values_intervals_and_texts_by_n(data: dict) -> None:
    curves = {one.impl: one for one in panel(data, mode="forward", d_model=256, num_heads=8)["time"].curves}
    rnn = curves["rnn.torch"]
    assert rnn.x == [point.n for point in rnn.points] == [64, 128, 256, 512, 1024, 2048]
    assert all(point.lo < point.y < point.hi for point in rnn.points)
    assert rnn.points[3].text == "6.71 ms (6.04 ms to 6.72 ms)"


def test_panels_of_a_setting_share_their_axes(data: dict) -> None:
    ranges = {one["time"].y.range for one in data["panels"] if one["at"]["mode"] == "forward"}
    assert len(ranges) == 1


def test_a_failed_case_is_where_it_would_have_been(data: dict) -> None:
    (failed,) = panel(data, mode="forward", d_model=256, num_heads=2)["time"].failed
    assert (failed.impl, failed.x, failed.text) == ("attention.naive", 2048, "oom: out of memory")
    n, d = 2048, 256
    assert failed.y == pytest.approx(2 * (8 * n * d * d + 4 * n * n * d) / 1e11, rel=0.2)


def test_one_trial_has_no_interval() -> None:
    lines = [replace(line, time_lo_s=0.0, time_hi_s=None) for line in usual_lines()]
    curve = panel(chart_data(Contents(lines, Analysis())), d_model=256, num_heads=8)["time"].curves[0]
    assert {point.hi for point in curve.points} == {None}
    assert curve.points[0].text.endswith("(one trial)")


def test_a_layer_without_heads_is_under_the_roof_of_every_panel_of_its_width(data: dict) -> None:
    for heads in (2, 8):
        roofline = panel(data, mode="forward", d_model=128, num_heads=heads)["roofline"]
        assert {one.impl for one in roofline.curves} == {"attention.naive", "attention.fused", "rnn.torch"}
    assert panel(data, mode="train", d_model=128, num_heads=8)["roofline"] is None


def test_crossovers_are_in_the_panel_that_they_were_found_in(data: dict) -> None:
    rows = panel(data, mode="forward", d_model=256, num_heads=8)["crossovers"]["rows"]
    assert [(row["slower"], row["n"]) for row in rows] == [("attention.fused", 768.0), ("attention.naive", None)]
    assert panel(data, mode="forward", d_model=256, num_heads=2)["crossovers"] is None


def test_crossovers_of_two_layers_without_heads_are_in_every_panel_of_their_width() -> None:
    lines = [*usual_lines(), *(replace(line, impl="rnn.elman") for line in usual_lines() if line.family == "rnn")]
    found = some_findings([]).crossovers[0]
    headless = replace(found, slower="rnn.elman", faster="rnn.torch", num_heads=1, setting=FORWARD)
    data = chart_data(Contents(lines, Analysis(crossovers=[headless])))
    assert [one["at"]["num_heads"] for one in data["panels"] if one["crossovers"]] == [2, 8]


def test_bars_lie_on_one_scale() -> None:
    a, b, none, alone = bar_places([(1e-3, 1e-3, 1e-2), (0.01, 0.1, 1.0), None, (0.0, 0.1, None)])
    assert (a[0], a[1], b[2]) == (6.0, 6.0, 154.0)
    assert b[0] == pytest.approx(a[2])
    assert none is None
    assert alone == (None, b[1], None)
    assert bar_places([None]) == [None]


def test_each_reason_of_table_1_is_one_note() -> None:
    table = order_table(some_findings([]).table1)
    (attention, (fused,)), (_, (convolution,)) = table.groups.items()
    assert [cell.text for cell in attention] == ["Self-Attention", "O(n²·d)", "O(1)", "O(n²·d)"]
    impl, *cells = fused
    assert (impl, [cell.note for cell in cells]) == ("attention.fused", [1, 1, None])
    assert [cell.text for cell in convolution] == ["no layer of this kind measured"]
    assert len(table.notes) == 1


def test_it_opens_with_the_first_setting_of_the_grid_that_was_measured_most() -> None:
    lines = [replace(line, dtype=dtype) for line in some_lines() for dtype in ("bfloat16", "float32")]
    nothing = some_findings([])
    grid = {"dtype": ["float32", "bfloat16"], "mode": ["forward", "train"]}
    empty = replace(nothing, roofs=[], roof_points=[])

    def opened(of: list) -> tuple[str, str]:
        data = chart_data(Contents(of, empty, replace(some_origin(), grid=grid)))
        at = data["panels"][data["first"]]["at"]
        return at["mode"], at["dtype"]

    assert opened(lines) == ("forward", "float32")
    assert opened([line for line in lines if line.dtype == "bfloat16" or line.seq_len > 64]) == ("forward", "bfloat16")
