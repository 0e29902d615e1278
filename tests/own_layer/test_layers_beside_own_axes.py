"""A layer without an own axis is measured once, and compared with the layers that have it at each of their values."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from own_layer.paged_lines import lines
from own_layer.test_own_axes import REPEATS
from own_layer.test_own_layer import QUICK

from harness.cli.commands import main
from harness.core.model.layer_options import NO_OPTIONS
from harness.core.results.columns import CaseResult, lines_of_records
from harness.study.analyse import analyse
from harness.study.complete_lines import complete_lines
from harness.study.laws.crossovers import crossovers
from harness.study.report.figure_panels import own_axis_panels, panel_settings
from harness.study.report.html.page import page
from harness.study.report.plots.all_plots import over_own_axis
from harness.study.report.report_data import Contents, report_markdown
from harness.study.report.text.costs import tables_over_own_axes

WINDOWS = {"window=64", "window=128", "window=256"}


def both(baseline: str | None = None) -> list[CaseResult]:
    """Lines of a layer with three windows, and of one without."""
    plain = [
        {
            "impl": "sdpa.fused",
            "seq_len": n,
            "d_model": 64,
            "num_heads": 1,
            "options": NO_OPTIONS,
            "time_s": 1e-9 * n * n,
        }
        for n in (256, 512, 1024)
    ]
    return complete_lines([*lines(pages=(16,)), *lines_of_records(plain, bounded=False)], {}, baseline)[0]


def test_it_is_in_the_panel_of_each_value_and_has_no_panel_of_its_own() -> None:
    settings = panel_settings(both())
    assert {one.at["options"] for one in settings} == WINDOWS
    for setting in settings:
        (panel,) = setting.panels
        assert [(impl, len(panel.of(impl))) for impl in panel.impls()] == [("./paged.py:paged", 3), ("sdpa.fused", 3)]


def test_it_is_compared_with_the_others_at_each_value() -> None:
    found = {
        one.setting.options: one for one in crossovers(both()) if (one.metric, one.slower) == ("time", "sdpa.fused")
    }
    assert {one.faster for one in found.values()} == {"./paged.py:paged"}
    assert found.keys() == WINDOWS


def test_layers_with_different_own_axes_have_no_crossovers_and_the_reports_say_so() -> None:
    windows = lines(pages=(16,))
    text = windows[0].own_axes.replace("window", "state")
    states = [
        replace(line, impl="s", own_axes=text, options=line.options.replace("window", "state"))
        for line in windows
        if line.options != NO_OPTIONS
    ]
    of = complete_lines([*windows, *states], {})[0]
    contents = Contents(of, analyse(of))
    assert contents.apart == (
        "No crossovers between ./paged.py:paged (window) and s (state): their own axes differ. "
        "To compare two, keep one at its default."
    )
    assert contents.apart in " ".join(report_markdown(contents).split())
    assert contents.apart in page(contents)
    both_windows = both()
    assert Contents(both_windows, analyse(both_windows)).apart == ""


def test_it_is_the_baseline_of_each_value() -> None:
    time_s = {(line.options, line.seq_len): line.time_s for line in both()}
    ratios = {(line.options, line.seq_len): line.ratio for line in both("sdpa.fused")}
    assert ratios["window=256", 512] == pytest.approx((time_s["window=256", 512] or 0.0) / (1e-9 * 512 * 512))
    assert None not in ratios.values()


def test_it_is_a_row_of_the_table_and_a_line_in_the_picture_over_the_axis() -> None:
    (shown,) = tables_over_own_axes(both())
    assert [row[0] for row in shown.rows] == ["64", "128", "256", "sdpa.fused"]
    (panel,) = own_axis_panels(both())
    axes = over_own_axis(panel).axes[0]
    (level,) = (line for line in axes.lines if line.get_color() == "0.6")
    assert set(level.get_ydata()) == {1e-9 * 1024 * 1024}
    assert "sdpa.fused, n = 1024" in [text.get_text() for text in axes.texts]


@pytest.mark.usefixtures("forked_servers")
def test_a_sweep_measures_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = [
        "sweep",
        "impl=attention.window,sdpa.fused",
        "layer.reach=16,64",
        "seq_len=32",
        "d_model=16",
        "num_heads=2",
    ]
    assert main([*sweep, "--dry-run", "-v"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "harness: sdpa.fused: no option 'reach', so measured without it\n"
    cases = [line.split() for line in shown.out.splitlines() if line.startswith("impl=")]
    assert [(words[0], *(word for word in words if word.startswith("options="))) for words in cases] == [
        ("impl=attention.window", "options=reach=16"),
        ("impl=attention.window", "options=reach=64"),
        ("impl=sdpa.fused", "options=none"),
    ]


WRONG = """
from repeats import Repeats


class Reference(Repeats):
    axes = {}


class WrongAt(Repeats):
    wrong_times = (2, 4)
    reference = Reference

    def forward(self, x):
        return (1.5 if len(self.layers) in self.wrong_times else 1) * super().forward(x)


class WrongAtOne(WrongAt):
    wrong_times = (4,)
"""


@pytest.mark.usefixtures("forked_servers")
def test_a_size_that_fails_verification_stands_once_among_those_that_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "repeats.py").write_text(Path(REPEATS.partition(":")[0]).read_text())
    (tmp_path / "wrong.py").write_text(WRONG)
    layers = ["./repeats.py:Repeats", "./wrong.py:WrongAt", "./wrong.py:WrongAtOne"]
    assert main(["sweep", f"impl={','.join(layers)}", "layer.times=2,4", "seq_len=16", "d_model=16", *QUICK]) == 3
    wrong = {(layers[1], 2), (layers[1], 4), (layers[2], 4)}
    table = pd.read_csv("out/summary.csv")
    assert list(zip(table.impl, table.options, table.times, table.status, strict=True)) == [
        (impl, f"times={times}", times, "incorrect" if (impl, times) in wrong else "ok")
        for impl in layers
        for times in (2, 4)
    ]
    tables = Path("out/report.md").read_text().split("## ")
    of_sizes = [one for one in tables if one.partition("\n")[0].startswith("forward, times=")]
    assert [[one.count(f"| {impl} |") for impl in layers] for one in of_sizes] == [[1, 1, 1]] * 2
    shown = capsys.readouterr().out
    assert [shown.count(f"\n{impl} ") for impl in layers] == [1, 1, 1]
