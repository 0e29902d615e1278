"""The file of `history`: what is read back, and what each damage is called."""

import json
from pathlib import Path
from typing import Any

import pytest
from extras.commits.histories import CASE, blessing, commit, directly, name, ratio

from harness.cli.commands import main
from harness.core.model.errors import UsageError
from harness.extras.commits.history import _ratio
from harness.extras.commits.history_file import Header, open_history, read_history

HEADER = Header.model_validate({"schema": 1, "harness": "0.1", "anchor": name(0), "settings": ["impl=mine:Layer"]})


# A line about a commit with the key of no case.
UNREADABLE_KEY = json.dumps({**commit(2).model_dump(by_alias=True), "cases": {"impl=mine:Layer": {}}})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    with open_history(path, HEADER) as writer:
        writer.append(commit(1, time=ratio(0.02)))
        writer.append(commit(0))
        writer.append(blessing(1))
    return path


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as error:
        read_history(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_lines_are_read_back_in_the_order_of_the_commits(file: Path) -> None:
    found = read_history(file)
    assert found.header == HEADER
    assert found.commits == [commit(0), commit(1, time=ratio(0.02))]
    assert found.blessed == {name(1): "exact <softmax>"}
    assert len(file.read_text().splitlines()) == 4


def test_appending_changes_no_line(file: Path) -> None:
    before = file.read_text()
    with open_history(file, HEADER) as writer:
        writer.append(commit(2))
    assert file.read_text().startswith(before)


def test_a_new_file_without_a_commit_does_not_stay(tmp_path: Path) -> None:
    with open_history(tmp_path / "new.jsonl", HEADER):
        pass
    assert not (tmp_path / "new.jsonl").exists()


@pytest.mark.parametrize("bytes_lost", [1, 2, 30])
def test_a_line_that_was_cut_off_is_left_out_and_then_removed(file: Path, bytes_lost: int) -> None:
    with open_history(file) as writer:
        writer.append(commit(2))
    file.write_bytes(file.read_bytes()[:-bytes_lost])
    whole = bytes_lost == 1  # the line only lacks its end
    assert len(read_history(file).commits) == 2 + whole
    assert len(read_history(file).notices) == 1 - whole
    with open_history(file) as writer:
        writer.append(commit(3))
    assert [one.number for one in read_history(file).commits] == [0, 1, *([2] if whole else []), 3]
    assert read_history(file).notices == []


def test_a_last_line_that_nests_too_deep_is_an_unfinished_one(file: Path) -> None:
    with file.open("a") as opened:
        opened.write('{"commit": ' + "[" * 100_000 + "}")
    assert "unfinished last line" in read_history(file).notices[0]


def test_a_time_has_the_key_at_in_the_file(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line.get("at") for line in lines] == [None, 1.0, 1.0, 1.0]


def test_another_process_cannot_write_at_the_same_time(file: Path) -> None:
    with open_history(file), pytest.raises(UsageError, match="another process writes to it"), open_history(file):
        pass


def test_a_commit_with_several_lines_counts_once(file: Path) -> None:
    with open_history(file) as writer:
        writer.append(commit(1, subject="again"))
    found = read_history(file)
    assert [one.subject for one in found.commits] == ["commit 0", "commit 1"]
    assert "has several lines" in found.notices[0]


def test_a_commit_is_found_by_the_beginning_of_its_hash(file: Path) -> None:
    found = read_history(file)
    assert found.find(name(1)) == found.commits[1]
    assert found.find("f" * 10) is None
    with pytest.raises(UsageError, match="the beginning of 2 commits"):
        found.find("0000000")


def test_a_missing_file_says_what_makes_it(tmp_path: Path) -> None:
    assert "'python -m harness history add" in refused(tmp_path / "absent.jsonl")
    with pytest.raises(UsageError, match="history add"), open_history(tmp_path / "absent.jsonl"):
        pass


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("hello\n", "is not a history: line 1 is not a JSON object"),
        ('{"cases": {}}\n', "is not a history: its first line is another one"),
        ('{"schema": 2, "anchor": "a", "settings": []}\n', "its schema is 2, this harness reads 1"),
        ('{"schema": "1", "anchor": "a", "settings": []}\n', "its schema is '1', this harness reads 1"),
        ('{"anchor": "a", "settings": []}\n', "is not a history: its first line is another one"),
        ('{"schema": true, "anchor": "a", "settings": []}\n', "line 1 cannot be read"),
        ('{"schema": 1, "anchor": "a", "settings": []}\n', "line 1 cannot be read"),
    ],
)
def test_another_file_is_called_what_it_is(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "other").write_text(text)
    assert says in refused(tmp_path / "other")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("<<<<<<< ours", "line 2 is a conflict of git"),
        ("12", "is damaged: line 2 is not a JSON object"),
        ('{"other": 1}', "line 2 is of no kind"),
        pytest.param('{"commit": ' + "[" * 100_000, "line 2 is not a JSON object", id="nests too deep"),
        (UNREADABLE_KEY, "line 2 cannot be read: cases"),
        ('{"blessed": "x", "reason": "", "at": 1}', "line 2 cannot be read: blessed"),
    ],
)
def test_a_damaged_line_is_named(file: Path, line: str, says: str) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], line, *lines[1:]]) + "\n")
    assert says in refused(file)


