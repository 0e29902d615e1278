"""report.html in a real browser: what came from outside is text, and nothing but the page's own scripts runs."""

from collections.abc import Callable
from pathlib import Path

from report.found import EVIL

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
