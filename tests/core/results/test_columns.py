"""The table of columns: its order is a file format, and the data dictionary derives from it."""

from rows import usual_lines

from harness.core.model.sweep_axes import AXES
from harness.core.results.columns import COLUMNS, COUNTS


def test_a_case_comes_first_and_what_was_measured_of_it_follows() -> None:
    names = [*COLUMNS]
    assert names[:4] == ["impl", "family", "seq_len", "d_model"]
    assert {"impl", *names[2 : 1 + len(AXES)]} == AXES.keys()


def test_every_column_is_described_and_every_number_has_a_unit() -> None:
    assert [one.name for one in COLUMNS.values() if not one.about] == []
    assert [one.name for one in COLUMNS.values() if (one.type in (int, float)) is not bool(one.unit)] == []


def test_a_line_holds_its_case_and_its_results() -> None:
    line = usual_lines()[0]
    assert line.case.as_dict() == {axis: getattr(line, axis) for axis in AXES} == line.as_dict()
    assert all(COLUMNS[name].type is int for name in COUNTS)
