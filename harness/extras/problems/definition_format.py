"""Problems that are definitions of FlashInfer Trace, with solutions in JSON."""

from pathlib import Path

from .definition_file import is_definition, read_definition, read_solution, workload_of
from .formats import FileAxes, Format

# The axis of the sweep that an axis of this name is.
AXIS_OF = {
    **dict.fromkeys(("seq_len", "total_q", "num_tokens", "total_seq_len"), "seq_len"),
    "batch_size": "batch_size",
}
# The size of an axis of which no workload is known.
_USUAL = 16


class Definitions(Format):
    """The format of FlashInfer Trace."""

    problem = "harness.extras.problems.trials.definition_problem:DefinitionProblem"

    def file_at(self, path: Path) -> Path | None:
        """The definition itself."""
        return path if is_definition(path) else None

    def axes(self, file: Path) -> FileAxes:
        """Its variable axes, with the sizes of the first workload beside it."""
        definition, seen = read_definition(file), workload_of(file).get("axes", {})
        axis_of, sizes = dict[str, str](), dict[str, int]()
        for name, axis in definition.axes.items():
            if axis.type == "const" or name in definition.one_more:
                continue
            meant = AXIS_OF.get(name, name)
            axis_of[name] = name if meant in axis_of.values() else meant
            sizes[axis_of[name]] = int(seen.get(name, _USUAL))
        return FileAxes(axis_of, sizes)

    def is_solution(self, layer: str) -> bool:
        """Whether it is a JSON file."""
        if not layer.endswith(".json"):
            return False
        read_solution(Path(layer))
        return True

    def usual(self, file: Path) -> list[str]:
        """A definition has one dtype, and no backward pass."""
        return [f"dtype={read_definition(file).dtype}", "mode=forward"]

    def told(self, file: Path) -> str:
        """What is assumed because no workload says it."""
        seen, definition = workload_of(file), read_definition(file)
        numbers = [name for name, stated in definition.inputs.items() if stated.shape is None]
        ones = [f"{name} = 1" for name in numbers if name not in seen.get("inputs", {})]
        texts = [*([] if seen else [f"sizes of {_USUAL}"]), *ones]
        return f"; assumed, as no workload says it: {', '.join(texts)}" if texts else ""
