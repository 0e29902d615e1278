"""Temporary directories of trials: made for this process, and removed after any end."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness import file_io


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_processes_left_that_were_killed_is_removed_at_the_next_start_and_nothing_else(there: Path) -> None:
    code = "from harness import file_io; print(file_io.make_scratch())"
    env = {**os.environ, "TMPDIR": str(there)}
    left = Path(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout.strip())
    (left / "file").touch()
    others = [there / "attn-1-of-another-kind", file_io.make_scratch()]
    others[0].mkdir()
    assert left.parent == there
    made = file_io.make_scratch()
    assert sorted(there.iterdir()) == sorted([*others, made])


def test_directories_without_permissions_are_removed_and_links_are_not_followed(there: Path) -> None:
    made, kept = file_io.make_scratch(), there / "kept"
    kept.mkdir()
    kept.chmod(0o755)
    (kept / "file").touch()
    (made / "link").symlink_to(kept)
    closed = made / "closed" / "inner"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    for directory in (closed, closed.parent):
        directory.chmod(0)
    file_io.remove_scratch(made)
    assert list(there.iterdir()) == [kept]
    assert os.listdir(kept) == ["file"]
    assert kept.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["a dead process", "a trial"])
def test_a_link_in_place_of_a_directory_is_removed_and_not_followed(there: Path, name: str) -> None:
    made, kept = file_io.make_scratch(), there / "kept"
    closed = kept / "inner"
    closed.mkdir(parents=True)
    closed.chmod(0o755)
    made.rmdir()
    prefix = made.name.partition("-")[0] + "-" + made.name.split("-")[1]
    link = made if name == "a trial" else there / f"{prefix}-{2**22 + 1}-x"  # no process has this number
    link.symlink_to(kept)
    if name == "a trial":
        file_io.remove_scratch(link)
    else:
        file_io.make_scratch()
    assert not link.is_symlink()
    assert closed.stat().st_mode & 0o777 == 0o755
