"""Tests that need a GPU continue after a kill: those that have passed are not run again."""

import os
import subprocess
import sys
from pathlib import Path

from gpu_evidence.parts import NO_TEST_IS_LEFT, ROOT

TESTS = """
import pytest

def test_passes():
    pass

def test_fails():
    assert False

def test_is_skipped():
    pytest.skip("no GPU")
"""


def run(folder: Path) -> tuple[int, str]:
    """The exit status of pytest, and its last line."""
    variables = {"PYTHONPATH": str(ROOT / "tests"), "GPU_EVIDENCE_PASSED": str(folder / "passed.txt")}
    command = [sys.executable, "-m", "pytest", f"--rootdir={folder}", str(folder)]
    for plugin in ("gpu_evidence.passed_tests", "no:cacheprovider", "no:attn_harness"):
        command += ["-p", plugin]
    done = subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines()[-1]


def test_only_tests_that_have_not_passed_are_run_again(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(TESTS)
    assert run(tmp_path)[0] == 1
    assert (tmp_path / "passed.txt").read_text().split() == ["test_it.py::test_passes"]
    status, last = run(tmp_path)
    assert status == 1
    assert "1 failed, 1 skipped, 1 deselected" in last
    file.write_text("def test_passes():\n    pass\n")
    assert run(tmp_path)[0] == NO_TEST_IS_LEFT
