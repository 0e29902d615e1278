"""report.html of a run over own axes, in a real browser."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from own_layer.paged_lines import lines
from study.report.found import some_origin

from harness.study.analyse import Analysis
from harness.study.complete_lines import complete_lines
from harness.study.report.html.page import page
from harness.study.report.report_data import Contents


@pytest.fixture(scope="module")
def paged(written: Callable[[str], Path]) -> Path:
    held = complete_lines(lines(pages=(8, 16, 128)), {})[0]
    return written(page(Contents(held, Analysis(), some_origin())))


@pytest.fixture(scope="module")
def mixed(written: Callable[[str], Path]) -> Path:
    """Of a layer with a window, one with a state, and one with neither."""
    window = lines(pages=(16,))
    sizes = {"window=64": "state=8", "none": "none", "window=256": "state=32"}
    text = json.dumps({"state": ["s", 16]})
    state = [replace(line, impl="state", own_axes=text, options=sizes[line.options]) for line in window]
    neither = [replace(line, impl="neither", own_axes=None) for line in window if line.options == "none"]
    held = complete_lines([*window, *state, *neither], {})[0]
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


def drawn(browser) -> dict[str, tuple[list[float], list[float]]]:
    curves = [one for one in browser.traces("chart-time") if one["kind"] == "curve"]
    return {one["impl"]: (one["x"], pytest.approx(one["y"])) for one in curves}


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


def test_layers_with_different_own_axes_stand_beside_each_other_and_beside_one_without(browser, mixed: Path) -> None:
    browser.open(mixed)
    assert choices(browser) == ["state s 8 16 32", "window w 64 128 256", "draw over n state s window w"]
    browser.click("#filters input[name='layer.window'][value='64']")
    browser.click("#filters input[name='layer.state'][value='32']")
    sizes = [256, 512, 1024]
    of_window = {w: [expected(n, 16, w) for n in sizes] for w in (64, 128, 256)}
    found = drawn(browser)
    assert found == {
        "./paged.py:paged": (sizes, of_window[64]),
        "state": (sizes, of_window[256]),
        "neither": (sizes, of_window[128]),
    }
    said = browser.run("return document.getElementById('selection').textContent")
    assert "state=32" in said
    assert "window=64" in said
    browser.click("#filters input[name='over'][value='state s']")
    over = drawn(browser)
    assert over["state"] == ([8, 16, 32], [of_window[w][-1] for w in (64, 128, 256)])
    assert over["neither"] == ([8, 16, 32], [of_window[128][-1]] * 3)
    assert over["./paged.py:paged"] == ([8, 16, 32], [of_window[64][-1]] * 3)
    assert browser.complaints() == []
