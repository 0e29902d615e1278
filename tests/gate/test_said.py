"""What a gate found, as other programs read it."""

import json
from argparse import Namespace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from harness.cli.parsers import parse_options
from harness.errors import UsageError
from harness.gate.check_rules import Outcome
from harness.gate.reporters import GateReport, check_outputs
from harness.stats.paired_verdicts import Verdict

NASTY = "a|b <i>& \x00\x1b[31m \ud800\ufffe [red] `x` \n## heading @somebody"
FOUND = [Outcome(f"rnn.elman n={8 * i}", "flops", verdict, "1", "2", NASTY) for i, verdict in enumerate(Verdict)]


def options(*arguments: str) -> Namespace:
    return parse_options("check", ["baseline.json", *arguments])


def test_junit_has_a_test_case_an_outcome_and_counts_what_is_wrong() -> None:
    root = ElementTree.fromstring(GateReport(NASTY, FOUND, (), {"torch": NASTY}).as_junit().encode())
    (suite,) = root
    counts = {"tests": "5", "failures": "1", "errors": "1", "skipped": "1"}
    assert counts.items() <= suite.attrib.items()
    assert counts.items() <= root.attrib.items()
    cases = suite.findall("testcase")
    assert [case.attrib["classname"] for case in cases] == ["rnn.elman"] * 5
    assert cases[0].attrib["name"] == "rnn.elman n=0 flops"
    by_verdict = {one.verdict.outcome: [child.tag for child in case] for one, case in zip(FOUND, cases, strict=True)}
    assert by_verdict == {
        "regression": ["failure"],
        "unmeasured": ["error"],
        "undecided": ["skipped"],
        "improved": ["system-out"],
        "passed": ["system-out"],
    }
    failure = cases[0].find("failure")
    assert failure is not None
    assert "\\x1b" in failure.attrib["message"]
    assert suite.find("properties/property").attrib["name"] == "torch"


def test_markdown_has_what_is_wrong_first_and_what_passed_folded() -> None:
    text = GateReport("check x", FOUND, ["a remark"]).as_markdown()
    lines = text.splitlines()
    assert lines[0] == "## check x"
    assert "1 regression" in lines[2]
    assert text.index("| regression |") < text.index("| unmeasured |") < text.index("<details>")
    assert text.index("<details>") < text.index("| passed |") < text.index("</details>")
    assert "- a remark" in lines
    rows = [line for line in lines if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {7}  # no cell breaks the table
    assert "<i>" not in text
    assert not any(line.startswith("## heading") for line in lines)


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


def shown(outcomes: list[Outcome]) -> str:
    console = Console(file=StringIO(), width=120)
    GateReport("check x", outcomes, ["a remark"]).show(console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_on_the_terminal_those_alike_are_one_line() -> None:
    many = [Outcome(f"rnn.elman n={i}", "flops", Verdict.WORSE, "1", "2", f"more at n={i}") for i in range(7)]
    text = shown([*many, *FOUND[1:]])
    assert "more at n=6 (and 6 more)" in text
    assert "7 regressions" in text.splitlines()[-1]
    assert "a remark" in text
    assert "\x1b" not in text.replace("\\x1b", "")


def test_when_all_passed_there_is_no_table() -> None:
    assert shown([FOUND[-1]]).splitlines() == ["a remark", "check x: 1 passed."]


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
