"""report.html of a run with many layers, in a real browser."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from study.report.found import FORWARD, some_origin
from study.report.many import many_lines, without

from harness.study.analyse import Analysis
from harness.study.laws.crossovers import Crossover
from harness.study.report.html.page import page
from harness.study.report.report_data import Contents
from impls.registry import IMPLS

MANY = list(IMPLS)[:24]
AWAY = MANY[3]
CHARTS = ("chart-time", "chart-memory", "chart-speedup")


@pytest.fixture(scope="module")
def crowded(written: Callable[[str], Path]) -> Path:
    lines = without(many_lines(MANY), AWAY, "unsupported", "not installed")
    pairs = [
        Crossover(slower, faster, FORWARD, "time", 32, 2, 1, 100.0, 90.0, 110.0, 64, 512)
        for i, slower in enumerate(MANY)
        for faster in MANY[:i]
    ]
    return written(
        page(Contents([replace(line, threads=1) for line in lines], Analysis(crossovers=pairs), some_origin()))
    )


def bars(browser, chart: str) -> bool:
    """Whether any curve has bars for its intervals."""
    return browser.run(
        "return document.querySelector(`#${arguments[0]} .plot`).data.some((trace) => trace.error_y)", chart
    )


def kinds(browser, chart: str) -> set[str]:
    return {trace["kind"] for trace in browser.traces(chart)}


def legend(browser) -> int:
    return browser.run("return document.querySelectorAll('.plot .legendtext').length")


def test_many_are_drawn_without_bars_and_without_a_legend_over_the_chart(browser, crowded: Path) -> None:
    browser.look(crowded)
    for chart in CHARTS:
        assert not bars(browser, chart)
    assert legend(browser) == 0
    heights = browser.run(
        "return [...document.querySelectorAll('#charts .plot')].map((plot) => plot._fullLayout?._size?.h)"
    )
    assert min(height for height in heights if height) > 300
    assert browser.complaints() == []


def test_what_cannot_be_measured_here_is_nothing_to_choose(browser, crowded: Path) -> None:
    browser.look(crowded)
    assert browser.run("return document.querySelectorAll('#filters .impls input').length") == len(MANY) - 1
    assert "failed" not in kinds(browser, "chart-time")


def test_of_hundreds_of_crossovers_some_are_drawn_and_the_rest_is_counted(browser, crowded: Path) -> None:
    browser.look(crowded)
    assert len(browser.traces("chart-crossovers")) == 40
    texts = browser.run("return document.querySelector('#chart-crossovers .plot').textContent")
    assert "more: choose fewer layers above, or see crossovers.csv" in texts


@pytest.mark.parametrize("width", [1280, 360])
def test_the_bar_that_chooses_leaves_room_for_the_charts(browser, crowded: Path, width: int) -> None:
    browser.look(crowded, width=width)
    assert browser.run("return document.querySelector('#filters').getBoundingClientRect().height") < 300
    assert browser.content_width(width) <= width


def test_none_and_then_a_few_give_bars_and_legend_back(browser, crowded: Path) -> None:
    browser.open(crowded)
    browser.click("#choose-none")
    assert browser.run("return document.querySelector('#none').checkVisibility()")
    for impl in MANY[:2]:
        browser.click(f"#filters input[value='{impl}']")
    assert browser.impls("chart-time") == set(MANY[:2])
    assert bars(browser, "chart-time")
    assert legend(browser) > 0
    browser.click("#choose-all")
    assert browser.impls("chart-time") == set(MANY) - {AWAY}


def test_few_layers_need_no_buttons_for_all_and_none(browser, usual: Path) -> None:
    browser.open(usual)
    assert browser.run("return document.querySelectorAll('#filters button').length") == 0
    assert legend(browser) > 0
