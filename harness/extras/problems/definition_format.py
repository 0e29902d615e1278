"""Problems that are definitions of FlashInfer Trace or SOL-ExecBench, with solutions in JSON."""

from pathlib import Path

from harness.core.model.errors import UsageError, notify
from harness.core.model.sweep_axes import AXES

from .definition_file import code_of, named_inputs, read_definition, workloads_of
from .formats import FileAxes, Format

# The axis of the sweep that an axis of this name is.
AXIS_OF = dict.fromkeys(("total_q", "num_tokens", "total_seq_len"), "seq_len")
# The axes of the sweep that may be those of a definition.
_SIZES = ("seq_len", "d_model", "num_heads", "batch_size")
# The size of an axis of which no workload is known.
_USUAL = 16


class Definitions(Format):
    """The format of FlashInfer Trace."""

    problem = "harness.extras.problems.trials.definition_problem:DefinitionProblem"

    def file_at(self, path: Path) -> Path | None:
        """The definition itself, or that of a directory."""
        file = path / "definition.json" if path.is_dir() else path
        return file if file.suffix == ".json" and file.is_file() else None

    def axes(self, file: Path) -> FileAxes:
        """Its variable axes, with the sizes of the first workload beside it."""
        definition = read_definition(file)
        workloads = workloads_of(file)
        seen = workloads[0].axes if workloads else {}
        axis_of, sizes = dict[str, str](), dict[str, int]()
        for name in definition.variable:
            if definition.axes[name].expression:
                continue
            meant = AXIS_OF.get(name, name)
            axis = name if meant in sizes else meant
            if axis in AXES and (axis in sizes or axis not in _SIZES):
                raise UsageError(f"{file}: its axis '{name}' is another one in a sweep: give it another name there")
            axis_of[name] = axis
            sizes[axis] = seen.get(name, _USUAL)
        return FileAxes(axis_of, sizes)

    def is_solution(self, layer: str) -> bool:
        """Whether it is a JSON file."""
        return layer.endswith(".json") and bool(code_of(Path(layer)))

    def solutions(self, file: Path) -> list[Path]:
        """Those of its directory that can run. What prevents others is told."""
        paths = sorted(file.parent.glob("solution*.json")) if file.name == "definition.json" else []
        solutions = []
        for path in paths:
            try:
                code_of(path)
                solutions.append(path)
            except UsageError as error:
                notify(str(error))
        return solutions

    def default_overrides(self, file: Path) -> list[str]:
        """A definition has one dtype, and no backward pass."""
        return [f"dtype={read_definition(file).dtype}", "mode=forward"]

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
        place = f"; these are the sizes of workload 1 of {len(workloads)}" if len(workloads) > 1 else ""
        if len(definition.outputs) > 1:
            place += "; of its outputs, the first is compared"
        return f"{place}; assumed, as no workload says it: {', '.join(assumed)}" if assumed else place
