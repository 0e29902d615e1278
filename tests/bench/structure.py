"""How large the code is and how it reads: modules, tokens, import lines and sentence lengths.

    .venv/bin/python tests/bench/structure.py     prints the figures; exit status 1 if one is beyond its limit

Some aims are not reached yet. There, the limit is what has been reached, so that the figure cannot grow unnoticed. A
limit is only ever lowered. Tokens are those of Python without comments and layout; a docstring is one. A limit on lines
would make the lines dense. A line of code holds a token that is neither a comment nor part of a docstring.
"""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(`*])")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
# Shorter pieces are headings and table cells.
_FEWEST_WORDS = 4


@dataclass(frozen=True)
class Module:
    """One Python file: its length, its lines of code and tokens, how many lines import, and its docstrings."""

    path: Path
    lines: int
    code: int
    tokens: int
    imports: int
    docstrings: str

    @classmethod
    def read(cls, path: Path) -> "Module":
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = [node for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)]
        prose = {line for node in nodes for line in _lines_of(node.body[0])}
        imports = {
            line for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for line in _lines_of(node)
        }
        code = _lines_with_tokens(text) - prose
        return cls(
            path.relative_to(ROOT),
            text.count("\n"),
            len(code),
            sum(1 for _ in _tokens(text)),
            len(imports & code),
            "\n\n".join(ast.get_docstring(node) or "" for node in nodes),
        )


def _lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return (token for token in tokens if token.type not in _LAYOUT)


def _lines_with_tokens(text: str) -> set[int]:
    return {line for token in _tokens(text) for line in range(token.start[0], token.end[0] + 1)}


def sentence_lengths(text: str) -> list[int]:
    """Words in each sentence of some prose; code in backticks counts as one word."""
    lengths = []
    for paragraph in re.split(r"\n\s*\n", text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "x", paragraph))
        joined = " ".join(line.strip(" *->#") for line in plain.split("\n"))
        lengths += [len(_WORD.findall(sentence)) for sentence in _SENTENCE_END.split(joined)]
    return [length for length in lengths if length >= _FEWEST_WORDS]


def markdown_prose(path: Path) -> str:
    """The text of a page without code blocks, tables, headings and pictures."""
    text = re.sub(r"```.*?```", "\n\n", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return "\n".join(line for line in text.split("\n") if not line.startswith(("    ", "|", "#", "![", "<")))


@dataclass(frozen=True)
class Figure:
    """One figure, the most that it should be (`aim`; None for no aim), and a limit where the aim is not reached yet."""

    name: str
    value: float
    aim: float | None = None
    reached: float | None = None

    @property
    def limit(self) -> float | None:
        """The most that it may be."""
        return self.aim if self.reached is None else self.reached

    @property
    def within(self) -> bool:
        """Whether the figure is within its limit."""
        return self.limit is None or self.value <= self.limit


def figures() -> list[Figure]:
    """All figures of this checkout."""
    found = []
    for package, of_modules, of_tokens, of_imports in (
        ("harness", (118, 167), (163_000, 304_600), (6, 9.3)),
        ("impls", (40, 42), (), (6,)),
    ):
        modules = [Module.read(path) for path in sorted((ROOT / package).rglob("*.py"))]
        named = [module for module in modules if module.path.name != "__init__.py"]
        code = sum(module.code for module in modules)
        found += [
            Figure(f"{package}: modules", len(named), *of_modules),
            Figure(f"{package}: lines of the longest module", max(module.lines for module in modules), 450),
            Figure(f"{package}: tokens", sum(module.tokens for module in modules), *of_tokens),
            Figure(
                f"{package}: import lines, % of code",
                100 * sum(module.imports for module in modules) / code,
                *of_imports,
            ),
            Figure(
                f"{package}: words a sentence in docstrings",
                statistics.mean(length for module in modules for length in sentence_lengths(module.docstrings)),
                14,
            ),
        ]
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if lengths := sentence_lengths(markdown_prose(page)):
            found.append(Figure(f"{page.relative_to(ROOT)}: words a sentence", statistics.mean(lengths), 18))
    return found


def main() -> int:
    table = Table(title="structure")
    for heading in ("figure", "value", "aim", "limit"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    found = figures()
    for figure in found:
        style = None if figure.within else "red"
        aim, limit = ("" if most is None else f"{most:,g}" for most in (figure.aim, figure.limit))
        table.add_row(figure.name, f"{figure.value:,.{0 if figure.value >= 100 else 1}f}", aim, limit, style=style)
    Console(width=100).print(table)
    return 0 if all(figure.within for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
