"""report.html as text: what stands in it, and that nothing from outside is markup."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from study.report.found import EVIL, evil_findings, renamed, some_findings, some_lines, some_origin
from syrupy import SnapshotAssertion

from harness.study.analyse import Analysis
from harness.study.report.html.page import chart_library, embedded_json, inline_script, page, with_superscripts
from harness.study.report.report_data import Contents


class Elements(HTMLParser):
    """The elements of a page, their attributes, and the text of each kind."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.in_order: list[str] = []  # what a reader sees: without styles, scripts and the legends of charts
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "path", "line", "circle"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.text.setdefault(self._open[-1], []).append(data)
            if data.strip() and self._open[-1] not in ("style", "script"):
                self.in_order.append(" ".join(data.split()))

    def all_text(self) -> str:
        return " ".join(" ".join(part.split()) for tag, parts in self.text.items() if tag != "script" for part in parts)


@pytest.fixture(scope="module")
def usual() -> str:
    lines = some_lines()
    machine = {"cpu": {"model": "AMD EPYC"}, "torch": {"version": "2.13.0"}, "project_commit": "9c6581c"}
    return page(Contents(lines, some_findings(lines), some_origin(**machine), ["x.jsonl:3: not a whole row, left out"]))


@pytest.fixture(scope="module")
def evil() -> str:
    lines = renamed(some_lines(), EVIL)
    origin = replace(some_origin(host=EVIL, calibration_note=EVIL), name=EVIL, changed={EVIL: EVIL}, command=EVIL)
    return page(Contents(lines, evil_findings(lines), origin, [EVIL]))


def test_the_overview_stands_first_and_every_section_after_it(usual: str) -> None:
    ids = re.findall(r'<section id="(\w+)"', usual)
    assert ids == ["overview", "charts", "theory", "models", "predictions", "failures", "run"]
    assert "Fastest at n=2048: rnn.torch" in Elements(usual).all_text()


def test_the_first_sentence_is_of_the_setting_that_the_pictures_below_it_show() -> None:
    forward = some_lines()
    few = [replace(line, mode="backward") for line in forward if (line.mode, line.seq_len) == ("forward", 64)]
    html = page(Contents([*few, *forward], Analysis(), some_origin()))
    assert re.findall(r'<p class="lede">(.*?)\.', html)[0] == "Fastest at n=2048: rnn"


def test_it_tells_claims_laws_predictions_failures_and_where_it_comes_from(
    usual: str, snapshot: SnapshotAssertion
) -> None:
    assert "\n".join([*Elements(usual).in_order, ""]) == snapshot


def test_a_run_that_says_nothing_has_a_page_that_says_so() -> None:
    html = page(Contents([], Analysis(), some_origin()))
    assert "Nothing was timed" in html
    assert re.findall(r'<section id="(\w+)"', html) == ["overview", "charts", "run"]


def test_a_run_of_failures_alone_says_why() -> None:
    lines = [replace(line, status="oom", reason="no", time_s=None, peak_bytes=None) for line in some_lines()]
    text = Elements(page(Contents(lines, Analysis(), some_origin()))).all_text()
    assert "Nothing was timed: all 120 cases failed." in text


def test_the_page_needs_nothing_beside_it(usual: str) -> None:
    links = [
        value
        for _, attributes in Elements(usual).found
        for name, value in attributes.items()
        if name in ("src", "href")
    ]
    assert links
    assert all(link and link.startswith("#") for link in links)
    assert "@import" not in usual.partition("</style>")[0]


def test_nothing_from_outside_becomes_an_element(usual: str, evil: str) -> None:
    def kinds(html: str) -> set[str]:
        return {tag for tag, _ in Elements(html).found}

    assert kinds(evil) <= kinds(usual)
    assert "img" not in kinds(evil)
    assert len([tag for tag, _ in Elements(evil).found if tag == "script"]) == 3
    assert not any(name.startswith("on") for _, attributes in Elements(evil).found for name in attributes)


def test_what_came_from_outside_is_shown_as_it_is(evil: str) -> None:
    shown = Elements(evil)
    flat = " ".join(EVIL.split())
    assert "oom" in shown.all_text()
    assert flat in shown.all_text()
    assert "49%" not in shown.all_text()
    assert any(EVIL in text for text in shown.text["pre"])


def test_chart_data_cannot_end_their_script() -> None:
    data = {"impl": "</script><script>alert(1)</script><!--", "line": "\u2028"}
    text = embedded_json(data)
    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == {**data, "line": "\\u2028"}


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        embedded_json({"y": float("inf")})


def test_only_the_scripts_named_by_the_policy_can_run(usual: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', usual)[1].replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", usual, flags=re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert len(scripts) == 2
    assert f"script-src {' '.join(repr(f'sha256-{one}') for one in hashes)};" in policy
    assert policy.startswith("default-src 'none';")


def test_a_library_cannot_end_its_script_and_keeps_its_lines() -> None:
    assert inline_script("a = '</script>';\r\nb\r") == "a = '<\\/script>';\nb\n"


def test_the_library_is_read_and_not_imported() -> None:
    assert "plotly.js" in chart_library()[:200]


def test_powers_are_raised_and_nothing_else_is_markup() -> None:
    assert (
        with_superscripts("n^1.87·d^−0.05 <b> (1.79 to 2.00)")
        == "n<sup>1.87</sup>·d<sup>−0.05</sup> &lt;b&gt; (1.79 to 2.00)"
    )
    assert with_superscripts("O(log_k n)") == "O(log<sub>k</sub> n)"
