"""What runs export of problems: traces of FlashInfer's solutions."""

from pathlib import Path

from harness.core.config.machine import part
from harness.core.layers.layer_files import files_unlike
from harness.core.model.errors import UsageError
from harness.core.model.layer_options import options_of
from harness.core.results.stored_run import StoredRun
from harness.extras import Exported, export_by_template

from .definition_file import arguments_at, read_definition, read_solution
from .definition_format import Definitions
from .formats import files_of


def export_traces(stored: StoredRun) -> Exported:
    """Export a trace of each case of a solution of a definition. Raises UsageError for a file that has changed."""
    times = {str(line.case): line.time_s for line in stored.lines if line.suspect is None}
    cases = []
    for line in stored.lines:
        problem, solution = files_of(line.impl.removeprefix("problem-file:"))
        is_traced = line.status in ("incorrect", "timeout", "oom", "error") or (line.status == "ok" and line.time_s)
        if not solution.endswith(".json") or line.suspect is not None or not is_traced:
            continue
        if changed := files_unlike(part(part(stored.machine, "layers"), line.impl)):
            raise UsageError(f"{changed[0]} is not as it was measured: sweep it again")
        file = Path(problem)
        definition = read_definition(file)
        axes = Definitions().axes(file)
        sizes = {**axes.sizes, **options_of(line.options), **line.as_dict()}
        values = definition.with_derived({name: sizes[axis] for name, axis in axes.axis_of.items()})
        case = {
            "line": line,
            "definition": definition,
            "axes": {name: values[name] for name in definition.variable},
            "arguments": arguments_at(file, values),
            "solution": read_solution(Path(solution)),
            "reference_s": times.get(str(line.case).replace(f"+{solution}", "")),
        }
        cases.append(case)
    return export_by_template(
        stored,
        Path(__file__).with_name("templates") / "flashinfer-trace.jinja",
        cases,
        "traces are of solutions of a definition, where their files are; errors of elements and offsets are left out",
    )
