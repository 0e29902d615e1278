"""Every example in a `--help` text or in the documentation survives a shell as printed, and its command accepts it."""

import inspect
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.cli.commands import COMMANDS
from harness.cli.parsers import parse_options
from harness.core.model.extra_tables import entries

PREFIX = "python -m harness "
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Without a match for a pattern, bash passes it on unless told otherwise, and zsh fails.
SHELLS = {"bash": ["bash", "--norc", "-O", "failglob"], "zsh": ["zsh", "-f"]}


def examples() -> list[str]:
    """All command lines that help texts print, up to a pipe."""
    texts = [inspect.getdoc(COMMANDS[command].add_options) or "" for command in COMMANDS]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return [line.partition(" | ")[0] for line in lines if line.startswith(PREFIX)]


def documented() -> list[str]:
    """All command lines of the pages that stand on a line of their own and are complete."""
    lines = [line.strip() for page in PAGES for line in page.read_text(encoding="utf-8").splitlines()]
    whole = [line for line in lines if line.startswith(PREFIX) and not re.search(r"…|\\\\$|[A-Z]{3,}|[>|&]", line)]
    if not entries("COMMANDS"):  # without extras, `--known-bad` among them
        known = tuple(f"{PREFIX}{command} " for command in COMMANDS)
        whole = [line for line in whole if line.startswith(known) and "--known-bad" not in line]
    return list(dict.fromkeys(re.sub(r"\s+#.*", "", line) for line in whole))


def test_every_command_with_options_of_its_own_has_an_example() -> None:
    assert {line.removeprefix(PREFIX).split()[0] for line in examples()} >= COMMANDS.keys() - {"doctor"}


@pytest.mark.parametrize("shell", SHELLS)
def test_no_shell_changes_an_example(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    for name in ("impl=rnn.torch", "seq_len=1", "attention.fused"):  # what an unquoted pattern could match
        (tmp_path / name).touch()
    lines = [*examples(), *documented()]
    script = "\n".join(f"printf '%s\\n' {line} && echo END" for line in lines)
    checked = subprocess.run([*SHELLS[shell], "-n", "-c", script], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    done = subprocess.run([*SHELLS[shell], "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    split = [words.strip("\n").split("\n") for words in done.stdout.split("END\n") if words]
    assert split == [shlex.split(line) for line in lines]


@pytest.mark.parametrize("line", dict.fromkeys([*examples(), *documented()]))
def test_an_example_is_parsed_by_its_command(line: str) -> None:
    command, *arguments = shlex.split(line.removeprefix(PREFIX))
    parse_options(command, arguments)


def test_points_are_quoted_wherever_they_are_printed() -> None:
    texts = [inspect.getdoc(COMMANDS[command].add_options) or "" for command in COMMANDS]
    printed = re.findall(r"(.)points=\[", "".join(texts))
    assert printed
    assert set(printed) == {"'"}
