"""The workflows to copy, and the pages about them: what they ask for exists, and is asked for as they promise."""

import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli.commands import COMMANDS, main
from harness.cli.parsers import parse_options
from harness.core.config import compose
from harness.extras.compare.commands import read_comparison_request
from harness.study.check.check import split_filters
from harness.study.check.reporters import GateReport

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "ci.md"
WORKFLOW = ROOT / "docs" / "ci" / "attention-harness.yml"
HISTORY_PAGE = ROOT / "docs" / "how-to" / "history.md"
HISTORY_WORKFLOW = ROOT / "docs" / "ci" / "attention-harness-history.yml"
HARNESS = ["python", "-m", "harness"]


def read(file: Path) -> dict[Any, Any]:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    return read(WORKFLOW)


@pytest.fixture(scope="module")
def history() -> dict[Any, Any]:
    return read(HISTORY_WORKFLOW)


both = pytest.mark.parametrize("file", [WORKFLOW, HISTORY_WORKFLOW], ids=lambda file: file.stem)


def steps(workflow: dict[Any, Any], action: str) -> list[dict[str, Any]]:
    """What each step that uses the action gives it."""
    every = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [step.get("with", {}) for step in every if step.get("uses", "").partition("@")[0] == action]


def of_workflow(job: str | None = None, file: Path = WORKFLOW) -> list[list[str]]:
    """The harness's commands in the workflow, or in one of its jobs: their words after `python -m harness`."""
    jobs = read(file)["jobs"]
    lines = [
        line
        for name, held in jobs.items()
        if job in (None, name)
        for step in held["steps"]
        for line in step.get("run", "").replace("\\\n", " ").splitlines()
    ]
    return list(commands(lines))


def of_page(page: Path = PAGE) -> list[list[str]]:
    """Those that stand on the page as lines of their own."""
    return list(commands(line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("    ")))


def commands(lines: Any) -> Iterator[list[str]]:
    for line in lines:
        words = shlex.split(line)
        if words[:3] == HARNESS:
            yield words[3:]


def overrides(words: list[str]) -> list[str]:
    """Its `key=value`s, the branch that GitHub would put in filled in."""
    return [word.replace("$BASE", "origin/main") for word in words if re.match(r"\w+=", word)]


def of_history() -> list[list[str]]:
    return of_workflow(file=HISTORY_WORKFLOW) + of_page(HISTORY_PAGE)


@pytest.mark.parametrize("words", of_workflow() + of_page() + of_history(), ids=" ".join)
def test_commands_and_their_flags_exist(words: list[str], capsys: pytest.CaptureFixture) -> None:
    assert words[0] in COMMANDS
    with pytest.raises(SystemExit):
        main([words[0], "--help"])
    said = capsys.readouterr().out
    flags = {word for word in words[1:] if word.startswith("-")}
    assert flags <= set(re.findall(r"(?<=[\s\[])--?[a-z][a-z-]*", said))


@pytest.mark.parametrize("words", of_workflow() + of_page(), ids=" ".join)
def test_what_they_ask_for_can_be_asked_for(words: list[str]) -> None:
    asked = overrides(words)
    if words[0] == "compare":
        assert read_comparison_request(asked, None).ref is not None
    else:
        compose(asked if words[0] == "sweep" else split_filters(asked)[1])


@pytest.mark.parametrize("words", of_history(), ids=" ".join)
def test_actions_and_settings_of_a_history_exist(words: list[str]) -> None:
    options = parse_options("history", words[1:])
    assert options.file.name == "history.jsonl"
    if options.action == "add" and overrides(words):
        compose(overrides(words), usual=("allocator=steady",))


def test_a_history_adds_the_pushed_commit_then_confirms_and_pushes_even_what_is_worse(history: dict) -> None:
    add, page = of_workflow(file=HISTORY_WORKFLOW)
    assert [add[1], page[1]] == ["add", "page"]
    assert add[2] == page[2] == "../benchmarks/history.jsonl"
    assert "threads=1" in add
    assert "--confirm" in page
    assert history[True]["push"] == {"branches": ["main"]}
    steps_by_name = {step.get("name"): step for step in history["jobs"]["history"]["steps"]}
    push = steps_by_name["Push the history"]
    assert push["if"] == steps_by_name["Write the page"]["if"] == "${{ !cancelled() }}"
    assert "git add history.jsonl" in push["run"]
    (upload,) = steps(history, "actions/upload-artifact")
    assert upload["path"] == page[page.index("-o") + 1]


