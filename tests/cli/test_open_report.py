"""`--open` shows report.html in a browser, or says where it is."""

import webbrowser
from pathlib import Path

import pytest
from attention_run import make_run
from cli.pretended import pretending

from harness.cli.commands import main
from harness.cli.stored_runs import open_report


class Browser:
    """A browser that records what it is to open. It can start or not."""

    def __init__(self, starts: bool) -> None:
        self.starts = starts
        self.opened: list[str] = []

    def open(self, address: str) -> bool:
        self.opened.append(address)
        return self.starts


def test_a_report_is_opened_where_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    browser = Browser(starts=True)
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    out = tmp_path / "a place"
    assert main(["report", str(make_run(tmp_path / "run")), "-o", str(out), "--no-plots", "--open"]) == 0
    assert browser.opened == [(out / "report.html").as_uri()]
    assert (out / "report.html").is_file()
    assert capsys.readouterr().err == ""


def test_a_browser_that_does_not_start_leaves_the_path(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(webbrowser, "get", lambda: Browser(starts=False))
    open_report(Path("run"))
    path = Path("run/report.html").absolute()
    assert capsys.readouterr().err == f"harness: no browser could be started here: open {path} yourself\n"


def test_no_browser_at_all_leaves_the_path_too(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def none() -> Browser:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    open_report(Path("/elsewhere"))
    assert "open /elsewhere/report.html yourself" in capsys.readouterr().err


def test_a_sweep_opens_the_report_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(starts=True)
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    with pretending():
        assert main(["sweep", "impl=rnn.torch", "seq_len=8", f"out={tmp_path}/run", "--open"]) == 0
        assert main(["sweep", "impl=rnn.torch", "seq_len=8", f"out={tmp_path}/other"]) == 0
    assert browser.opened == [(tmp_path / "run" / "report.html").as_uri()]
