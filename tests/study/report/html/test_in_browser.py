"""report.html in a real browser: it draws, filters and tells values."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from study.report.found import some_findings, some_lines, some_origin

from harness.core.results.columns import CaseResult
from harness.study.analyse import Analysis
from harness.study.report.chart import looks_of
from harness.study.report.html.page import page
from harness.study.report.report_data import Contents
from harness.study.report.text.costs import time_ratio

CHARTS = ("chart-time", "chart-memory", "chart-speedup", "chart-roofline", "chart-crossovers")


def test_every_chart_is_drawn_and_nothing_complains(browser, usual: Path) -> None:
    browser.look(usual)
    drawn = browser.run(
        "return Object.fromEntries(arguments[0].map((id) => [id, document.querySelectorAll(`#${id} .trace`).length]))",
        CHARTS,
    )
    assert all(number > 0 for number in drawn.values()), drawn
    assert browser.complaints() == []


def test_it_asks_for_nothing_but_itself(browser, usual: Path) -> None:
    browser.look(usual)
    asked = [address for address in browser.requests() if not address.startswith(("data:", "blob:"))]
    assert asked == [usual.as_uri()]


def test_it_opens_with_the_panel_of_the_answer(browser, usual: Path) -> None:
    browser.look(usual)
    assert browser.run("return document.getElementById('selection').textContent").startswith("d = 256, h = 8; forward")


def test_colours_and_markers_are_those_of_the_plots(browser, usual: Path) -> None:
    browser.look(usual)
    curves = {one["impl"]: one for one in browser.traces("chart-time") if one["kind"] == "curve"}
    for impl, look in looks_of(curves).items():
        if impl in curves:
            assert curves[impl]["colour"] == look.colour
    assert {impl: curve["symbol"] for impl, curve in curves.items()} == {
        "rnn.torch": "square",
        "attention.naive": "diamond",
        "attention.fused": "triangle-down",
    }


def test_an_impl_is_hidden_in_every_chart_and_comes_back(browser, usual: Path) -> None:
    browser.open(usual)
    before = {chart: browser.impls(chart) for chart in CHARTS}
    browser.click("#filters input[value='attention.fused']")
    hidden = {chart: browser.impls(chart) for chart in CHARTS}
    assert all("attention.fused" in before[chart] for chart in CHARTS)
    assert hidden == {chart: impls - {"attention.fused"} for chart, impls in before.items()}
    browser.click("#filters input[value='attention.fused']")
    assert {chart: browser.impls(chart) for chart in CHARTS} == before


def time_of(browser, impl: str) -> list[float]:
    (curve,) = [one for one in browser.traces("chart-time") if (one["impl"], one["kind"]) == (impl, "curve")]
    return curve["y"]


def failures(browser) -> list[dict]:
    return [one for one in browser.traces("chart-time") if one["kind"] == "failed"]


def test_width_heads_and_mode_choose_what_is_drawn(browser, usual: Path) -> None:
    browser.open(usual)
    wide = time_of(browser, "rnn.torch")
    browser.click("#filters input[name='d_model'][value='128']")
    assert time_of(browser, "rnn.torch") == pytest.approx([value / 4 for value in wide], rel=1e-3)
    browser.click("#filters input[name='d_model'][value='256']")
    browser.click("#filters input[name='num_heads'][value='2']")
    assert [one["x"] for one in failures(browser)] == [[2048]]
    browser.click("#filters input[name='mode'][value='train']")
    assert time_of(browser, "rnn.torch") == pytest.approx([3 * value for value in wide])
    assert "d = 256, h = 2; train" in browser.run("return document.getElementById('selection').textContent")
    # Nothing of training lies under the roof, or crosses.
    assert not browser.run("return document.querySelector('#chart-roofline').checkVisibility()")
    assert not browser.run("return document.querySelector('#chart-crossovers').checkVisibility()")


def test_the_overview_is_drawn_and_is_not_filtered(browser, usual: Path) -> None:
    browser.open(usual)
    before = {one["impl"] for one in browser.traces("overview-time") if one["kind"] == "curve"}
    assert before == {"attention.naive", "attention.fused", "rnn.torch"}
    browser.click("#filters input[value='attention.fused']")
    assert {one["impl"] for one in browser.traces("overview-time") if one["kind"] == "curve"} == before
    (shade, line) = (one["x"] for one in browser.traces("overview-time") if one["kind"] == "crossing")
    assert (min(shade), max(shade), line) == (700, 900, [768, 768])


def test_predictions_lie_over_what_was_measured(browser, usual: Path) -> None:
    browser.open(usual)
    (point,) = [one for one in browser.traces("prediction-time") if one["kind"] == "curve"]
    assert (point["impl"], point["x"], point["y"]) == ("rnn.torch", [0.0268], [0.026])
    said = browser.hover("prediction-time", 0.0268, 0.026)
    assert "measured 26.8 ms" in said
    assert "interval 20.0 ms to 30.0 ms" in said


def test_only_axes_with_several_values_are_a_choice(browser, usual: Path) -> None:
    browser.look(usual)
    names = browser.run("return [...document.querySelectorAll('#filters .axis')].map((one) => one.textContent)")
    assert [name.rstrip("0123456789") for name in names] == ["modeforwardtrain", "width d", "heads h"]


def test_the_mask_of_padded_batches_is_no_choice_beside_their_lengths(browser, written: Callable[[str], Path]) -> None:
    equal = [line for line in some_lines() if (line.mode, line.d_model, line.num_heads) == ("forward", 256, 8)]
    unequal = [replace(line, lengths="zipf", mask="padding") for line in equal]
    masked = [replace(line, mask="padding") for line in equal]
    names = "return [...document.querySelectorAll('#filters .axis legend')].map((one) => one.textContent)"
    for lines, shown in (([*equal, *unequal], ["lengths"]), ([*equal, *unequal, *masked], ["mask", "lengths"])):
        browser.open(written(page(Contents(lines, Analysis(), some_origin()))))
        assert browser.run(names) == shown


def test_hovering_tells_every_value_with_its_interval(browser, usual: Path) -> None:
    browser.open(usual)
    n, value = 512, 4 * 512 * 256**2 / 2e10
    said = browser.hover("chart-time", n, value)
    assert "n = 512" in said
    assert "rnn.torch" in said
    assert "6.71 ms (6.04 ms to 6.72 ms)" in said
    assert "attention.fused" in said


def test_what_hovering_tells_is_whole_on_a_phone(browser, usual: Path) -> None:
    browser.open(usual, width=360)
    browser.hover("chart-time", 2048, 4 * 2048 * 256**2 / 2e10)
    layer = "document.querySelector('#chart-time .hoverlayer').getBoundingClientRect()"
    left, right = browser.run(f"return [{layer}.left, {layer}.right]")
    assert left >= 0
    assert right <= 360


def test_hovering_tells_memory_speed_up_roofline_and_crossover(browser, usual: Path) -> None:
    browser.open(usual)
    assert "2.00 MiB" in browser.hover("chart-memory", 512, 16 * 512 * 256)
    assert "attention.fused  2.0 ×" in browser.hover("chart-speedup", 512, 2.0)
    point = next(one for one in browser.traces("chart-roofline") if one["impl"] == "rnn.torch")
    assert "50 % of what compute" in browser.hover("chart-roofline", point["x"][-1], point["y"][-1])
    row = next(one for one in browser.traces("chart-crossovers") if one["impl"] == "attention.fused")
    said = browser.hover("chart-crossovers", row["x"][1], row["y"][1])
    assert "attention.fused is slower than" in said


def test_a_failed_case_is_marked_and_says_why(browser, usual: Path) -> None:
    browser.open(usual)
    assert failures(browser) == []
    browser.click("#filters input[name='num_heads'][value='2']")
    (mark,) = failures(browser)
    assert mark["x"] == [2048]
    assert "oom: out of memory" in browser.hover("chart-time", mark["x"][0], mark["y"][0])


def test_the_speed_up_is_over_the_layer_that_is_chosen(browser, usual: Path) -> None:
    browser.open(usual)
    browser.run(
        "const list = document.getElementById('baseline'); list.value = 'attention.fused';"
        "list.dispatchEvent(new Event('change'))"
    )
    (naive,) = [
        one for one in browser.traces("chart-speedup") if (one["impl"], one["kind"]) == ("attention.naive", "curve")
    ]
    assert naive["y"] == pytest.approx([0.5] * 6)


def test_the_speed_ups_of_the_page_are_those_of_the_plots_also_under_unlike_conditions(browser, written) -> None:
    fused, rnn = "attention.fused", "rnn.torch"
    lines = [replace(line, host="n1", probe_s=1.0) for line in some_lines() if line.mode == "forward"]
    lines = [replace(line, probe_s=1.3) if line.impl == fused else line for line in lines]
    by_law = [
        replace(line, time_in_law_s=1.1 * time_s, time_in_law_lo_s=time_s, time_in_law_hi_s=1.2 * time_s)
        if line.impl == fused and line.seq_len == 128 and (time_s := line.time_s)
        else line
        for line in lines
    ]
    suspect = [
        replace(line, suspect="too fast") if line.impl == fused and line.seq_len == 64 else line for line in by_law
    ]
    lines = [replace(line, host="n2") if line.impl == rnn and line.seq_len == 256 else line for line in suspect]
    browser.open(written(page(Contents(lines, Analysis(), some_origin()))))
    drawn = browser.run(
        "return Object.fromEntries(document.querySelector('#chart-speedup .plot').data.filter("
        "({ meta }) => meta.kind === 'curve').map((one) => [one.meta.impl, one.x.map((n, i) => [n, one.y[i], "
        "one.y[i] - one.error_y.arrayminus[i], one.y[i] + one.error_y.array[i], one.customdata[i]])]))"
    )
    at = {(line.impl, line.seq_len): line for line in lines if (line.d_model, line.num_heads) in ((256, 8), (256, 1))}
    assert drawn.keys() == {fused, rnn}
    assert [n for n, *_ in drawn[fused]] == [128, 256, 512, 1024, 2048]
    for impl, points in drawn.items():
        for n, *ratio, text in points:
            expected = time_ratio(at["attention.naive", n], at[impl, n])
            assert expected is not None
            value, lo, hi = expected.ratio
            if (impl, n) == (rnn, 256):
                assert (lo, hi) == (0.0, math.inf)
                assert ratio == pytest.approx([value] * 3)
                assert text.endswith("(timed by unlike hosts)")
            else:
                assert ratio == pytest.approx([value, lo, hi])
                assert lo < value < hi


def test_a_page_without_a_single_case_complains_of_nothing(browser, written: Callable[[str], Path]) -> None:
    browser.open(written(page(Contents([], Analysis(), some_origin()))))
    assert browser.complaints() == []


def test_a_run_of_failures_alone_complains_of_nothing(browser, written: Callable[[str], Path]) -> None:
    lines = [replace(line, status="oom", reason="no", time_s=None, peak_bytes=None) for line in some_lines()]
    browser.open(written(page(Contents(lines, Analysis(), some_origin()))))
    assert browser.complaints() == []


def test_a_bar_wider_than_the_frame_ends_in_an_arrow_head_and_a_caption_says_so(browser, written) -> None:
    def one(line: CaseResult) -> CaseResult:
        known = line.impl == "rnn.torch" and line.seq_len == 512 and line.mode == "forward"
        return replace(line, time_lo_s=1e-12, time_hi_s=1e6) if known else line

    lines = [one(line) for line in some_lines()]
    browser.open(written(page(Contents(lines, some_findings(lines), some_origin()))))
    for chart in ("chart-time", "chart-speedup", "overview-time"):
        (heads,) = [trace for trace in browser.traces(chart) if trace["kind"] == "beyond"]
        assert (heads["impl"], heads["x"]) == ("rnn.torch", [512, 512])
        assert heads["symbol"] == ["arrow-down", "arrow-up"]
        low, high = browser.run(f"return document.querySelector('#{chart} .plot')._fullLayout.yaxis.range")
        assert low < math.log10(heads["y"][0]) < math.log10(heads["y"][1]) < high
    said = "return [...document.querySelectorAll('.beyond')].filter((one) => !one.hidden).map((one) => one.textContent)"
    assert browser.run(said) == ["Arrow heads: beyond the axis. "] * 2
    browser.click("#filters input[value='rnn.torch']")
    assert browser.run(said) == []


def test_curves_on_each_other_take_turns_and_cases_too_wide_are_hollow(browser, written: Callable[[str], Path]) -> None:
    lines = [replace(line, peak_bytes=64 * line.seq_len) for line in some_lines() if line.mode == "forward"]
    wide = [replace(line, time_lo_s=line.time_s / 20) if line.time_s and line.seq_len == 64 else line for line in lines]
    browser.open(written(page(Contents(wide, Analysis(), some_origin()))))
    of_memory = "return document.querySelector('#chart-memory .plot').data.filter((one) => one.meta.kind === 'curve')"
    found = browser.run(f"{of_memory}.map((one) => [one.line.dash, one.marker.opacity])")
    assert [dash for dash, _ in found] == ["0px,0px,8px,16px", "0px,8px,8px,8px", "0px,16px,8px,0px"]
    assert all(sum(shares) == 1 for shares in zip(*(opacity for _, opacity in found), strict=True))
    symbols = {one["impl"]: one["symbol"] for one in browser.traces("chart-time") if one["kind"] == "curve"}
    assert symbols["rnn.torch"] == ["square-open", *["square"] * (len(symbols["rnn.torch"]) - 1)]
    hollow = "return [...document.querySelectorAll('.hollow')].filter((one) => !one.hidden).length"
    assert browser.run(hollow) > 0


GUIDES = """
const plot = document.querySelector(`#${arguments[0]} .plot`), { xaxis, yaxis, _size: room } = plot._fullLayout;
const curves = plot.data.filter((trace) => trace.meta.kind === "curve");
const box = plot.getBoundingClientRect();
return [...plot.querySelectorAll(".annotation-text")].map((text) => {
  const own = text.getBoundingClientRect();
  const inside = ([x, y]) => own.left < x && x < own.right && own.top < y && y < own.bottom;
  const onCurve = curves.some((one) => one.x.slice(1).some((_, i) => [...Array(101).keys()].some((k) => {
    const part = (axis, ends) => axis.d2p(ends[i]) + (k / 100) * (axis.d2p(ends[i + 1]) - axis.d2p(ends[i]));
    return inside([box.x + room.l + part(xaxis, one.x), box.y + room.t + part(yaxis, one.y)]);
  })));
  return [text.textContent, onCurve];
});
"""


@pytest.mark.parametrize("width", [420, 1280])
def test_guides_end_above_the_highest_cost_and_their_labels_lie_on_no_curve(browser, usual: Path, width: int) -> None:
    browser.open(usual, width=width)
    for chart in ("chart-time", "chart-memory"):
        ends = [(one["x"][-1], one["y"][-1]) for one in browser.traces(chart) if one["kind"] == "guide"]
        measured = [(one["x"][-1], one["y"][-1]) for one in browser.traces(chart) if one["kind"] == "curve"]
        (last, highest), ((n, value), other) = max(measured), ends
        assert (n, value) == other
        assert n == last
        assert highest < value < 1.5 * highest
        assert browser.run(GUIDES, chart) == [["∝ n", False], ["∝ n²", False]]


def test_of_crossovers_only_the_sure_ones_are_drawn_and_the_others_are_named(browser, usual: Path) -> None:
    browser.look(usual)
    assert [one["x"][1] for one in browser.traces("chart-crossovers")] == [768]
    said = browser.run("return document.getElementById('undecided').textContent")
    assert said == "Undecided, since noise alone could make a crossing: attention.naive and rnn.torch."


def test_the_first_screen_has_quality_charts_and_the_whole_table_and_on_a_phone_the_table_first(
    browser, usual: Path
) -> None:
    places = "return ['.quality', '#overview .plot', '#overview tbody tr:last-child', '#overview tbody tr'].map("
    places += "(one) => document.querySelector(one).getBoundingClientRect().bottom)"
    browser.open(usual, width=1400)
    quality, charts, table, _ = browser.run(places)
    assert quality < charts < table < 900
    browser.open(usual, width=420)
    quality, charts, table, first_row = browser.run(places)
    assert quality < first_row < 900
    assert table < charts


def test_many_widths_are_a_list_and_dtypes_a_choice_where_there_are_several(browser, written) -> None:
    lines = [
        replace(line, d_model=d, dtype=dtype)
        for line in some_lines()
        if line.d_model == 128 and line.mode == "forward"
        for d in range(64, 576, 64)
        for dtype in ("float32", "bfloat16")
    ]
    browser.open(written(page(Contents(lines, Analysis(), some_origin()))))
    browser.run(
        "const list = document.querySelector('#filters select[name=d_model]'); list.selectedIndex = 2;"
        "list.dispatchEvent(new Event('change'))"
    )
    browser.click("#filters input[name='dtype'][value='bfloat16']")
    said = browser.run("return document.getElementById('selection').textContent")
    assert said.startswith("d = 192, h = ")
    assert "bfloat16" in said


def test_with_every_layer_hidden_it_says_so_instead_of_bare_axes(browser, usual: Path) -> None:
    browser.open(usual)
    browser.run("document.querySelectorAll('#filters input[type=checkbox]').forEach((box) => box.click())")
    assert browser.run("return document.getElementById('none').checkVisibility()")
    assert not browser.run("return document.querySelector('#charts .figures').checkVisibility()")
    browser.click("#filters input[value='rnn.torch']")
    assert not browser.run("return document.getElementById('none').checkVisibility()")
    assert browser.impls("chart-time") == {"rnn.torch"}
    assert browser.complaints() == []


def test_where_nothing_was_measured_no_chart_is_promised(browser, written: Callable[[str], Path]) -> None:
    nothing = dict.fromkeys(("time_s", "time_lo_s", "time_hi_s", "peak_bytes", "flops", "min_bytes"))
    lines = [replace(line, status="error", reason="boom", **nothing) for line in some_lines()]
    empty = Analysis()
    browser.open(written(page(Contents(lines, empty, some_origin()))))
    assert "Nothing was measured" in browser.run("return document.getElementById('charts').innerText")
    assert browser.run("return document.querySelectorAll('figure').length") == 0
    assert browser.complaints() == []
