"""The tables to which extras add, and the kinds of their entries.

An extra is a package below `harness/extras`. Its `__init__` has a list of entries for each table to which it adds, such
as COMMANDS. Nothing outside an extra imports it, so everything else works without the folder. Importing this file, or
the `__init__` of an extra, loads nothing that measures.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any


@cache
def _extras() -> list[ModuleType]:
    package = find_spec("harness.extras")
    places = package.submodule_search_locations if package is not None else None
    names = sorted(module.name for module in pkgutil.iter_modules(places or []))
    return [importlib.import_module(f"harness.extras.{name}") for name in names]


def entries(table: str) -> list[Any]:
    """Return all entries that extras add to a table, such as `COMMANDS`, by the names of the extras."""
    return [entry for extra in _extras() for entry in getattr(extra, table, ())]


def referenced(place: str) -> Any:
    """Return what `module:name` refers to, or the module itself for `module` alone."""
    module_name, _, name = place.partition(":")
    module = importlib.import_module(module_name)
    return getattr(module, name) if name else module


@dataclass(frozen=True)
class Command:
    """One command: the `group` of the help in which `about` describes it, and its code.

    `module` has its function: for the command `x-y`, `run_x_y(options)`, which returns the exit status. `options` is
    the module of the function `_x_y(parser)`, which adds its options. The docstring of that function is its `--help`.
    `out` says how the command takes the place that it writes to, for `-o`, `--out` and `out=` alike: as an `override`
    of Hydra's grammar, as a plain `key`, or as a `flag`.
    """

    name: str
    group: str
    about: str
    module: str
    options: str = "harness.cli.parsers"
    out: str = ""

    @property
    def function_name(self) -> str:
        """The name of the command as a part of a Python name."""
        return self.name.replace("-", "_")

    def run(self, options: Any) -> int:
        """Carry the command out, and return its exit status."""
        return referenced(f"{self.module}:run_{self.function_name}")(options)

    @property
    def add_options(self) -> Callable[[Any], None]:
        """The function that adds the command's options to a parser."""
        return referenced(f"{self.options}:_{self.function_name}")


MEASURE, READ, GATE, EXPLORE = "Measure", "Read a run", "Gate pull requests", "Explore"
