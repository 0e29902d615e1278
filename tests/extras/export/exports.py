"""What the tests of exports share: runs of some rows, a run of which only the tables were kept, and an export."""

import json
import shutil
from pathlib import Path
from typing import Any

from attention_run import MACHINE
from rows import row

from harness.core.config import compose
from harness.core.model.sweep_axes import Case
from harness.core.results import row_files, run_directory
from harness.core.results.columns import table
from harness.core.results.stored_run import read_run_directory
from harness.extras import Exported
from harness.extras.export import FORMATS
from harness.extras.export.formats import OF_CASES, export

VIEWERS = ["liger-csv", "pytorch-hud", "huggingface-kernels"]
# The formats of a whole run that are not those of a viewer or of another extra.
WHOLE_RUN = [name for name, _, _ in FORMATS if name not in (*OF_CASES, *VIEWERS)]
BEGAN = 1_700_000_000.0


def timed(case: Case, *values_ms: float, **facts: Any) -> list[dict[str, Any]]:
    trials = [row(case, "time", i, samples_s=[value / 1e3], probe_s=1e-4) for i, value in enumerate(values_ms)]
    return [row(case, "verify"), row(case, "facts", **facts), *trials]


def failed(case: Case, status: str) -> list[dict[str, Any]]:
    return [row(case, "verify", status=status, reason=f"it is {status}")]


def write(path: Path, rows: list[dict[str, Any]], **machine: Any) -> Path:
    run_directory.create(path, compose([]).record, {**MACHINE, **machine})
    writer = row_files.RowWriter(path)
    for one in rows:
        writer.write({**one, "at": BEGAN})
    writer.close()
    return path


def publish(run: Path, path: Path) -> Path:
    """The run without its rows."""
    shutil.copytree(run, path)
    table(read_run_directory(run).lines).to_csv(path / "summary.csv", index=False)
    shutil.rmtree(path / "rows")
    return path


def exported(run: Path, name: str) -> Exported:
    return export(read_run_directory(run), name)


def strict(content: bytes) -> Any:
    """JSON as the standard has it: without NaN and infinities."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(content, parse_constant=refuse)
