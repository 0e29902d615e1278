"""MkDocs hook: each notebook of the documentation becomes a page, beside the notebook itself for a download.

Links to a notebook in the repository lead to its page on the site. The code host shows notebooks by itself.
"""

import json
import re
from pathlib import PurePosixPath
from typing import Any

_NOTEBOOK = ".ipynb"
_LINK = re.compile(r"(\]\([^)\s]*notebooks/[^)\s]*)\.ipynb\)")
_RUN = "Download [{name}]({name}) and open it with Jupyter in an activated environment: `pip install notebook`, then "
_NO_OUTPUTS = "It is stored without outputs: run it to see them."


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook."""
    from mkdocs.structure.files import File

    for file in list(files):
        if file.src_uri.endswith(_NOTEBOOK):
            text = notebook_markdown(json.loads(file.content_string), PurePosixPath(file.src_uri).name)
            page = str(PurePosixPath(file.src_uri).with_suffix(".md"))
            files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links to notebooks lead to their pages."""
    return _LINK.sub(r"\1.md)", markdown)


def notebook_markdown(notebook: dict[str, Any], name: str) -> str:
    """The cells of a notebook as Markdown, with the stored outputs. How to run it follows the title."""
    cells = [block for cell in notebook["cells"] for block in _cell(cell)]
    stored = any(cell.get("outputs") for cell in notebook["cells"])
    run = f"{_RUN.format(name=name)}`jupyter notebook {name}`." + ("" if stored else f" {_NO_OUTPUTS}")
    title, _, rest = cells[0].partition("\n") if cells else ("", "", "")
    return "\n\n".join([title, run, rest.strip(), *cells[1:]]) + "\n"


def _cell(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return [source]
    return [_fenced(source, "python"), *(shown for output in cell["outputs"] if (shown := _output(output)))]


def _output(output: dict[str, Any]) -> str:
    """A picture if the output has one, otherwise its text."""
    data = output.get("data", {})
    if "image/png" in data:
        return f"![output](data:image/png;base64,{''.join(''.join(data['image/png']).split())})"
    text = "".join(output.get("text", data.get("text/plain", "")))
    return _fenced(text, "text") if text else ""


def _fenced(text: str, language: str) -> str:
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`{3,}", text))])
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
