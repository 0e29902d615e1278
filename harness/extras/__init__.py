"""Extras: each folder adds itself to the tables of the harness (see `harness.core.model.extra_tables`).

This file has what several extras need, as they do not import one another.
"""

import json
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from harness.core.results.columns import CaseResult
    from harness.core.results.stored_run import StoredRun


def mean_interval(values: Any) -> tuple[float, float, float]:
    """The mean of the values, and the ends of its 95 % t-interval, which are infinite for a single value."""
    import numpy as np
    from scipy.special import stdtrit

    mean, number = float(np.mean(values)), len(values)
    if number < 2:
        return mean, -inf, inf
    half = float(stdtrit(number - 1, 0.975) * np.std(values, ddof=1) / number**0.5)
    return mean, mean - half, mean + half


class Exported(NamedTuple):
    """The bytes of a file, its number of cases, and a sentence for each thing that the format cannot hold."""

    content: bytes
    cases: int
    notices: Collection[str] = ()


def export_by_template(
    stored: "StoredRun", template: Path, cases: Collection[Any], notice: str, **context: Any
) -> Exported:
    """Export some cases of a run as the text of a template, which also sees the `context`.

    A case is whatever the template reads. The notices count the other cases of the run, and say the `notice`. Raises
    UsageError without a case.
    """
    from jinja2 import ChainableUndefined, Template

    from harness.core.model.errors import UsageError
    from harness.core.model.formatting import counted

    left = len(stored.lines) - len(cases)
    left_out = f"{counted(left, 'case')} failed, suspect or without what {template.stem} holds"
    if not cases:
        raise UsageError(f"{stored.path} has nothing to export: {left_out} ({notice})")
    notices = [f"{left_out} left out", notice] if left else [notice]
    of_run = {"machine": stored.machine, "began": began(stored.path) or "unknown", "known_columns": known_columns}
    writer = Template(template.read_text("utf-8"), undefined=ChainableUndefined)
    return Exported(writer.render(cases=cases, **of_run, **context).encode(), len(cases), notices)


def began(run: Path) -> str | None:
    """When the first row of a run was written, in ISO format; None without a row that says it."""
    from harness.core.results.row_files import row_paths

    for path in row_paths(run)[0]:
        # An incomplete row, a foreign one, or one from before rows had a time.
        with suppress(Exception), path.open("rb") as rows:
            return datetime.fromtimestamp(float(json.loads(rows.readline(16_000_000))["at"]), UTC).isoformat()
    return None


def known_columns(line: "CaseResult") -> dict[str, Any]:
    """The columns of the line that are neither None nor an infinite or NaN float."""
    from harness.core.results.columns import COLUMNS

    columns = {name: getattr(line, name) for name in COLUMNS}
    return {
        name: cell
        for name, cell in columns.items()
        if isinstance(cell, str | int) or (cell is not None and isfinite(cell))
    }
