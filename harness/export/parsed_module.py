"""A parsed Python module: where its names are bound, which names a statement refers to, and its text.

Nothing is imported.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from harness.errors import UsageError
from harness.file_io import read_bytes

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_SCOPES = (*FUNCTIONS, ast.Lambda)


@dataclass(eq=False)
class ParsedModule:
    """A parsed module: where each of its names is bound. `is_ours`: a module of the project's layers."""

    name: str
    file: Path
    is_ours: bool
    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict)
    effects: list[ast.stmt] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            content = read_bytes(self.file)
            tree = ast.parse(content)
            self.text = content.decode("utf-8").splitlines()
        except (OSError, SyntaxError, ValueError) as error:
            raise UsageError(f"{self.file} cannot be read as Python: {error}") from error
        for statement in tree.body:
            bound = set(bound_names(statement))
            for name in bound:
                self.bindings.setdefault(name, []).append(statement)
            if not bound and not self.is_ours and not _has_no_effect(statement):
                self.effects.append(statement)

    @cached_property
    def package(self) -> str:
        return self.name if self.file.name == "__init__.py" else self.name.rpartition(".")[0]

    def resolved(self, node: ast.ImportFrom) -> str:
        """The absolute name of the module that a `from` statement names."""
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])


def find_module(name: str) -> ModuleSpec | None:
    """The place of a module, found without importing the packages that contain it."""
    parts, path, spec = name.split("."), None, None
    for count in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and count < len(parts):
            return None
    return spec


def import_lines(imported: Mapping[tuple[str, str | None], str]) -> list[str]:
    """The statements that import these attributes, or whole modules, under their names: Python's own modules first."""
    lines, of_modules = [], dict[str, list[str]]()
    for (module, attribute), name in imported.items():
        if attribute is None:
            lines.append(f"import {module}" if name == module.partition(".")[0] else f"import {module} as {name}")
        else:
            of_modules.setdefault(module, []).append(attribute + (f" as {name}" if name != attribute else ""))
    lines += [f"from {module} import {', '.join(sorted(names))}" for module, names in of_modules.items()]
    return sorted(lines, key=lambda line: (line.split()[1].partition(".")[0] not in sys.stdlib_module_names, line))


def _has_no_effect(node: ast.stmt) -> bool:
    """Whether a statement that binds nothing is a docstring, or runs only in a main program."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def bound_names(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds in its own scope."""
    if isinstance(node, DEFINITIONS):
        yield node.name
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (one.asname or one.name.partition(".")[0] for one in node.names)
        return
    if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if not isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for child in ast.iter_child_nodes(node):
            yield from bound_names(child)


def global_names(node: ast.AST, local: frozenset[str] = frozenset()) -> Iterator[ast.Name]:
    """The names in a node that refer to its module's top level, or to built-ins."""
    if isinstance(node, ast.Name):
        if node.id not in local:
            yield node
        return
    if isinstance(node, _SCOPES):
        outside: Iterable[ast.AST] = [
            *node.args.defaults,
            *filter(None, node.args.kw_defaults),
            *(one.annotation for one in _arguments(node.args) if one.annotation),
            *(() if isinstance(node, ast.Lambda) else (*node.decorator_list, *filter(None, [node.returns]))),
        ]
        for one in outside:
            yield from global_names(one, local)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        inner = local | {one.arg for one in _arguments(node.args)} | _assigned_within(body)
        for part in body:
            yield from global_names(part, inner)
        return
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        local = local | _assigned_within([one.target for one in node.generators])
    if isinstance(node, ast.ClassDef):
        own = frozenset(name for one in node.body for name in bound_names(one))
        for one in (*node.bases, *node.keywords, *node.decorator_list):
            yield from global_names(one, local)
        for one in node.body:  # functions in a class do not see the names of its body
            yield from global_names(one, local if isinstance(one, FUNCTIONS) else local | own)
        return
    for child in ast.iter_child_nodes(node):
        yield from global_names(child, local)


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


def _assigned_within(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names that the nodes bind in a function, without those declared global."""
    found: set[str] = set()
    declared: set[str] = set()
    for node in nodes:
        found |= set(bound_names(node))
        declared |= {name for one in ast.walk(node) if isinstance(one, ast.Global) for name in one.names}
    return frozenset(found - declared)


def first_line(node: ast.stmt, lines: Sequence[str]) -> int:
    """The first line of a statement, with its decorators and the comment above it."""
    decorators: Mapping[str, list[ast.expr]] = vars(node)
    first = min([node.lineno, *(one.lineno for one in decorators.get("decorator_list", []))])
    while first > 1 and lines[first - 2].lstrip().startswith("#"):
        first -= 1
    return first


def segment(node: ast.stmt, lines: Sequence[str], without_docstring: bool) -> list[str]:
    """The lines of a statement."""
    first, last = first_line(node, lines), node.end_lineno or node.lineno
    dropped: set[int] = set()
    if without_docstring and isinstance(node, DEFINITIONS):
        docstring = node.body[0]
        if isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant) and len(node.body) > 1:
            dropped = set(range(docstring.lineno, node.body[1].lineno))
            # A comment between the docstring and the code stays.
            dropped -= {number for number in dropped if lines[number - 1].lstrip().startswith("#")}
    return [lines[number - 1] for number in range(first, last + 1) if number not in dropped]
