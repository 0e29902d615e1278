"""The summary as Parquet: each column has its own type, with its unit in the field's metadata."""

import io
from typing import Any, get_type_hints

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from harness import __version__
from harness.case import AXES
from harness.errors import UsageError
from harness.export import Exported, unit
from harness.results.run_directory import StoredRun
from harness.results.table import COLUMNS, CaseResult

_TYPES: list[tuple[type, Any]] = [(str, pa.string()), (bool, pa.bool_()), (int, pa.int64()), (float, pa.float64())]


def export_parquet(stored: StoredRun) -> Exported:
    """Export every case, failed ones included.

    Raises UsageError if a cell does not have its column's type or exceeds 64 bits.
    """
    columns = []
    for field in _fields():
        cells = [getattr(line, field.name) for line in stored.lines]
        try:
            columns.append(pa.array(cells, type=field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"{stored.path}: a cell of column {field.name} is no {field.type}") from error
    schema = pa.schema(_fields(), metadata={"generator": f"attn-harness {__version__}"})
    file = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), file)
    return Exported(file.getvalue(), len(stored.lines))


def _fields() -> list[Any]:
    hints = get_type_hints(CaseResult)
    return [_field(name, hints[name]) for name in COLUMNS]


def _field(name: str, hint: Any) -> Any:
    kind = next(kind for kind, _ in _TYPES if kind in (hint, *getattr(hint, "__args__", ())))
    said = unit(name, is_number=kind in (int, float))
    metadata = {"unit": said} if said else None
    return pa.field(name, dict(_TYPES)[kind], nullable=name not in AXES, metadata=metadata)
