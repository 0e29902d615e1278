"""What runs export as problems: traces of FlashInfer's solutions, and a layer as a problem file or a definition.

A problem file of KernelBench and a definition of FlashInfer Trace call a layer with x (b, n, d) and nothing else. Their
templates import the layer.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from harness.core.config.machine import part
from harness.core.layers.layer_files import files_unlike
from harness.core.model.errors import UsageError
from harness.core.model.layer_options import options_of
from harness.core.results.columns import CaseResult
from harness.core.results.stored_run import StoredRun
from harness.core.run.executor import short_executor
from harness.extras import Exported, export_by_template

from .definition_file import arguments_at, read_definition, read_solution
from .definition_format import Definitions
from .formats import files_of

_TEMPLATES = Path(__file__).with_name("templates")


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
        _TEMPLATES / "flashinfer-trace.jinja",
        cases,
        "traces are of solutions of a definition, where their files are; errors of elements and offsets are left out",
    )


def export_problem(stored: StoredRun, cases: Sequence[CaseResult]) -> Exported:
    """The problem file of a case, whose sizes are its integers.

    Raises UsageError for several cases, and if the layer takes more than x.
    """
    return _written(cases, "problem.py.jinja")


def export_definition(stored: StoredRun, cases: Sequence[CaseResult]) -> Exported:
    """The definition of a case, in which only the batch and the length vary.

    Raises UsageError as `export_problem` does, and for a layer that is not known to have no weights.
    """
    line = cases[0]
    if line.weights_bytes is None:
        raise UsageError(f"the run does not know whether {line.impl} has weights: give --format kernelbench")
    if line.weights_bytes:
        raise UsageError(f"{line.impl} has weights, and a definition has none: give --format kernelbench")
    return _written(cases, "definition.json.jinja")


def _written(cases: Sequence[CaseResult], template: str) -> Exported:
    line, *more = cases
    if more:
        raise UsageError("a problem has one case: give --case once")
    with short_executor() as executor:
        described = executor.ask("describe_call", replace(line.case, mode="forward", device="cpu"))
    if not described.ok:
        raise UsageError(f"{line.impl} cannot be exported: {described.reason}")
    call = described.values
    layer, has_source = call["layer"], call["inputs"] is not None or call["source_len"]
    refusals = {
        "a problem has no mode=decode": line.mode == "decode",
        "it takes other inputs than one x": has_source,
        "its mask is a tensor, which no problem has: give mask=none": "attn_mask" in layer["keywords"],
    }
    for reason, holds in refusals.items():
        if holds:
            raise UsageError(f"{line.case} cannot be exported: {reason}")
    place, _, name = layer["target"].rpartition(":")
    notices = {
        f"{line.case} is {line.status} in this run: {line.reason}": line.status != "ok",
        f"the file imports {place}, which must be found where the file is used": not place.startswith("impls."),
        "every call of the file includes `prepare`, and no call of the run does: their costs differ": layer["prepares"],
    }
    templates = Environment(loader=FileSystemLoader(_TEMPLATES), trim_blocks=True, lstrip_blocks=True)
    text = templates.get_template(template).render(line=line, place=place, name=name, call=call, **layer)
    return Exported(text.encode() + b"\n", 1, [notice for notice, holds in notices.items() if holds])
