"""Problems that are definitions of FlashInfer Trace, with solutions in JSON."""

from pathlib import Path

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import AXES

from .definition_file import is_definition, named_inputs, read_definition, read_solution, workloads_of
from .formats import FileAxes, Format

# The axis of the sweep that an axis of this name is.
AXIS_OF = {
    **dict.fromkeys(("seq_len", "total_q", "num_tokens", "total_seq_len"), "seq_len"),
    "batch_size": "batch_size",
}
# The axes of the sweep that may be those of a definition.
_SIZES = ("seq_len", "d_model", "num_heads", "batch_size")
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
        definition = read_definition(file)
        workloads = workloads_of(file)
        seen = workloads[0].axes if workloads else {}
        axis_of, sizes = dict[str, str](), dict[str, int]()
        for name in definition.variable:
            if name in definition.one_more:
                continue
            meant = AXIS_OF.get(name, name)
            axis = name if meant in axis_of.values() else meant
            if axis in AXES and (axis in axis_of.values() or axis not in _SIZES):
                raise UsageError(f"{file}: its axis '{name}' is another one in a sweep: give it another name there")
            axis_of[name] = axis
            sizes[axis] = seen.get(name, _USUAL)
        return FileAxes(axis_of, sizes)

    def is_solution(self, layer: str) -> bool:
        """Whether it is a JSON file."""
        if not layer.endswith(".json"):
            return False
        read_solution(Path(layer))
        return True

    def default_overrides(self, file: Path) -> list[str]:
        """A definition has one dtype, and no backward pass."""
        return [f"dtype={read_definition(file).dtype}", "mode=forward"]

    def missing_parts(self, path: Path) -> str:
        """The parts that every definition has."""
        return "a definition has axes, inputs and a reference" if path.suffix == ".json" else ""

    def notice(self, file: Path) -> str:
        """Which workload has the sizes, and what is assumed because no workload says it."""
        definition = read_definition(file)
        workloads = workloads_of(file)
        assumed = [] if workloads else [f"sizes of {_USUAL}"]
        for name, stated in definition.inputs.items():
            if stated.shape is None and name not in named_inputs(file):
                if stated.optional:
                    assumed.append(f"{name} = None")
                elif not definition.init:
                    assumed.append(f"{name} = 1")
        place = ""
        if len(workloads) > 1:
            place = f"; these are the sizes of workload 1 of {len(workloads)}"
        return f"{place}; assumed, as no workload says it: {', '.join(assumed)}" if assumed else place
