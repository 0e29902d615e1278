"""The source of a layer as part of one file: its class, and whatever the class needs of its own modules.

Modules of the project, and of a user outside `site-packages`, are copied. All other modules are imported by the result,
as in the layer's own file. Nothing is imported here: the source is parsed.
"""

import ast
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import impls
from harness.errors import UsageError
from harness.export.parsed_module import (
    DEFINITIONS,
    FUNCTIONS,
    ParsedModule,
    bound_names,
    find_module,
    first_line,
    global_names,
    import_lines,
    segment,
)
from harness.layer_files import is_installed
from harness.layer_source import OF_FUNCTIONS

# Attributes of a class, and of a function, that only the harness reads.
_FOR_THE_HARNESS = frozenset({"claims", "kernels", "supports", "attention_weights", "family", "has_heads", "reference"})
_OF_A_FUNCTION = _FOR_THE_HARNESS | OF_FUNCTIONS.keys() - {"prepare"}
# A block of the project finds the layers inside it by name. In a script, it finds them in `LAYERS`.
_FIND = "def find(target):\n    return LAYERS[target]"


@dataclass
class InlinedSource:
    """Imports and definitions that hold some classes, as lines of Python.

    - `names`: the name of each class here, by its `module:Class`.
    - `packages`: the top-level modules that it imports besides torch and Python's own.
    """

    imports: list[str] = field(default_factory=list)
    definitions: str = ""
    names: dict[str, str] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)


def inline(targets: Sequence[str], taken: Collection[str]) -> InlinedSource:
    """The source of the classes and functions `module:Class` or `path/to/a.py:Class`.

    The project's own classes are without docstrings. `taken` are names that the result must not define. Raises
    UsageError with the reason if the source cannot be copied.
    """
    return _Inliner(taken).inlined(targets)


