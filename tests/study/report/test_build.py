"""From a run's rows to its tables and plots, measuring nothing."""

import errno
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import seaborn as sns
from rows import SIZES, attention_time, measured, row, usual_lines

from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.results import row_files, run_directory
from harness.study.report.background_plots import BackgroundPlots
from harness.study.report.build import build
from harness.study.report.chart import PALETTE, looks_of
from harness.study.report.figure_panels import TIME, panel_settings, readable_setting
from harness.study.report.plots.all_plots import speedup
from harness.study.report.plots.curves import curves
from harness.study.report.report_data import Contents


def make_run(path: Path, rows: Sequence[dict]) -> Path:
    run_directory.create(path, compose([]).record, {})
    writer = row_files.RowWriter(path)
    for one in rows:
        writer.write(one)
    writer.close()
    return path


def rows_of_a_run() -> list[dict]:
    cases = [Case(impl, n, 128, 2) for impl in ("attention.naive", "attention.fused") for n in SIZES]
    rows = [one for case in cases for one in measured(case, attention_time(case), 8 * case.seq_len**2)]
    return [*rows, row(Case("attention.packed", 2048, 128, 2), "facts", status="oom", reason="out of memory")]


Built = tuple[Path, tuple[Contents, list[str]]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that nothing was made of."""
    return make_run(tmp_path / "run", rows_of_a_run())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A run with its tables and pictures, and what was said of it."""
    run = make_run(tmp_path_factory.mktemp("built") / "run", rows_of_a_run())
    with BackgroundPlots() as drawing:
        return run, build(run, drawing)


@pytest.fixture(scope="module")
def torn(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The same run of which only the rows are left, the last one torn, and what was made of it again."""
    run = tmp_path_factory.mktemp("torn") / "run"
    shutil.copytree(built[0], run, ignore=shutil.ignore_patterns("*.csv", "report.*", "plots"))
    (rows,) = (run / "rows").iterdir()
    with rows.open("ab") as file:
        file.write(b'{"schema": 1, "key"')
    return run, build(run)


def test_a_run_gets_its_tables_and_plots(built: Built) -> None:
    run, (said, _) = built
    assert said.notices == []
    assert len(pd.read_csv(run / "summary.csv")) == 13
    assert set(pd.read_csv(run / "laws.csv").metric) == {"time", "memory"}
    for name in ("time", "memory", "speedup"):
        assert (run / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (run / "plots" / f"{name}.svg").read_text()
    assert {"claim", "claimed", "verdict"} & set(pd.read_csv(run / "claims.csv").columns)
    assert {"slower", "faster", "seq_len"} <= set(pd.read_csv(run / "crossovers.csv").columns)


def test_without_drawing_everything_is_written_but_the_plots(torn: Built) -> None:
    run, (_, written) = torn
    assert set(written) == {path.name for path in run.iterdir()} - {"config.yaml", "machine.json", "rows"}
    assert "plots" not in {path.name for path in run.iterdir()}


def test_a_run_gets_its_reports(torn: Built) -> None:
    run, _ = torn
    html, markdown = (run / "report.html").read_text(), (run / "report.md").read_text()
    assert html.startswith("<!doctype html>")
    assert html.rstrip().endswith("</html>")
    for text in (html, markdown):
        assert "no clear winner" in text


def test_building_again_from_the_rows_alone_gives_the_same_tables(built: Built, torn: Built) -> None:
    for table in ("summary.csv", "laws.csv", "claims.csv", "crossovers.csv"):
        assert (torn[0] / table).read_text() == (built[0] / table).read_text()


def test_a_torn_last_line_costs_only_itself(built: Built, torn: Built) -> None:
    assert torn[1][0].lines == built[1][0].lines
    assert len(torn[1][0].notices) == 1


def test_a_run_of_nothing_but_failures_still_has_its_table(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [row(Case("rnn.elman", 8, 4, 1), "verify", status="incorrect", reason="off")])
    with BackgroundPlots() as drawing:
        build(run, drawing)
    assert pd.read_csv(run / "summary.csv").status.tolist() == ["incorrect"]
    assert list((run / "plots").iterdir()) == []


def test_a_run_without_rows_has_an_empty_table(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [])
    assert build(run)[0].lines == []
    assert len(pd.read_csv(run / "summary.csv")) == 0


def test_a_spoilt_configuration_is_named(run: Path) -> None:
    (run / "config.yaml").write_text("precision: 3\n")
    with pytest.raises(UsageError, match=r"config\.yaml is not a sweep's configuration"):
        build(run)


def test_a_table_in_whose_place_something_else_is_is_named(run: Path) -> None:
    (run / "summary.csv").mkdir()
    with pytest.raises(UsageError, match=rf"^{run}/summary\.csv: Is a directory$"):
        build(run)
    assert not [path for path in run.iterdir() if path.name.endswith(".part")]


def test_where_a_report_has_no_room_the_rows_are_said_to_be_safe(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("harness.study.report.build.write_atomically", full)
    with pytest.raises(UsageError) as caught:
        build(run)
    assert str(caught.value) == (
        f"{run}: No space left on device: all that was measured is in its rows: "
        "make room, and give the same command again"
    )


def test_an_impl_has_the_same_colour_whoever_stands_beside_it() -> None:
    alone, together = looks_of(["rnn.torch"]), looks_of(["a.b:C", "rnn.torch", "attention.naive"])
    assert alone["rnn.torch"] == together["rnn.torch"]
    assert len(set(together.values())) == len(together)


def test_the_colours_are_seaborns_for_colour_blind_readers() -> None:
    assert tuple(sns.color_palette("colorblind").as_hex()) == PALETTE


def test_a_failed_case_is_marked_where_it_would_have_been() -> None:
    lines = [
        replace(line, status="oom", time_s=None, time_lo_s=None, time_hi_s=None)
        if (line.impl, line.seq_len) == ("rnn.torch", 2048)
        else line
        for line in usual_lines(heads=(2,), widths=(128,))
    ]
    (setting,) = panel_settings(lines)
    (axes,) = [axes for axes in curves(setting, TIME).axes if axes.get_title()]
    (mark,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert mark.get_xdata()[0] == 2048
    assert mark.get_ydata()[0] == pytest.approx(4 * 2048 * 128**2 / 2e10, rel=1e-6)
    assert "oom" in [text.get_text() for text in axes.texts]


def test_speed_up_is_over_the_naive_layer_at_the_same_n_d_and_h() -> None:
    (setting,) = panel_settings(usual_lines())
    figure = speedup(setting)
    (axes,) = [axes for axes in figure.axes if axes.get_title() == "attention.fused, h = 8"]
    assert {text.get_text() for text in axes.texts} == {"2.0"}


def test_a_speed_up_within_the_measurement_error_has_no_colour() -> None:
    lines = [
        replace(line, time_lo_s=line.time_s / 3, time_hi_s=line.time_s * 3, time_in_law_s=None)
        if line.impl == "attention.fused"
        else line
        for line in usual_lines()
    ]
    figure = speedup(panel_settings(lines)[0])
    unsure = {}
    for axes in figure.axes:
        cells = axes.collections[0].get_array().ravel()
        marked = [text.get_text().startswith("~") for text in axes.texts]
        assert marked == [value == 0 for value in cells]
        unsure[axes.get_title()] = sum(marked)
    assert unsure["attention.fused, h = 8"] == 12
    assert unsure["rnn.torch, h = 8"] < 12
    assert figure.get_suptitle() == (
        "Up to 7.2 times as fast as attention.naive (rnn.torch), down to 0.90 times (rnn.torch)"
    )


def test_without_the_naive_layer_there_is_nothing_to_be_faster_than() -> None:
    (setting,) = panel_settings([line for line in usual_lines() if line.impl != "attention.naive"])
    assert speedup(setting) is None


def test_a_picture_of_many_widths_and_heads_shows_some_with_the_ends_and_says_so() -> None:
    widths, heads = tuple(range(32, 32 * 11, 32)), (1, 2, 4, 8, 16)
    (setting,) = panel_settings(usual_lines(heads, widths))
    some = readable_setting(setting)
    assert sorted({panel.d_model for panel in some.panels}) == [32, 128, 224, 320]
    assert sorted({panel.num_heads for panel in some.panels}) == [1, 2, 8, 16]
    assert some.title.endswith("(16 of 50 panels)")
    (small,) = panel_settings(usual_lines())
    assert readable_setting(small) is small
