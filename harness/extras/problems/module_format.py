"""Problems that are Python modules: those of KernelBench, and those of its relatives.

A module has a class `Model`, or one of another name, and the functions `get_inputs` and `get_init_inputs`. A solution
has `ModelNew` or `Model`, or the function that some relatives call. In a directory, the problem is `reference.py` or
`func_forward.py`, and a solution `solution.py` or `submission.py`.
"""

from pathlib import Path

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import AXES

from .formats import FileAxes, Format, place_of
from .sizes import AXIS_OF, integers, models_in, names_in
from .translations import beside, module_tree, translated

_PARTS = {"get_inputs", "get_init_inputs"}
_SOLUTIONS = ("ModelNew", "Model", "forward_fn", "backward_fn", "custom_kernel")


class Modules(Format):
    """The format of KernelBench."""

    problem = "harness.extras.problems.trials.module_problem:ModuleProblem"

    def file_at(self, path: Path) -> Path | None:
        """The module itself, or that of a directory."""
        inside = (path / name for name in ("reference.py", "func_forward.py"))
        file = next(filter(Path.is_file, inside), path)
        place, part = place_of(file)
        if place.suffix not in (".py", ".yaml") or not place.is_file() or (part and not translated(file).template):
            return None
        return file if names_in(module_tree(file)) >= _PARTS else None

    def axes(self, file: Path) -> FileAxes:
        """Each integer of the module. Raises UsageError if several classes may be its model."""
        tree = module_tree(file)
        models, stated = models_in(tree), integers(tree)
        if len(models) != 1:
            candidates = f": {' or '.join(models)}" if models else ""
            raise UsageError(f"{file} has no class Model: give that name to the one to measure{candidates}")
        named = {axis: name for name, axis in reversed(AXIS_OF.items()) if name in stated}
        width, heads = named.get("d_model", ""), named.get("num_heads", "")
        if heads and width and stated[width] % stated[heads]:  # no heads of that width, or another meaning
            del named["num_heads" if heads not in AXES else "d_model"]
        axis_of = {name: name for name in stated} | {name: axis for axis, name in named.items()}
        return FileAxes(axis_of, {axis_of[name]: size for name, size in stated.items()})

    def is_solution(self, layer: str) -> bool:
        """Whether it is a Python file, or a part of one that is a problem."""
        if not layer.endswith(".py"):
            return ":" in layer and self.file_at(Path(layer)) is not None
        names = names_in(module_tree(Path(layer)))
        if names.isdisjoint(_SOLUTIONS):
            raise UsageError(
                f"impl={layer}: a solution has ModelNew, Model or the function of its format{_what_it_has(names)}"
            )
        return True

    def solutions(self, file: Path) -> list[Path]:
        """The module itself if it has `ModelNew` too, and those of its directory."""
        both = file if "ModelNew" in names_in(module_tree(file)) else None
        return [*filter(None, (both, beside(file, "solution.py"), beside(file, "submission.py")))]

    def default_overrides(self, file: Path) -> list[str]:
        """The shapes of its directory as points."""
        axes = self.axes(file)
        points = []
        for shape in translated(file).declared.SHAPES:
            unknown = shape.keys() - axes.axis_of.keys()
            if unknown and beside(file, "shapes.py"):
                raise UsageError(f"{file.with_name('shapes.py')}: {file.name} has no integer {', '.join(unknown)}")
            if unknown:
                continue
            sizes = axes.sizes | {axes.axis_of[name]: size for name, size in shape.items()}
            # Without a width of its own, any multiple of the heads will do.
            sizes.setdefault("d_model", sizes.get("num_heads", 1))
            along = (f"{axis if axis in AXES else 'layer.' + axis}:{size}" for axis, size in sizes.items())
            points.append(f"{{{','.join(along)}}}")
        return [f"points=[{','.join(points)}]"] if points else []

    def notice(self, file: Path) -> str:
        """Which model is measured, and at whose sizes."""
        if file in self.solutions(file):
            return "; impl=FILE measures Model alone, and problem=FILE its ModelNew too"
        return "; without a size given, all its shapes" if translated(file).declared.SHAPES else ""

    def missing_parts(self, path: Path) -> str:
        """The names that a problem has, and those of the file."""
        if path.suffix != ".py":
            return ""
        return f"a problem has the functions get_inputs and get_init_inputs{_what_it_has(names_in(module_tree(path)))}"


def _what_it_has(names: set[str]) -> str:
    return f", and this file has {', '.join(sorted(names))}" if names else ""
