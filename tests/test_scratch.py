"""Temporary directories of trials: made for this process, and removed after any end."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.core.model import file_io


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_processes_left_that_were_killed_is_removed_at_the_next_start_and_nothing_else(there: Path) -> None:
    code = "from harness.core.model import file_io; print(file_io.make_scratch())"
    env = {**os.environ, "TMPDIR": str(there)}
    left = Path(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout.strip())
    (left / "file").touch()
    others = [there / "attn-1-of-another-kind", file_io.make_scratch()]
    others[0].mkdir()
    assert left.parent == there
    made = file_io.make_scratch()
    assert sorted(there.iterdir()) == sorted([*others, made])


def test_a_directory_that_is_nested_too_deeply_ends_nothing(there: Path) -> None:
    scratch = file_io.make_scratch()
    script = "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')"
    subprocess.run([sys.executable, "-c", script], cwd=scratch, check=True)
    try:
        file_io.remove_scratch(scratch)
    finally:
        subprocess.run(["rm", "-rf", str(there)], check=True)  # pytest cannot remove it either
