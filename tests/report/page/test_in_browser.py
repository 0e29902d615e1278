"""report.html in a real browser: it draws, filters, tells values, fits, and is let do nothing else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from report.found import EVIL, evil_findings, renamed, some_findings, some_lines, some_origin

from harness.findings.findings import Findings
from harness.report.looks import looks
from harness.report.page.page import page

CHARTS = ("chart-time", "chart-memory", "chart-speedup", "chart-roofline", "chart-crossovers")


@pytest.fixture(scope="module")
def usual(written: Callable[[str], Path]) -> Path:
    lines = some_lines()
    return written(page(lines, some_findings(lines), some_origin()))


@pytest.fixture(scope="module")
def evil(written: Callable[[str], Path]) -> Path:
    lines = renamed(some_lines(), EVIL)
    return written(page(lines, evil_findings(lines), some_origin(host=EVIL)))


def test_every_chart_is_drawn_and_nothing_complains(browser, usual: Path) -> None:
    browser.open(usual)
    drawn = browser.run(
        "return Object.fromEntries(arguments[0].map((id) => [id, document.querySelectorAll(`#${id} .trace`).length]))",
        CHARTS,
    )
    assert all(number > 0 for number in drawn.values()), drawn
    assert browser.complaints() == []


def test_it_asks_for_nothing_but_itself(browser, usual: Path) -> None:
    browser.open(usual)
    asked = [address for address in browser.requests() if not address.startswith(("data:", "blob:"))]
    assert asked == [usual.as_uri()]


def test_it_opens_with_the_panel_of_the_answer(browser, usual: Path) -> None:
    browser.open(usual)
    assert browser.run("return document.getElementById('selection').textContent").startswith("d = 256, h = 8; forward")


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
    assert browser.run("return document.querySelector('#chart-roofline .plot').hidden")
    assert browser.run("return document.querySelector('#chart-crossovers .empty').checkVisibility()")


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
    assert "attention.fused costs more time than" in said


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


def test_colours_and_markers_are_those_of_the_plots(browser, usual: Path) -> None:
    browser.open(usual)
    curves = {one["impl"]: one for one in browser.traces("chart-time") if one["kind"] == "curve"}
    for impl, (colour, _) in looks(curves).items():
        if impl in curves:
            assert curves[impl]["colour"] == colour
    assert {impl: curve["symbol"] for impl, curve in curves.items()} == {
        "rnn.torch": "square",
        "attention.naive": "diamond",
        "attention.fused": "triangle-down",
    }


def luminance(colour: str) -> float:
    red, green, blue = (int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def page_and_tick(browser) -> tuple[float, float]:
    return tuple(
        luminance(colour)
        for colour in browser.run(
            "return [getComputedStyle(document.body).backgroundColor,"
            "getComputedStyle(document.querySelector('#chart-time .xtick text')).fill]"
        )
    )


def test_it_is_dark_or_light_as_the_system_is_until_the_button_says_otherwise(browser, usual: Path) -> None:
    browser.open(usual, dark=True)
    ground, text = page_and_tick(browser)
    assert ground < 60 < text - 60
    browser.click("#theme")
    ground, text = page_and_tick(browser)
    assert ground > 200 > text + 60
    browser.open(usual)
    ground, text = page_and_tick(browser)
    assert ground > 200 > text + 60
    browser.click("#theme")
    assert page_and_tick(browser)[0] < 60


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_never_scrolls_sideways(browser, usual: Path, evil: Path, width: int) -> None:
    for path in (usual, evil):
        browser.open(path, width=width)
        assert browser.run("return document.documentElement.scrollWidth") <= width


OUTSIDE = """
const labels = ".xtick text, .ytick text, .xtitle, .legendtext, .annotation-text, .textpoint text";
const room = 2, found = [];
for (const plot of document.querySelectorAll(".plot")) {
  const box = plot.getBoundingClientRect();
  const holds = (own) => own.left >= box.left - room && own.right <= box.right + room
    && own.top >= box.top - room && own.bottom <= box.bottom + room;
  for (const text of plot.querySelectorAll(labels)) {
    if (!holds(text.getBoundingClientRect())) found.push(`${plot.parentElement.id}: ${text.textContent}`);
  }
}
return found;
"""

OVERLAPPING = """
const kinds = [".xtick text", ".ytick text", ".legendtext", ".annotation-text"], found = [];
const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 1 && b.top < a.bottom - 1;
for (const plot of document.querySelectorAll(".plot")) {
  for (const kind of kinds) {
    const boxes = [...plot.querySelectorAll(kind)].map((text) => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([name, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
      if (meet(a, b)) found.push(`${plot.parentElement.id}: ${name} / ${other}`);
    }));
  }
}
return found;
"""


@pytest.mark.parametrize("width", [360, 1280])
def test_no_label_of_a_chart_is_cut_or_lies_on_another(browser, usual: Path, evil: Path, width: int) -> None:
    for path in (usual, evil):
        browser.open(path, width=width)
        assert browser.run(OUTSIDE) == []
        assert browser.run(OVERLAPPING) == []


def test_on_paper_charts_are_as_wide_as_the_paper(browser, usual: Path) -> None:
    browser.open(usual)
    widths = "return [...document.querySelectorAll('.plot .main-svg')].map((svg) => svg.getBoundingClientRect().width)"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert max(browser.run(widths)) <= 660
    browser.run("dispatchEvent(new Event('afterprint'))")
    (place,) = {round(browser.run("return document.querySelector('#chart-crossovers').clientWidth"))}
    assert max(browser.run(widths)) == pytest.approx(place, abs=2)


def test_an_evil_name_does_nothing_and_is_shown_as_text(browser, evil: Path) -> None:
    browser.open(evil)
    browser.hover("chart-time", 512, 0.01)
    assert browser.complaints() == []
    assert browser.run("return document.images.length") == 0
    assert browser.run("return document.scripts.length") == 3
    chips = browser.run("return [...document.querySelectorAll('#filters .impls label')].map((one) => one.textContent)")
    assert EVIL in chips
    legend = browser.run(
        "return [...document.querySelectorAll('#chart-time .legendtext')].map((one) => one.textContent)"
    )
    assert "".join(EVIL.split()) in ["".join(name.split()) for name in legend]
    assert browser.impls("chart-time") == {EVIL, "attention.fused", "rnn.torch"}


def test_an_evil_name_is_text_in_what_hovering_says(browser, evil: Path) -> None:
    browser.open(evil)
    (curve,) = [one for one in browser.traces("chart-time") if (one["impl"], one["kind"]) == (EVIL, "curve")]
    said = browser.hover("chart-time", curve["x"][2], curve["y"][2])
    assert "<script>alert(1)</script>" in said
    assert "onerror=alert(2)" in said
    assert "%{x}" in said


def test_a_script_that_got_in_would_not_run(browser, usual: Path, written: Callable[[str], Path]) -> None:
    planted = "<script>window.got_in = true</script><img src=x onerror='window.got_in = true'>"
    path = written(usual.read_text(encoding="utf-8").replace("<main>", f"<main>{planted}"))
    browser.open(path)
    assert browser.run("return window.got_in ?? false") is False
    assert browser.complaints() != []


def test_a_page_without_a_single_case_complains_of_nothing(browser, written: Callable[[str], Path]) -> None:
    browser.open(written(page([], Findings(), some_origin())))
    assert browser.complaints() == []


def test_a_run_of_failures_alone_complains_of_nothing(browser, written: Callable[[str], Path]) -> None:
    lines = [replace(line, status="oom", reason="no", time_s=None, peak_bytes=None) for line in some_lines()]
    browser.open(written(page(lines, Findings(), some_origin())))
    assert browser.complaints() == []


def test_many_widths_are_a_list_and_dtypes_a_choice_where_there_are_several(browser, written) -> None:
    lines = [
        replace(line, d_model=d, dtype=dtype)
        for line in some_lines()
        if line.d_model == 128 and line.mode == "forward"
        for d in range(64, 576, 64)
        for dtype in ("float32", "bfloat16")
    ]
    browser.open(written(page(lines, Findings(), some_origin())))
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
    assert not browser.run("return document.querySelector('.figures').checkVisibility()")
    browser.click("#filters input[value='rnn.torch']")
    assert not browser.run("return document.getElementById('none').checkVisibility()")
    assert browser.impls("chart-time") == {"rnn.torch"}
    assert browser.complaints() == []


def test_where_nothing_was_measured_no_chart_is_promised(browser, written: Callable[[str], Path]) -> None:
    nothing = dict.fromkeys(("time_s", "time_lo_s", "time_hi_s", "peak_bytes", "flops", "min_bytes"))
    lines = [replace(line, status="error", reason="boom", **nothing) for line in some_lines()]
    empty = Findings(**{name: [] for name in Findings.__dataclass_fields__})
    browser.open(written(page(lines, empty, some_origin())))
    assert "Nothing was measured" in browser.run("return document.getElementById('charts').innerText")
    assert browser.run("return document.querySelectorAll('figure').length") == 0
    assert browser.complaints() == []
