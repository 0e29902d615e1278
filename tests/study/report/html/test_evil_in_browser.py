"""report.html in a real browser: what came from outside is text, and nothing but the page's own scripts runs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from study.report.found import EVIL, some_lines, some_origin

from harness.core.results.columns import CaseResult
from harness.study.analyse import analyse
from harness.study.report.html.page import page
from harness.study.report.report_data import Contents

_RUNS = "window.got_in = true"
HOSTILE = {
    "ends a script": f"</script><script>{_RUNS}</script>",
    "opens a comment": f"<!--<script>{_RUNS}",
    "ends a comment": f"--><svg onload='{_RUNS}'>]]>",
    "ends an attribute": f'" onmouseover="{_RUNS}" autofocus onfocus=\'{_RUNS}\' x=`',
    "fills templates": f"{{{{{_RUNS}}}}}${{{_RUNS}}}%{{y}}<%= {_RUNS} %>",
    "breaks lines": f"a\u2028{_RUNS}\u2029b\r\n\tc",
    "turns letters": "pkg\u202eelacs\u2066.\u200fx\u2069:Layer",
    "cannot be printed": "a\x00b\x1b[31m\x7f\ud800\ufffe",
    "is very long": "pkg." + "x" * 5000 + ":Layer",
    "closes the page": f"</style></title></textarea></main></body></html><base href=//evil><script>{_RUNS}</script>",
}

CHARTS = ("chart-time", "chart-memory", "chart-speedup", "chart-roofline", "chart-crossovers")


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


# Each page has three layers, so it takes three of them.
GROUPS = [tuple(HOSTILE)[at : at + 3] for at in range(0, len(HOSTILE), 3)]


@pytest.mark.parametrize("kinds", GROUPS, ids=", ".join)
def test_hostile_names_and_reasons_break_nothing(
    kinds: tuple[str, ...], browser, written: Callable[[str], Path]
) -> None:
    names = dict(zip(("attention.naive", "attention.fused", "rnn.torch"), map(HOSTILE.get, kinds), strict=False))
    lines = [_hostile(line, names[line.impl]) if line.impl in names else line for line in some_lines()]
    host = "".join(names.values())
    machine = {"cpu": {"model": host}, "environment": {host: host}, "project_commit": host}
    browser.open(written(page(Contents(lines, analyse(lines), some_origin(host=host, **machine), [*names.values()]))))
    assert browser.complaints() == []
    assert browser.run("return window.got_in ?? false") is False
    assert browser.run("return document.scripts.length") == 3
    assert browser.run("return document.querySelectorAll('svg[onload], img, base').length") == 0
    assert len(browser.impls("chart-time")) == 3
    browser.width(390)
    assert browser.content_width(390) <= 390


def _hostile(line: CaseResult, name: str) -> CaseResult:
    """The line with this text in the place of every text that may come from outside."""
    texts = dict.fromkeys(("impl", "facts_unknown", "backend_fallback", "backend", "bimodal_cause"), name)
    return replace(line, **texts, bimodal=True, family="own", reason=name if line.reason else None)
