"""The code of the tutorials and notebooks runs as printed, page by page, each in a directory of its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    page
    for page in [*sorted((ROOT / "docs" / "tutorials").glob("*.md")), ROOT / "CONTRIBUTING.md"]
    if "```" in page.read_text(encoding="utf-8")
]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
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
def test_the_code_of_a_page_runs_as_printed(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        else:
            shell = ["bash", "-euc"] if block.language == "bash" else [sys.executable, "-c"]
            run([*shell, block.text], tmp_path)
    assert any(blocks(page))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_the_cells_of_a_notebook_run_in_their_order(notebook: Path, tmp_path: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    run([sys.executable, "-c", "\n".join(code)], tmp_path)
    assert code


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