class _Inliner:
    """Follows names from the classes to all statements that they need."""

    def __init__(self, taken: Collection[str]) -> None:
        self.modules: dict[str, ParsedModule] = {}
        self.entered: list[ParsedModule] = []
        self.wanted: dict[ParsedModule, dict[ast.stmt, None]] = {}
        # The name of each imported object here, by its import; and what each name here stands for.
        self.imported: dict[tuple[str, str | None], str] = {}
        self.names: dict[str, object] = dict.fromkeys(taken, "the script")
        # The name here of each top-level name of a module.
        self.renamed: dict[ParsedModule, dict[str, str]] = {}
        self.packages: list[str] = []

    def inlined(self, targets: Sequence[str]) -> InlinedSource:
        found = InlinedSource()
        places = {}
        for target in targets:
            place, _, attribute = target.rpartition(":")
            module = self._file_module(place) if place.endswith(".py") else self._module(place)
            if module is None:
                top = place.partition(".")[0]
                if "." in attribute:
                    raise UsageError(f"{target} lies inside a class, and cannot be copied")
                found.names[target] = self._import(place, attribute, attribute)
                self._need_package(top)
                continue
            if attribute not in module.bindings:
                raise UsageError(f"{target}: the file {module.file} does not define {attribute}")
            places[target] = module, attribute
        for module, attribute in places.values():
            self._need(module, attribute)
        # A statement that is kept for its effect may need further names, whose modules have effects too.
        known = -1
        while known != (known := sum(map(len, self.wanted.values()))):
            for module in list(self.entered):
                for node in module.effects:
                    if self._has_effect_here(module, node):
                        self.wanted[module][node] = None
            for module, nodes in list(self.wanted.items()):
                for node in list(nodes):
                    self._follow(module, node)
        for target, (module, attribute) in places.items():
            found.names[target] = self.renamed[module].get(attribute, attribute)
        found.imports = import_lines(self.imported)
        found.definitions = "\n\n\n".join(map(self._text, self._ordered()))
        found.packages = list(self.packages)
        return found

    def _ordered(self) -> list[ParsedModule]:
        """The modules that are copied, each after those that it needs."""
        found: list[ParsedModule] = []
        visited: set[ParsedModule] = set()

        def visit(module: ParsedModule) -> None:
            if module in visited:
                return
            visited.add(module)
            parts = [part for node in self.wanted[module] for part in self._parts(module, node)]
            for name in {name.id for part in parts for name in global_names(part)}:
                for node in module.bindings.get(name, ()):
                    own = self.modules.get(module.resolved(node)) if isinstance(node, ast.ImportFrom) else None
                    if own is not None:
                        visit(own)
            found.append(module)

        for module in self.entered:
            visit(module)
        return [module for module in found if self.wanted[module]]

    # Modules.

    def _module(self, name: str) -> ParsedModule | None:
        """The module if it is copied, or None if it is imported. Raises UsageError if it is no Python file."""
        if name in self.modules:
            return self.modules[name]
        top = name.partition(".")[0]
        if top == "torch" or top in sys.stdlib_module_names:
            return None
        if top == "impls":
            (place,) = impls.__path__
            file = Path(place, *name.split(".")[1:])
            file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
            return self._opened(name, file, True)
        spec = find_module(name)
        if spec is None or spec.origin is None or is_installed(spec.origin):
            return None
        if not spec.origin.endswith(".py"):
            raise UsageError(f"{name} is not Python source ({spec.origin}), so no script can hold it")
        return self._opened(name, Path(spec.origin), False)

    def _file_module(self, place: str) -> ParsedModule:
        file = Path(place).absolute()
        names = [file.stem]
        for directory in file.parents:
            if not (directory / "__init__.py").is_file():
                break
            names.insert(0, directory.name)
        return self.modules.get(str(file)) or self._opened(".".join(names), file, False, str(file))

    def _opened(self, name: str, file: Path, is_ours: bool, key: str = "") -> ParsedModule:
        module = self.modules[key or name] = ParsedModule(name, file, is_ours)
        self.renamed[module], self.wanted[module] = {}, {}
        return module

    # What is needed.

    def _need(self, module: ParsedModule, name: str) -> None:
        """Make the module's top-level `name` part of the result, if it is one."""
        for node in module.bindings.get(name, ()):
            if isinstance(node, ast.ImportFrom | ast.Import):
                self._need_import(module, node, name)
            elif node not in self.wanted[module]:
                self.wanted[module][node] = None
                for bound in bound_names(node):
                    self.renamed[module][bound] = self._unused(bound, (module, bound))
                self._follow(module, node)
        if module not in self.entered and self.wanted[module]:
            self.entered.append(module)

    def _has_effect_here(self, module: ParsedModule, node: ast.stmt) -> bool:
        """Whether a statement that binds no name is kept: any but an attribute for the harness, or of what is left out.

        Such an attribute is `f.layout = "bnhd"`.
        """
        if not isinstance(node, ast.Assign):
            return True
        targets = [one for one in node.targets if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)]
        if len(targets) < len(node.targets):
            return True
        owners = {one.value.id for one in targets if isinstance(one.value, ast.Name)}
        kept = {name for one in self.wanted[module] for name in bound_names(one)}
        of_what_is_kept = bool(owners & kept or owners - set(module.bindings))
        # A script calls the `prepare` of another function by its own name.
        borrowed = {"prepare"} if isinstance(node.value, ast.Attribute) else set()
        return of_what_is_kept and not {one.attr for one in targets} <= _OF_A_FUNCTION | borrowed

    def _unused(self, name: str, of: object) -> str:
        """The name here of a definition or an import: its own, or one with a number if another has that."""
        number, here = 1, name
        while self.names.setdefault(here, of) != of:
            number += 1
            here = f"{name}_{number}"
        return here

    def _import(self, module: str, attribute: str | None, name: str) -> str:
        """The name here of an import of another package."""
        key = (module, attribute)
        if key not in self.imported:
            # `import a.b` binds `a`, under which its users must find it.
            here = name if attribute is None and name == module.partition(".")[0] else self._unused(name, key)
            self.imported[key] = here
        return self.imported[key]

    def _need_import(self, module: ParsedModule, node: ast.ImportFrom | ast.Import, name: str) -> None:
        where = f"{module.file.name}:{node.lineno}"
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                if bound != name:
                    continue
                if self._module(alias.name) is not None:
                    raise UsageError(
                        f"{where} has 'import {alias.name}': a script can hold it if it is "
                        f"'from {alias.name} import …', with the names that are used"
                    )
                self.renamed[module][name] = self._import(alias.name, None, bound)
                self._need_package(alias.name)
            return
        source = module.resolved(node)
        for alias in node.names:
            if alias.name == "*" or (alias.asname or alias.name) != name:
                continue
            own = self._module(source)
            if own is None:
                self.renamed[module][name] = self._import(source, alias.name, name)
                self._need_package(source)
            elif alias.name not in own.bindings:
                raise UsageError(f"{where} imports {alias.name} from {source}, where no statement defines it")
            else:
                self._need(own, alias.name)
                self.renamed[module][name] = self.renamed[own].get(alias.name, alias.name)

    def _need_package(self, module: str) -> None:
        top = module.partition(".")[0]
        if top != "torch" and top not in sys.stdlib_module_names and top not in self.packages:
            self.packages.append(top)

    def _follow(self, module: ParsedModule, node: ast.stmt) -> None:
        """Need whatever the kept parts of a statement refer to."""
        if _finds_by_name(module, node):
            return
        for part in self._parts(module, node):
            for one in ast.walk(part):
                if isinstance(one, ast.Import | ast.ImportFrom):
                    self._check_inner_import(module, one)
                elif isinstance(one, ast.Call) and ast.unparse(one.func).endswith("import_module"):
                    self._check_dynamic_import(module, one)
            for name in global_names(part):
                if name.id in module.bindings:
                    self._need(module, name.id)

    def _check_inner_import(self, module: ParsedModule, node: ast.Import | ast.ImportFrom) -> None:
        names = [module.resolved(node)] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
        for name in names:
            if self._module(name) is not None:
                raise UsageError(
                    f"{module.file.name}:{node.lineno} imports {name} inside a function: a script can hold it if the "
                    "import is at the top of the file"
                )
            self._need_package(name)

    def _check_dynamic_import(self, module: ParsedModule, node: ast.Call) -> None:
        name = node.args[0] if node.args else None
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            raise UsageError(
                f"{module.file.name}:{node.lineno} finds code by its name at run time, so no script can hold it"
            )
        self._need_package(name.value)

    # Classes: which of their members are kept.

    def _parts(self, module: ParsedModule, node: ast.stmt) -> list[ast.AST]:
        """The kept parts of a statement: all of it, or of a class its kept members, bases and decorators."""
        if not isinstance(node, ast.ClassDef):
            return [node]
        header = ast.ClassDef(node.name, node.bases, node.keywords, [ast.Pass()], node.decorator_list)
        return [header, *self._members(module, node)]

    def _members(self, module: ParsedModule, node: ast.ClassDef) -> list[ast.stmt]:
        """All members but those that only the harness reads and, of the project's own classes, docstrings."""
        kept = []
        for member in node.body:
            names = set(bound_names(member))
            is_docstring = module.is_ours and isinstance(member, ast.Expr)
            if not is_docstring and not (names and names <= _FOR_THE_HARNESS):
                kept.append(member)
        return kept

    # The text.

    def _text(self, module: ParsedModule) -> str:
        lines = self._renamed_lines(module)
        nodes = sorted(self.wanted[module], key=lambda node: node.lineno)
        pieces: list[str] = []
        before: ast.stmt | None = None
        for node in nodes:
            text = self._text_of(module, node, lines)
            close = pieces and not isinstance(node, DEFINITIONS) and not isinstance(before, DEFINITIONS)
            pieces += ["\n" if close else "\n\n\n"] * bool(pieces) + [text]
            before = node
        return "".join(pieces)

    def _text_of(self, module: ParsedModule, node: ast.stmt, lines: Sequence[str]) -> str:
        if _finds_by_name(module, node):
            return _FIND
        if not isinstance(node, ast.ClassDef):
            return "\n".join(segment(node, lines, module.is_ours))
        members = self._members(module, node)
        if not module.is_ours and len(members) == len(node.body):
            return "\n".join(segment(node, lines, False))
        first = first_line(node.body[0], lines)
        header = lines[first_line(node, lines) - 1 : first - 1]
        while header and not header[-1].strip():
            header = header[:-1]
        body: list[str] = []
        for member in members:
            is_function = isinstance(member, FUNCTIONS)
            body += [""] * bool(body and is_function) + segment(member, lines, module.is_ours)
        return "\n".join([*header, *(body or ["    pass"])])

    def _renamed_lines(self, module: ParsedModule) -> list[str]:
        """The module's lines, with the names that are others here."""
        changes = {old: new for old, new in self.renamed[module].items() if old != new}
        lines = [line.encode("utf-8") for line in module.text]
        edits: list[tuple[int, int, str]] = []
        for node in self.wanted[module]:
            edits += [(one.lineno, one.col_offset, one.id) for one in global_names(node) if one.id in changes]
            if isinstance(node, DEFINITIONS) and node.name in changes:
                match = re.search(rb"\b(def|class)\s+", lines[node.lineno - 1])
                assert match is not None
                edits.append((node.lineno, match.end(), node.name))
        for number, column, old in sorted(set(edits), reverse=True):
            line = lines[number - 1]
            lines[number - 1] = line[:column] + changes[old].encode() + line[column + len(old.encode()) :]
        return [line.decode("utf-8") for line in lines]


def _finds_by_name(module: ParsedModule, node: ast.stmt) -> bool:
    return module.name == "impls.blocks.blocks" and isinstance(node, ast.FunctionDef) and node.name == "find"
