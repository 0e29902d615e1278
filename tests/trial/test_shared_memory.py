"""Shared memory that a trial leaves behind is unlinked, whoever is killed meanwhile."""

import os
from pathlib import Path

import pytest

from harness.trial import sandbox


def test_the_supervisor_unlinks_what_a_fork_server_was_killed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_DIRECTORY", tmp_path)
    name = f"torch_{os.getpid()}_1"
    (tmp_path / name).touch()
    sandbox.note_trial(os.getpid())

    def killed(path: Path) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(SystemExit):
            sandbox.unlink_noted()
    sandbox.unlink_noted()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).touch()
    sandbox.unlink_noted()
    assert [path.name for path in tmp_path.iterdir()] == [name]
