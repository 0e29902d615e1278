"""report.html in a real browser: dark, light, on a phone and on paper, with no label cut or covered."""

from pathlib import Path

import pytest


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


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_never_scrolls_sideways_and_no_label_of_a_chart_is_cut_or_lies_on_another(
    browser, usual: Path, evil: Path, width: int
) -> None:
    for path in (usual, evil):
        browser.open(path, width=width)
        assert browser.content_width(width) <= width
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


def test_names_beside_curves_are_cut_after_a_dot(browser, usual: Path) -> None:
    browser.look(usual)
    assert browser.run("return nameLines('linear.ssd.recurrent')") == ["linear.ssd.", "recurrent"]
    assert browser.run("return nameLines('attention.fused')") == ["attention.fused"]
