"""What the tests of exports share: a run of which only the tables were kept, and an export of a run."""

import json
import shutil
from pathlib import Path
from typing import Any

from harness.core.results.columns import table
from harness.core.results.stored_run import read_run_directory
from harness.extras.export import FORMATS
from harness.extras.export.formats import Exported, export

# The formats of a whole run that are not those of another extra.
WHOLE_RUN = [name for name, _, _ in FORMATS if name != "script"]


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
