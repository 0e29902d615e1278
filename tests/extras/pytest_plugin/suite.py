"""A stranger's test-suite in a directory of its own, run by pytest in a process of its own."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import psutil


def environment(mark: str) -> dict[str, str]:
    """That of a stranger's shell; all processes of the run carry the mark in it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHONPATH"))}
    return clean | {"COLUMNS": "240", "MARK": mark}


def command(directory: Path, *arguments: str) -> list[str]:
    """`python -m pytest` there, with nothing of this project's configuration; every warning is an error."""
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *arguments]


def pytest_in(directory: Path, *arguments: str) -> str:
    """What pytest says there; no process of its run may be left at its end."""
    mark = uuid.uuid4().hex
    done = subprocess.run(
        command(directory, *arguments),
        cwd=directory,
        env=environment(mark),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert processes(mark) == []
    return done.stdout


def processes(mark: str) -> list[psutil.Process]:
    """Those that carry the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def outcomes(said: str) -> dict[str, str]:
    """What became of each test, by the name of its function, as the short summary says (`passed`, `failed`, `error`).

    Of skipped tests that names places, and no functions.
    """
    found = {}
    for line in said.rpartition("short test summary info")[2].splitlines():
        word, _, rest = line.partition(" ")
        if word in ("PASSED", "FAILED", "ERROR"):
            found[rest.split(" - ")[0].rpartition("::")[2]] = word.lower()
    return found
