"""Where an exported script has its layers from: packages, the project, and the text of the user's own modules."""

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The package of the project's layers, and the name under which pip installs it.
_LAYERS, _PROJECT = "impls", "attn-harness"
# The names that `_IMPORTER` binds.
IMPORTER_NAMES = ("sys", "ExecutionLoader", "MetaPathFinder", "spec_from_loader", "MODULES", "OwnModules")
_IMPORTER = """class OwnModules(MetaPathFinder, ExecutionLoader):  # imports the modules above
    def find_spec(self, name, path=None, target=None):
        return spec_from_loader(name, self) if name in MODULES else None

    def is_package(self, name):
        return any(other.startswith(name + ".") for other in MODULES)

    def get_filename(self, name):
        return name + ".py"

    def get_source(self, name):
        return MODULES[name]


sys.meta_path.insert(0, OwnModules())"""
_IMPORTS_OF_IMPORTER = (
    "import sys",
    "from importlib.abc import ExecutionLoader, MetaPathFinder",
    "from importlib.util import spec_from_loader",
)


@dataclass
class ScriptSource:
    """The lines of Python that a script's layers come from.

    - `imports`, `definitions`: imports, and the user's modules as text with imports from them.
    - `names`: what each layer or function is called in the script, by its `module:Class`.
    - `packages`: what must be installed besides torch.
    """

    imports: list[str] = field(default_factory=list)
    definitions: str = ""
    names: dict[str, str] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)


def source_of(targets: Iterable[str], modules: Mapping[str, str], taken: Collection[str]) -> ScriptSource:
    """The source of the classes and functions `module:Class` or `path/to/a.py:Class`.

    `modules` holds the text of each module of the user, by its name or file. `taken` are names of the script.
    """
    found = ScriptSource()
    module_names = _module_names(modules)
    used = {*taken, *IMPORTER_NAMES}
    imports_of_own = []
    for target in dict.fromkeys(targets):
        named, _, attribute = target.rpartition(":")
        place = str(Path(named).absolute()) if named.endswith(".py") else named
        imported, dot, inner = attribute.partition(".")
        here = _unused(imported, used)
        module = module_names.get(place, place)
        line = f"from {module} import {imported}" + (f" as {here}" if here != imported else "")
        found.names[target] = here + dot + inner
        if place in modules:
            imports_of_own.append(line)
        else:
            found.imports.append(line)
            _need_package(found.packages, module.partition(".")[0])
    if modules:
        found.imports += _IMPORTS_OF_IMPORTER
        texts = [f"    {name!r}: {_quoted(modules[place])}," for place, name in module_names.items()]
        dictionary = "\n".join(["MODULES = {", *texts, "}"])
        found.definitions = "\n\n\n".join([dictionary, _IMPORTER]) + "\n" + "\n".join(imports_of_own)
    return found


def _module_names(places: Iterable[str]) -> dict[str, str]:
    """What each module is called in the script: a file is called by its name."""
    names: dict[str, str] = {}
    for place in places:
        name = Path(place).stem if place.endswith(".py") else place
        names[place] = _unused(name, set(names.values()))
    return names


def _unused(name: str, used: set[str]) -> str:
    """The name, or one with a number if it is in `used`, to which it is added."""
    number, here = 1, name
    while here in used:
        number += 1
        here = f"{name}_{number}"
    used.add(here)
    return here


def _need_package(packages: list[str], top: str) -> None:
    package = _PROJECT if top == _LAYERS else top
    if top != "torch" and top not in sys.stdlib_module_names and package not in packages:
        packages.append(package)


def _quoted(text: str) -> str:
    """The text as a literal of Python that reads like the file, if it can."""
    for quotes in ("'''", '"""'):
        if quotes not in text and not text.endswith("\\"):
            return f"r{quotes}\n{text.strip()}\n{quotes}"
    return repr(text)
