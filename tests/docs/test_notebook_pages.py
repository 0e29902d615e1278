"""The site shows each notebook as a page: text, code, and the outputs that the notebook stores."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebook_pages", ROOT / "docs" / "hooks" / "notebook_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_page_has_every_cell_of_its_notebook_and_a_download(hook: ModuleType, path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    page = hook.notebook_markdown(notebook, path.name)
    assert page.startswith("# ")
    assert f"[{path.name}]({path.name})" in page
    for cell in notebook["cells"]:
        lines = "".join(cell["source"]).splitlines()
        assert all(line in page for line in lines)
    code = ["".join(cell["source"]).rstrip() for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(f"```python\n{source}\n```" in page for source in code)
    assert f"notebooks/{path.stem}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_stored_outputs_are_shown_as_text_and_pictures(hook: ModuleType) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["one\n", "```two\n"]},
        {"output_type": "display_data", "data": {"image/png": "iVBO\nRw0=", "text/plain": ["<Figure>"]}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": ["print()"], "outputs": outputs},
    ]
    page = hook.notebook_markdown({"cells": cells}, "x.ipynb")
    assert "````text\none\n```two\n````" in page
    assert "(data:image/png;base64,iVBORw0=)" in page
    assert "<Figure>" not in page
    assert "without outputs" not in page


def test_a_link_to_a_notebook_leads_to_its_page_and_the_download_stays(hook: ModuleType) -> None:
    text = "[a](../notebooks/a.ipynb) [b](b.ipynb)"
    assert hook.on_page_markdown(text, None, None, None) == "[a](../notebooks/a.md) [b](b.ipynb)"
