"""What a gate found, as other programs read it."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from harness.cli.parsers import parse_options
from harness.core.model.errors import UsageError
from harness.study.check.check_rules import Outcome, Verdict
from harness.study.check.reporters import GateReport, check_outputs

NASTY = "a|b <i>& \x00\x1b[31m \ud800\ufffe [red] `x` \n## heading @somebody"
FOUND = [Outcome(f"rnn.elman n={8 * i}", "flops", verdict, "1", "2", NASTY) for i, verdict in enumerate(Verdict)]


def options(*arguments: str) -> Namespace:
    return parse_options("check", ["baseline.json", *arguments])


def test_markdown_stays_short_enough_for_a_comment_of_very_many() -> None:
    many = [Outcome(f"rnn.elman n={i}", "flops", Verdict.WORSE, "1", "2", "more") for i in range(5000)]
    text = GateReport("check x", many).as_markdown()
    assert len(text) < 60_000
    assert "and 4900 more" in text


def test_json_holds_everything_and_is_valid() -> None:
    held = json.loads(GateReport("check x", FOUND, ["a remark"], {"torch": "2"}).as_json().encode())
    assert held["exit_status"] == 1
    assert [one["verdict"] for one in held["outcomes"]] == [
        "regression",
        "unmeasured",
        "undecided",
        "improved",
        "passed",
    ]
    assert held["outcomes"][0]["reason"] == NASTY
    assert held["remarks"] == ["a remark"]


def test_the_files_asked_for_are_written_and_a_jobs_summary_is_appended_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    files = {flag: tmp_path / f"found.{flag}" for flag in ("markdown", "junit", "json")}
    asked = options(*(word for flag, path in files.items() for word in (f"--{flag}", str(path))))
    check_outputs(asked)
    GateReport("check x", FOUND).publish(asked)
    assert files["markdown"].read_text().startswith("## check x")
    assert files["junit"].read_text().startswith("<?xml")
    assert json.loads(files["json"].read_text())["title"] == "check x"
    assert summary.read_text() == "before\n" + files["markdown"].read_text()


def test_without_a_wish_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    GateReport("check x", FOUND).publish(options())
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named_beforehand(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent" / "x.xml"):
        with pytest.raises(UsageError, match="--junit"):
            check_outputs(options("--junit", str(path)))


def test_a_summary_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "absent" / "x.md"))
    with pytest.raises(UsageError, match="No such file"):
        GateReport("check x", FOUND).publish(options())
