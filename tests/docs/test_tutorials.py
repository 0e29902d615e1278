"""The code of the tutorials and notebooks runs as printed, page by page, each in a directory of its own.

Commands of pages are carried out in this process, which saves their imports.
Only sweeps differ from the text: they measure few layers, each case in three short trials, and draw no pictures.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import harness
from harness.cli.commands import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def _can_run(page: Path) -> bool:
    """Whether this checkout has all that the page uses: an extra has `harness.load`."""
    return hasattr(harness, "load") or "harness.load" not in page.read_text(encoding="utf-8")


PAGES = [
    page
    for page in [*sorted((ROOT / "docs" / "tutorials").glob("*.md")), ROOT / "CONTRIBUTING.md"]
    if "```" in page.read_text(encoding="utf-8") and _can_run(page)
]
NOTEBOOKS = sorted(filter(_can_run, (ROOT / "docs" / "notebooks").glob("*.ipynb")))
# Three trials are the fewest that have an interval. They show as well as sixty that the code runs.
_FEWER = "precision.trial_s=0.01 precision.min_rounds=3 precision.max_rounds=3 precision.patience_s=0 "
_SIZES = re.compile(r"^(?!.*--dry-run)(.*?)(?=seq_len=\d+,\d+,\d+ )", re.MULTILINE)
# For a sweep of the default layers. tests/cli/test_end_to_end.py has one.
_FEW_LAYERS = "impl=rnn.elman,attention.naive,attention.fused "
_FENCE = re.compile(r'^```(bash|python)(?: title="([\w.]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block of code: its language, the name of the file that a reader makes of it, if any, and its text."""

    language: str
    file: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that are run or written to a file, in their order."""
    return (Block(*found.groups(default="")) for found in _FENCE.finditer(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.usefixtures("forked_servers")
def test_the_code_of_a_page_runs_as_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for block in blocks(page):
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            run([sys.executable, "-c", block.text], tmp_path)
        else:
            for line in quick(block.text).splitlines():
                program, arguments = line.split(" harness ", 1)
                assert program == "python -m"
                assert main(shlex.split(arguments)) == 0, line
    assert any(blocks(page))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_the_cells_of_a_notebook_run_in_their_order(notebook: Path, tmp_path: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert quick("\n".join(code)) != "\n".join(code), "it measures as precisely as a reader"
    run([sys.executable, "-c", quick("\n".join(code))], tmp_path)


def quick(text: str) -> str:
    """The text with settings of a quick sweep before the three sizes of each sweep."""
    without_plots = "" if "--no-plots" in text else "--no-plots "

    def before_sizes(found: re.Match[str]) -> str:
        return f"{found[1]}{'' if 'impl=' in found[1] else _FEW_LAYERS}{_FEWER}{without_plots}"

    return _SIZES.sub(before_sizes, text)


def run(command: list[str], directory: Path) -> None:
    """Run a command in the directory, in the environment of the tests. It must succeed."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "MPLBACKEND": "agg",
    }
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
