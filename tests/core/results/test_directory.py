"""A run's directory is created once and never replaces anything."""

import os
from pathlib import Path

import pytest

from harness.core.model.errors import UsageError
from harness.core.results import run_directory


def test_a_run_is_one_once_it_has_its_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: list[bool] = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        whole.append(run_directory.is_run(tmp_path / "run"))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    run_directory.create(tmp_path / "run", "seed: 0\n", {"host": "here"})
    assert whole == [False, False]
    assert run_directory.is_run(tmp_path / "run")


@pytest.mark.parametrize("left", [[], ["lock.json"], ["rows/"], ["rows/", "machine.json", ".config.yaml.12.part"]])
def test_what_was_killed_before_it_was_one_is_made_anew(tmp_path: Path, left: list[str]) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in left:
        (run / name).mkdir() if name.endswith("/") else (run / name).write_text("{")
    run_directory.check_new(run)
    run_directory.create(run, "seed: 0\n", {})
    assert run_directory.is_run(run)
    (run / "config.yaml").unlink()
    (run / "rows" / "0001-a-1.jsonl").write_text("{}")
    assert run_directory.lacks_config(run)
    with pytest.raises(UsageError, match="is not empty"):
        run_directory.check_new(run)


def test_a_run_that_is_set_aside_keeps_everything_and_replaces_nothing(tmp_path: Path) -> None:
    for number in (1, 2):
        run_directory.create(tmp_path / "run", f"seed: {number}\n", {})
        (tmp_path / "run" / "lock.json").write_text("held")
        assert run_directory.set_aside(tmp_path / "run") == tmp_path / f"run.before-{number}"
        assert [path.name for path in (tmp_path / "run").iterdir()] == ["lock.json"]
    assert (tmp_path / "run.before-1" / "config.yaml").read_text() == "seed: 1\n"
    assert (tmp_path / "run.before-2" / "config.yaml").read_text() == "seed: 2\n"


def test_an_out_that_cannot_be_a_new_run_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    run_directory.create(tmp_path / "run", "", {})
    before = sorted(tmp_path.rglob("*"))
    for out, message in (
        ("run", "is a run"),
        ("file", "is a file"),
        ("file/below", "is a file"),
        ("full", "is not empty"),
    ):
        with pytest.raises(UsageError, match=message):
            run_directory.check_new(tmp_path / out)
    with pytest.raises(UsageError, match=r"(?i)name too long"):
        run_directory.check_new(tmp_path / ("a" * 300))
    run_directory.check_new(tmp_path / "new" / "deep")
    assert sorted(tmp_path.rglob("*")) == before


def test_latest_points_to_the_newest_run_and_never_replaces_a_directory(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        run_directory.link_latest(tmp_path / name)
    assert os.readlink(tmp_path / "latest") == "second"
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()
    run_directory.link_latest(tmp_path / "first")
    assert not (tmp_path / "latest").is_symlink()


def test_a_link_that_may_not_be_replaced_stays_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "latest").symlink_to("other")

    def denied(self: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "replace", denied)
    with pytest.raises(PermissionError):
        run_directory.link_latest(tmp_path / "run")
    assert [(path.name, os.readlink(path)) for path in tmp_path.iterdir()] == [("latest", "other")]


def test_a_run_whose_configuration_has_gone_is_told_what_it_lacks(tmp_path: Path) -> None:
    run_directory.create(tmp_path, "seed: 0\n", {})
    (tmp_path / "rows" / "0001-a-1.jsonl").write_text("{}")
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(
        UsageError, match=r"has rows/ and no config\.yaml, .*: put that back; or `sweep out=.* --fresh`"
    ):
        run_directory.check_run(tmp_path)


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run"):
        run_directory.check_run(tmp_path)