def test_each_line_holds_what_it_is_about(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[1]["commit"] == name(1)
    assert set(lines[1]["cases"][CASE]["time"]) == {"log_ratio", "lo", "hi", "generations"}
    assert "time" not in lines[2]["cases"][CASE]


COMMIT = {"commit": "b" * 40, "number": 1, "date": "2026", "subject": "s", "at": 1.0, "machine": {}, "versions": {}}


@pytest.mark.parametrize(
    ("facts", "number"), [({"flops": "many"}, 1), ({"flops": 10**400}, 1), ({"flops": 1}, 10**400)]
)
def test_a_fact_of_a_history_that_is_no_count_is_a_usage_error(
    facts: dict[str, Any], number: int, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "history.jsonl"

    def write(facts: dict[str, Any], number: int) -> None:
        line = {**COMMIT, "number": number, "cases": {CASE: {"facts": facts}}}
        path.write_text(f"{HEADER.model_dump_json(by_alias=True)}\n{json.dumps(line)}\n")

    write({"flops": 1}, 1)
    assert read_history(path).commits
    write(facts, number)
    with pytest.raises(UsageError, match="line 2 cannot be read"):
        read_history(path)
    assert main(["history", "page", str(path)]) == 2
    assert "line 2 cannot be read" in capsys.readouterr().err


def compared(log_ratio: float | None, lo: float | None, hi: float | None, *generations: float) -> dict[str, Any]:
    """A line of a direct comparison whose ratio states these numbers."""
    time = {"log_ratio": log_ratio, "lo": lo, "hi": hi, "generations": list(generations)}
    return {**directly(0, 1, 0.0).model_dump(by_alias=True), "time": time}


def added(facts: dict[str, Any], time: dict[str, Any] | None = None) -> dict[str, Any]:
    """A line of a commit whose case has these facts and this ratio."""
    return {**COMMIT, "cases": {CASE: {"facts": facts, "time": time}}}


NOT_ITS_RATIO = "time: the ratio and its interval do not follow from the generations"
IMPOSSIBLE = [
    pytest.param(compared(0.5, 0.001, 0.002, *[0.0015] * 12), NOT_ITS_RATIO, id="outside its interval"),
    pytest.param(compared(0.05, 0.06, 0.04, *[0.05] * 12), NOT_ITS_RATIO, id="interval upside down"),
    pytest.param(compared(0.05, 0.0499, 0.0501, 0.0, 0.1), NOT_ITS_RATIO, id="interval narrower than the spread"),
    pytest.param(compared(0.05, 0.04, 0.06), NOT_ITS_RATIO, id="no generations"),
    pytest.param(compared(0.05, 0.04, 0.06, 0.05), NOT_ITS_RATIO, id="one generation"),
    pytest.param(compared(0.05, None, None, 0.05, 0.05), NOT_ITS_RATIO, id="no interval"),
    pytest.param(compared(None, None, None, 0.05, 0.05), NOT_ITS_RATIO, id="no ratio"),
    pytest.param(added({}, compared(0.2, 0.2, 0.2, 0.0, 0.0)["time"]), NOT_ITS_RATIO, id="commit"),
    pytest.param(added({}, compared(800, 800, 800, 800, 800)["time"]), "log_ratio is 800", id="overflow"),
    pytest.param(compared(-50.5, -50.5, -50.5, -50.5, -50.5), "log_ratio is -50.5", id="underflow"),
    pytest.param(compared(0.0, 0.0, 0.0, -800.0, 800.0), "generations: 1 is -800.0", id="generation"),
    pytest.param(added({"flops": -5}), "flops is -5, not greater", id="flops"),
    pytest.param(added({"depth": -5}), "depth is -5, not greater", id="depth"),
    pytest.param(added({"peak_bytes": -100}), "peak_bytes is -100, not greater", id="peak memory"),
    pytest.param(added({"ops": 2**63}), "ops is 9223372036854775808, not less", id="operations"),
    pytest.param({**COMMIT, "number": -1}, "number is -1, not greater", id="number"),
]


@pytest.mark.parametrize(("line", "says"), IMPOSSIBLE)
def test_a_line_that_cannot_be_true_is_refused(file: Path, line: dict[str, Any], says: str) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], json.dumps(line), *lines[1:]]) + "\n")
    message = refused(file)
    assert message.startswith(f"{file}: line 2 cannot be read: ")
    assert says in message


@pytest.mark.parametrize(
    "means",
    [[0.1, 0.1], [0.0, 0.0, 0.0, 0.0], [-0.000001, 0.000002, 0.000002], [-50.0, 50.0], [50.0, 50.0], [1 / 3, 2 / 3, 5]],
)
def test_what_is_written_is_read_and_drawn(means: list[float], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "history.jsonl"
    written = _ratio([round(mean, 6) for mean in means], [])
    against = [_ratio([-mean for mean in means], []), _ratio([], ["timeout"]), written, written]
    with open_history(path, HEADER) as writer:
        for number, time in enumerate(against):
            writer.append(commit(number, time=time))
        writer.append(directly(0, 2, 0.0).model_copy(update={"time": written}))
    found = read_history(path)
    assert [line.cases[CASE].time for line in found.commits] == against
    assert list(found.direct.values()) == [written]
    assert main(["history", "page", str(path)]) in (0, 1)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("published", ["facts", "times"])
def test_the_published_histories_have_no_notice(published: str) -> None:
    path = Path(__file__).parents[3] / f"results/published/history/{published}.jsonl"
    found = read_history(path)
    assert found.notices == []
    assert len(found.commits) == len(path.read_text().splitlines()) - 1