def test_a_history_has_one_job_at_a_time_with_all_commits(history: dict) -> None:
    assert history["concurrency"] == {"group": "${{ github.workflow }}"}
    assert history["permissions"] == {"contents": "write"}
    (checkout,) = steps(history, "actions/checkout")
    assert checkout["fetch-depth"] == 0, "a shallow clone does not have the anchor"


def test_both_gates_are_there_the_exact_one_without_a_clock() -> None:
    assert [words[0] for words in of_workflow("exact")] == ["check"]
    assert "--exact" in of_workflow("exact")[0]
    assert [words[0] for words in of_workflow("time")] == ["compare"]


def test_time_is_compared_on_one_thread_with_the_branch_that_a_pull_request_goes_to(workflow: dict) -> None:
    (words,) = of_workflow("time")
    assert {"ref=$BASE", "threads=1"} <= set(words)
    job = workflow["jobs"]["time"]
    assert "pull_request" in job["if"]
    bases = [step["env"]["BASE"] for step in job["steps"] if "BASE" in step.get("env", {})]
    assert bases == ["origin/${{ github.base_ref }}"]
    assert job["steps"][0]["with"]["fetch-depth"] == 0, "a shallow clone has no commit to compare with"


def test_it_runs_on_every_push_of_main_and_of_a_pull_request(workflow: dict) -> None:
    # YAML takes a bare `on` for true.
    assert workflow[True] == {"push": {"branches": ["main"]}, "pull_request": None}
    assert "if" not in workflow["jobs"]["exact"]


def test_it_may_read_the_code_and_only_the_job_that_runs_none_of_it_may_comment(workflow: dict) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    assert [name for name, job in workflow["jobs"].items() if "permissions" in job] == ["comment"]
    comment = workflow["jobs"]["comment"]
    assert comment["permissions"] == {"pull-requests": "write"}
    assert [step.get("uses", "").partition("@")[0] for step in comment["steps"]] == ["actions/download-artifact", ""]
    assert "head.repo.full_name == github.repository" in comment["if"]
    assert all(given["persist-credentials"] is False for given in steps(workflow, "actions/checkout"))


def test_the_comment_is_what_compare_writes_and_is_found_again_by_its_mark(workflow: dict) -> None:
    (words,) = of_workflow("time")
    download, comment = workflow["jobs"]["comment"]["steps"]
    assert f"body=@{words[words.index('--markdown') + 1]}" in comment["run"]
    assert download["with"]["name"] == workflow["jobs"]["time"]["steps"][-1]["with"]["name"]
    mark = GateReport("compare x", []).as_markdown().splitlines()[-1]
    assert mark in comment["env"]["MINE"]


@both
def test_nothing_that_somebody_named_becomes_part_of_a_script(file: Path) -> None:
    scripts = [step["run"] for job in read(file)["jobs"].values() for step in job["steps"] if "run" in step]
    assert scripts
    assert not any("${{" in script for script in scripts)


@both
def test_torch_is_the_cpu_build_that_the_project_is_tested_with(file: Path) -> None:
    workflow = read(file)
    assert workflow["env"]["TORCH"] in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    every = [step for job in workflow["jobs"].values() for step in job["steps"]]
    installs = [step["run"] for step in every if step.get("name") == "Install"]
    assert len(installs) == len(steps(workflow, "actions/checkout")) > 0
    assert all("https://download.pytorch.org/whl/cpu" in script for script in installs)


@both
def test_pip_s_downloads_are_kept(file: Path) -> None:
    workflow = read(file)
    kept = [given.get("cache") for given in steps(workflow, "actions/setup-python")]
    assert kept == ["pip"] * len(steps(workflow, "actions/checkout"))


@pytest.mark.parametrize("job", ["exact", "time"])
def test_what_a_gate_writes_is_uploaded_however_it_ends(workflow: dict, job: str) -> None:
    (words,) = of_workflow(job)
    written = [words[words.index(flag) + 1] for flag in ("--junit", "--json", "--markdown") if flag in words]
    written += [word.removeprefix("out=") for word in words if word.startswith("out=")]
    upload = workflow["jobs"][job]["steps"][-1]
    kept = [pattern.rstrip("/") for pattern in upload["with"]["path"].split()]
    assert upload["uses"].startswith("actions/upload-artifact@")
    assert upload["if"] == "${{ !cancelled() }}"
    assert all(any(fnmatch(name, pattern) for pattern in kept) for name in written)


@pytest.mark.parametrize(("page", "file"), [(PAGE, WORKFLOW), (HISTORY_PAGE, HISTORY_WORKFLOW)])
def test_the_page_names_the_workflow(page: Path, file: Path) -> None:
    assert f"(../ci/{file.name})" in page.read_text(encoding="utf-8")
