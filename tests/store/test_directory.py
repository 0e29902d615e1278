"""A run's directory is made once and never replaces anything."""

import os
from pathlib import Path

import pytest

from harness import store
from harness.errors import UsageError


def test_of_two_sweeps_that_start_together_one_is_refused(tmp_path: Path) -> None:
    store.create(tmp_path / "run", "", {})
    with pytest.raises(UsageError, match="another sweep has just started there"):
        store.create(tmp_path / "run", "", {})


def test_an_out_that_cannot_be_a_new_run_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for out, message in (("file", "is a file"), ("file/below", "is a file"), ("full", "is not empty")):
        with pytest.raises(UsageError, match=message):
            store.check_new(tmp_path / out)
    with pytest.raises(UsageError, match=r"(?i)name too long"):
        store.check_new(tmp_path / ("a" * 300))
    store.check_new(tmp_path / "new" / "deep")
    assert sorted(tmp_path.rglob("*")) == before


def test_latest_points_to_the_newest_run_and_never_replaces_a_directory(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        store.link_latest(tmp_path / name)
    assert os.readlink(tmp_path / "latest") == "second"
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()
    store.link_latest(tmp_path / "first")
    assert not (tmp_path / "latest").is_symlink()


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run"):
        store.check_run(tmp_path)
