"""An extra is one folder, which adds itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = '''
def _greet(parser):
    """Greet somebody. Measures nothing."""
    parser.add_argument("name")


def run_greet(options):
    from harness.core.run.executor import short_executor
    from harness.core.model.sweep_axes import Case

    with short_executor() as executor:
        answer = executor.run("greeting", Case("rnn.elman", 8, 4, 1), {"name": options.name})
    print(answer.values["text"] if answer.ok else answer.reason)
    return 0
'''
KINDS = """
from harness.core.results.row import FLAG, TrialKind

_GREETING = "harness.extras.greeting.trials:greeting"
GREETING = TrialKind({"is_polite": FLAG}, handler=_GREETING, takes=("case", "name"))
"""
TRIALS = """
def greeting(case, name):
    return {"text": f"hello {name}, here is {case.impl}", "is_polite": True}
"""
ENTRIES = """
from harness.core.model.extra_tables import EXPLORE, Command

_COMMANDS = "harness.extras.greeting.commands"
COMMANDS = [Command("greet", EXPLORE, "greet somebody", _COMMANDS, _COMMANDS)]
TRIAL_KINDS = [("greeting", "harness.extras.greeting.kinds:GREETING")]
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the harness and its layers, without the extras."""
    leave_out = shutil.ignore_patterns("__pycache__", "extras")
    for package in ("harness", "impls", "conf"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=leave_out)
    return tmp_path


def printed(copy: Path, *arguments: str) -> str:
    """What a command prints in the copy."""
    command = [sys.executable, "-m", "harness", *arguments]
    variables = os.environ | {"PYTHONPATH": str(copy)}
    done = subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_folder_adds_a_command_and_a_kind_of_trial(copy: Path) -> None:
    extra = copy / "harness" / "extras" / "greeting"
    extra.mkdir(parents=True)
    files = {"__init__": ENTRIES, "commands": COMMANDS, "kinds": KINDS, "trials": TRIALS}
    for name, text in files.items():
        (extra / f"{name}.py").write_text(text)
    assert " greet somebody\n" in printed(copy, "--help")
    assert printed(copy, "greet", "you") == "hello you, here is rnn.elman\n"
