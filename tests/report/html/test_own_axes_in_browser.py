"""report.html of a run over own axes, in a real browser."""

from collections.abc import Callable
from pathlib import Path

import pytest
from own_layer.paged_lines import lines
from report.found import some_origin

from harness.analysis.analyse import Analysis
from harness.analysis.complete_lines import complete_lines
from harness.report.html.page import page
from harness.report.report_data import Contents


@pytest.fixture(scope="module")
def paged(written: Callable[[str], Path]) -> Path:
    held = complete_lines(lines(pages=(8, 16, 128)), {})
    return written(page(Contents(held, Analysis(), some_origin())))


def choices(browser) -> list[str]:
    """The text of each filter that is shown."""
    return browser.run(
        "return [...document.querySelectorAll('#filters .axis')].filter((one) => one.checkVisibility())"
        ".map((one) => one.innerText.replace(/\\s+/g, ' ').trim())"
    )


def times(browser) -> tuple[list[float], list[float]]:
    (curve,) = [one for one in browser.traces("chart-time") if one["kind"] == "curve"]
    return curve["x"], curve["y"]


def expected(n: int, p: int, w: int) -> float:
    return 1e-6 + 1e-9 * n * w + 2e-8 * n / p


def test_each_own_axis_is_a_filter_of_its_own_in_the_order_of_its_values(browser, paged: Path) -> None:
    browser.open(paged)
    assert choices(browser) == ["page_size p 8 16 128", "window w 64 128 256", "draw over n page_size p window w"]
    browser.click("#filters input[name='layer.window'][value='64']")
    browser.click("#filters input[name='layer.page_size'][value='8']")
    sizes = [256, 512, 1024]
    assert times(browser) == (sizes, pytest.approx([expected(n, 8, 64) for n in sizes]))
    assert "page_size=8, window=64" in browser.run("return document.getElementById('selection').textContent")


def test_costs_are_drawn_over_an_own_axis_at_a_chosen_n(browser, paged: Path) -> None:
    browser.open(paged)
    browser.click("#filters input[name='layer.page_size'][value='8']")
    browser.click("#filters input[name='over'][value='window w']")
    windows = [64, 128, 256]
    assert times(browser) == (windows, pytest.approx([expected(1024, 8, w) for w in windows]))
    assert choices(browser)[:1] == ["page_size p 8 16 128"]
    assert choices(browser)[-1:] == ["sequence length n 256 512 1024"]
    browser.click("#filters input[name='n'][value='256']")
    assert times(browser) == (windows, pytest.approx([expected(256, 8, w) for w in windows]))
    said = browser.run("return document.getElementById('selection').textContent")
    assert said.startswith("n = 256, d = 64, h = 1; forward, page_size=8, float32")
    assert "window w" in browser.run("return document.querySelector('#chart-time .xtitle').textContent")
    assert "∝ w" in browser.run("return document.querySelector('#chart-time').textContent")
    assert "w = 128" in browser.hover("chart-time", 128, expected(256, 8, 128))
    browser.click("#filters input[name='over'][value='n']")
    assert times(browser)[0] == [256, 512, 1024]
    assert browser.complaints() == []
