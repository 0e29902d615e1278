"""A run in the formats of others' viewers: Liger's table, PyTorch's HUD, `kernels benchmark` and FlashInfer Trace.

Each has a template. Where a format has samples, each is the value of a trial. Cases with a suspect time are left out.
"""

import json
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import ChainableUndefined, Template

from harness.core.config.machine import part
from harness.core.layers.layer_files import files_unlike
from harness.core.model.errors import UsageError
from harness.core.model.file_io import to_csv
from harness.core.model.formatting import counted
from harness.core.model.layer_options import options_of
from harness.core.model.sweep_axes import DEFAULTS
from harness.core.results.columns import COLUMNS
from harness.core.results.row_files import row_paths
from harness.core.results.stored_run import StoredRun
from harness.core.run.scheduler import read_resume_state

from .definition_file import arguments_at, read_definition, read_solution
from .definition_format import Definitions
from .formats import files_of

# The bytes of a file, the number of its cases, and a sentence for each thing that the format cannot hold.
Exported = tuple[bytes, int, list[str]]
# What a template knows of each case, by name.
Cases = list[dict[str, Any]]


def export_liger(stored: StoredRun) -> Exported:
    """Export times and memory as rows of Liger's table."""
    rows, cases, notices = _exported(
        stored,
        "liger-csv",
        _described(stored, "ok"),
        "y_value_20 and y_value_80 are quantiles of trials, and of estimate-95 the ends of its 95 % interval",
    )
    return to_csv(pd.DataFrame(json.loads(rows))).encode(), cases, notices


def export_hud(stored: StoredRun) -> Exported:
    """Export time, peak memory, FLOPs and depth as records of the third version of PyTorch's HUD."""
    return _exported(stored, "pytorch-hud", _described(stored, "ok"), "extra_info has the 95 % interval of time_s")


def export_huggingface(stored: StoredRun) -> Exported:
    """Export the times of trials as `kernels benchmark` writes those of calls."""
    return _exported(
        stored,
        "huggingface-kernels",
        [case for case in _described(stored, "ok") if case["values_s"]],
        "an iteration is a trial in the run's rows; the estimate and its 95 % interval are left out",
    )


def export_flashinfer(stored: StoredRun) -> Exported:
    """Export a trace of each case of a solution of a definition. Raises UsageError for a file that has changed."""
    times = {str(line.case): line.time_s for line in stored.lines if line.suspect is None}
    cases = []
    for case in _described(stored, "ok", "incorrect", "timeout", "oom", "error"):
        line = case["line"]
        file, solution = files_of(line.impl.removeprefix("problem-file:"))
        if not solution.endswith(".json") or (line.status == "ok" and not line.time_s):
            continue
        if changed := files_unlike(part(part(stored.machine, "layers"), line.impl)):
            raise UsageError(f"{changed[0]} is not as it was measured: sweep it again")
        definition = read_definition(Path(file))
        axes = Definitions().axes(Path(file))
        sizes = {**axes.sizes, **options_of(line.options), **line.as_dict()}
        values = {name: sizes[axis] for name, axis in axes.axis_of.items()}
        case |= {
            "definition": definition,
            "axes": {name: definition.with_derived(values)[name] for name in definition.variable},
            "arguments": arguments_at(Path(file), definition.with_derived(values)),
            "solution": read_solution(Path(solution)),
            "reference_s": times.get(str(line.case).replace(f"+{solution}", "")),
        }
        cases.append(case)
    return _exported(
        stored,
        "flashinfer-trace",
        cases,
        "traces are of solutions of a definition, where their files are; errors of elements and offsets are left out",
    )


def _exported(stored: StoredRun, name: str, cases: Cases, notice: str) -> Exported:
    """The text of a template at these cases. Raises UsageError without a case."""
    left_out = f"{counted(len(stored.lines) - len(cases), 'case')} failed, suspect or without what {name} holds"
    if not cases:
        raise UsageError(f"{stored.path} has nothing to export: {left_out} ({notice})")
    notices = [notice] if len(cases) == len(stored.lines) else [f"{left_out} left out", notice]
    template = (Path(__file__).with_name("templates") / f"{name}.jinja").read_text("utf-8")
    content = Template(template, undefined=ChainableUndefined).render(
        cases=cases,
        machine=stored.machine,
        defaults=DEFAULTS,
        began=_began(stored.path),
        np=np,
    )
    return content.encode(), len(cases), notices


def _began(run: Path) -> str:
    """When the first row was written, in ISO format; `unknown` without a whole one."""
    with (
        suppress(OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError),
        row_paths(run)[0][0].open() as file,
    ):
        return datetime.fromtimestamp(json.loads(file.readline(16_000_000))["at"], UTC).isoformat()
    return "unknown"


def _described(stored: StoredRun, *statuses: str) -> Cases:
    """The cases of these statuses without a suspect time: the line, its finite columns, and its trials in seconds."""
    trials = read_resume_state(stored.path)[0].trials if (stored.path / "rows").is_dir() else {}
    cases = []
    for line in stored.lines:
        columns = {name: getattr(line, name) for name in COLUMNS if getattr(line, name) not in (None, inf)}
        values_s = [trial.value_s for trial in trials.get(line.case, ())]
        if line.suspect is None and line.status in statuses:
            cases.append({"line": line, "columns": columns, "values_s": values_s})
    return cases
