"""Problems that are Python modules: those of KernelBench, and those of its relatives.

A module has a class `Model` and the functions `get_inputs` and `get_init_inputs`. A solution has `ModelNew` or `Model`.
"""

from pathlib import Path

from harness.core.model.errors import UsageError

from .formats import FileAxes, Format
from .sizes import AXIS_OF, integers, names_in, read_tree

_PARTS = {"Model", "get_inputs"}
_SOLUTIONS = ("ModelNew", "Model")


class Modules(Format):
    """The format of KernelBench."""

    problem = "harness.extras.problems.trials.module_problem:ModuleProblem"

    def file_at(self, path: Path) -> Path | None:
        """The module itself."""
        return path if path.suffix == ".py" and path.is_file() and names_in(read_tree(path)) >= _PARTS else None

    def axes(self, file: Path) -> FileAxes:
        """Each integer of the module."""
        stated = integers(read_tree(file))
        named = {axis: name for name, axis in reversed(AXIS_OF.items()) if name in stated}
        axis_of = {name: name for name in stated} | {name: axis for axis, name in named.items()}
        return FileAxes(axis_of, {axis_of[name]: size for name, size in stated.items()})

    def is_solution(self, layer: str) -> bool:
        """Whether it is a Python file."""
        if not layer.endswith(".py"):
            return False
        names = names_in(read_tree(Path(layer)))
        if names.isdisjoint(_SOLUTIONS):
            raise UsageError(f"impl={layer}: a solution has a class ModelNew or Model{_what_it_has(names)}")
        return True

    def solutions(self, file: Path) -> list[Path]:
        """The module itself if it has `ModelNew` too."""
        return [file] if "ModelNew" in names_in(read_tree(file)) else []

    def why_not(self, path: Path) -> str:
        """The names that a problem has, and those of the file."""
        if path.suffix != ".py":
            return ""
        return f"a problem has a class Model and a function get_inputs{_what_it_has(names_in(read_tree(path)))}"


def _what_it_has(names: set[str]) -> str:
    return f", and this file has {', '.join(sorted(names))}" if names else ""
