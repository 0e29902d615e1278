"""The picture of error against time, and its Pareto front."""

from dataclasses import replace

import pytest
from study.report.found import some_lines

from harness.study.report.figure_panels import PanelSetting, fullest_panel, panel_settings
from harness.study.report.plots.all_plots import _accuracy_title, accuracy
from harness.study.report.point_charts import accuracy_chart, error_of, pareto_front

# By layer: the error at every n.
ERRORS = {"rnn.torch": 2e-7, "attention.fused": 3e-7, "attention.naive": 1e-7}


def with_errors(errors: dict[str, float] = ERRORS) -> PanelSetting:
    lines = [replace(line, output_error=errors.get(line.impl), accuracy_by="64 rows, R") for line in some_lines()]
    return panel_settings(lines)[0]


def test_the_front_holds_the_layers_of_which_none_is_both_faster_and_more_accurate() -> None:
    points = [(3.0, 1.0), (1.0, 3.0), (2.0, 2.0), (2.5, 2.5), (4.0, 1.0)]
    assert pareto_front(points) == [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]


def test_every_case_with_a_time_and_an_error_is_a_point() -> None:
    panel = fullest_panel(with_errors().panels)
    chart = accuracy_chart(panel)
    assert chart is not None
    known = {(line.impl, line.seq_len) for line in panel.lines if line.time_s and line.impl in ERRORS}
    assert {(curve.impl, point.n) for curve in chart.curves for point in curve.points} == known
    assert all(error == ERRORS[curve.impl] for curve in chart.curves for error in curve.y)
    (front,) = chart.guides
    assert front.x == sorted(front.x)


def test_a_suspect_time_is_no_point() -> None:
    lines = [replace(line, output_error=1e-7, suspect="too fast") for line in some_lines()]
    assert accuracy_chart(fullest_panel(panel_settings(lines)[0].panels)) is None


def test_an_error_of_0_has_a_place_too() -> None:
    chart = accuracy_chart(fullest_panel(with_errors({**ERRORS, "rnn.torch": 0.0}).panels))
    assert chart is not None
    assert min(error for curve in chart.curves for error in curve.y) == pytest.approx(3e-8)


def test_of_a_case_with_a_backward_pass_the_larger_error_counts() -> None:
    line = replace(some_lines()[0], output_error=2e-7, gradient_error=5e-7)
    assert error_of(line) == 5e-7
    assert error_of(replace(line, gradient_error=1e-7)) == 2e-7


def test_the_plot_names_its_layers_and_the_most_accurate_one() -> None:
    figure = accuracy(with_errors())
    assert figure is not None
    assert figure.get_suptitle().startswith("attention.naive is the most accurate at n = ")
    (axes,) = figure.axes
    assert {text.get_text() for text in axes.texts} >= ERRORS.keys()


def test_a_layer_measured_at_a_larger_n_too_is_compared_at_the_n_of_the_front() -> None:
    # Only attention.naive, the most accurate, has a larger n than the front.
    setting = with_errors()
    panel = fullest_panel(setting.panels)
    largest = max(line.seq_len for line in panel.lines if line.time_s)
    lines = [line for line in panel.lines if line.impl in ERRORS and line.seq_len <= largest]
    longest = [line for line in lines if line.impl == "attention.naive" and line.time_s][-1]
    alone = replace(longest, seq_len=2 * largest)
    setting = replace(setting, panels=(replace(panel, lines=(*lines, alone)),))
    chart = accuracy_chart(setting.panels[0])
    assert chart is not None
    assert chart.n < 2 * largest
    assert min(chart.guides[0].y) == ERRORS["attention.naive"]
    figure = accuracy(setting)
    assert figure is not None
    assert figure.get_suptitle().startswith(f"attention.naive is the most accurate at n = {chart.n}")


def test_of_many_layers_those_on_the_front_and_the_fastest_of_each_family_are_named() -> None:
    fast = [line for line in some_lines() if line.impl == "rnn.torch" and line.time_s]
    lines = [
        replace(
            one, impl=f"{family}.{i}", family=family, time_s=(i + 1 + later) * (one.time_s or 1.0), output_error=error
        )
        for family, later, error in (("rnn", 0, 2e-7), ("attention", 9, 3e-7))
        for i in range(8)
        for one in fast
    ]
    figure = accuracy(panel_settings(lines)[0])
    assert figure is not None
    assert {text.get_text() for text in figure.axes[0].texts if "." in text.get_text()} == {"rnn.0", "attention.0"}


def test_errors_that_are_alike_name_no_most_accurate_layer() -> None:
    figure = accuracy(with_errors({**ERRORS, "rnn.torch": 1.2e-7}))
    assert figure is not None
    title = " ".join(figure.get_suptitle().split())
    assert title == "At n = 2048, the errors of the 2 most accurate layers are alike, about 1.0e-07"


def test_of_two_layers_that_are_alike_the_title_says_both() -> None:
    places = {"own:a": (1.0, 1.0e-7), "own:b": (2.0, 1.2e-7)}
    assert _accuracy_title(places, 64) == "At n = 64, the errors of both layers are alike, about 1.0e-07"
    more = {**places, "own:c": (3.0, 1.0e-7)}
    assert _accuracy_title(more, 64) == "At n = 64, the errors of all 3 layers are alike, about 1.0e-07"


def test_without_errors_there_is_no_picture() -> None:
    assert accuracy(with_errors({})) is None
