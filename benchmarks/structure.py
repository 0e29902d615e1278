"""How large the code is and how it reads: modules, tokens, import lines and sentence lengths, by ring.

    .venv/bin/python benchmarks/structure.py     prints the figures; exit status 1 if one is beyond its limit

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
_NESTED = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp)
_VAGUE = {"one", "ones", "found", "known", "held", "given", "got", "own", "wanted", "taken", "told", "others", "rest"}
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(`*])")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
# Shorter pieces are headings and table cells.
_FEWEST_WORDS = 4


@dataclass(frozen=True)
class Module:
    """One Python file: its length, its lines of code and tokens, how many lines import, and its docstrings.

    `nested` is the number of comprehensions and conditional expressions, `vague` that of vague names that are bound.
    """

    path: Path
    lines: int
    code: int
    tokens: int
    imports: int
    nested: int
    vague: int
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
            sum(isinstance(node, _NESTED) for node in ast.walk(tree)),
            sum(name in _VAGUE for name in _bound_names(tree)),
            "\n\n".join(ast.get_docstring(node) or "" for node in nodes),
        )


def _bound_names(tree: ast.AST) -> Iterator[str]:
    """The names of variables and parameters, each as often as it is bound."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


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


# The aim of a figure, and its limit if the aim is not reached yet.
Limits = tuple[float | None, ...]


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


@dataclass(frozen=True)
class Code:
    """The modules of a package, or of a ring of it."""

    name: str
    modules: list[Module]

    @classmethod
    def read(cls, package: str) -> "Code":
        paths = (path for path in sorted((ROOT / package).rglob("*.py")) if not path.is_relative_to(_PROBLEMS))
        return cls(package, [Module.read(path) for path in paths])

    @classmethod
    def of_ring(cls, harness: "Code", ring: str) -> "Code":
        folder_of = {module: _folder(module.path) for module in harness.modules}
        others = {folder for name, folders in _RINGS.items() if name != ring for folder in folders}
        if ring == "core":
            modules = [module for module, folder in folder_of.items() if folder not in others]
        else:
            modules = [module for module, folder in folder_of.items() if folder in _RINGS[ring]]
        return cls(f"harness, {ring}", modules)

    @property
    def named(self) -> int:
        """The number of modules that are not `__init__.py`."""
        return sum(module.path.name != "__init__.py" for module in self.modules)

    @property
    def lines(self) -> int:
        """Lines of code."""
        return sum(module.code for module in self.modules)

    @property
    def tokens(self) -> int:
        return sum(module.tokens for module in self.modules)

    @property
    def imports(self) -> int:
        """Lines of code that import."""
        return sum(module.imports for module in self.modules)

    def figures(self, modules: Limits, tokens: Limits) -> list[Figure]:
        """What is said of every package."""
        lengths = [length for module in self.modules for length in sentence_lengths(module.docstrings)]
        return [
            Figure(f"{self.name}: modules", self.named, *modules),
            Figure(f"{self.name}: lines of the longest module", max(module.lines for module in self.modules), 450),
            Figure(f"{self.name}: tokens", self.tokens, *tokens),
            Figure(f"{self.name}: words a sentence in docstrings", statistics.mean(lengths), 14),
        ]

    def ring_figures(self, limits: Sequence[Limits]) -> list[Figure]:
        """What is said of a ring, with the aim and the limit of each figure."""
        values = {
            "modules": self.named,
            "lines of code": self.lines,
            "tokens": self.tokens,
            "nested expressions per 1,000 lines": 1000 * sum(module.nested for module in self.modules) / self.lines,
            "vague names": sum(module.vague for module in self.modules),
        }
        return [
            Figure(f"{self.name}: {what}", value, *limit)
            for (what, value), limit in zip(values.items(), limits, strict=True)
        ]


def _folder(path: Path) -> str:
    """The folder of `harness` that a module is in; empty beside the folders."""
    return path.parts[1] if len(path.parts) > 2 else ""


# Readers of others' files, an extra with limits of its own.
_PROBLEMS = ROOT / "harness" / "extras" / "problems"
# The rings of docs/explanation/architecture.md, each with its folders. What lies beside them belongs to the core.
_RINGS = {"core": ("core", "cli"), "study": ("study",), "extras": ("extras",)}
# For each ring, the aim and the limit: modules, lines of code, tokens, nested expressions per 1,000 lines, vague names.
_OF_RINGS = {
    "core": ((55, 79), (8_500, 13_190), (75_000, 137_110), (60, 109), (60, 116)),
    "study": ((28, 41), (4_300, 6_750), (38_000, 83_300), (60, 184), (40, 185)),
    "extras": ((35, 40), (5_700, 7_555), (50_000, 80_600), (60, 117), (50,)),
}


def figures() -> list[Figure]:
    """All figures of this checkout."""
    harness = Code.read("harness")
    all_figures = [
        *harness.figures((118, 160), (163_000, 301_000)),
        Figure("harness: tokens a line of code", harness.tokens / harness.lines, 9, 11),
        Figure("harness: import lines, % of code", 100 * harness.imports / harness.lines, 6, 9.3),
    ]
    for ring, limits in _OF_RINGS.items():
        all_figures += Code.of_ring(harness, ring).ring_figures(limits)
    problems = Code("harness, problems", [Module.read(path) for path in sorted(_PROBLEMS.rglob("*.py"))])
    all_figures += problems.ring_figures(((16,), (1_600,), (14_000,), (60, 108), (30,)))
    impls = Code.read("impls")
    all_figures += [
        *impls.figures((40, 42), (None, None)),
        Figure("impls: import lines, % of code", 100 * impls.imports / impls.lines, 6),
    ]
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if lengths := sentence_lengths(markdown_prose(page)):
            all_figures.append(Figure(f"{page.relative_to(ROOT)}: words a sentence", statistics.mean(lengths), 18))
    return all_figures


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
