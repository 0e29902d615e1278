"""The static roofline."""

from study.report.found import some_findings, some_lines

from harness.study.report.figure_panels import fullest_panel, panel_settings
from harness.study.report.plots.all_plots import roofline


def test_every_case_of_the_fullest_panel_stands_under_the_roof_with_its_layers_name() -> None:
    lines = some_lines()
    found = some_findings(lines)
    forward, train = panel_settings(lines)
    figure = roofline(forward, found.roofs, found.roof_points)
    (axes,) = figure.axes
    points = sum(len(drawn.get_offsets()) for drawn in axes.collections if type(drawn).__name__ == "PathCollection")
    panel = fullest_panel(forward.panels)
    assert points == sum(line.time_s is not None for line in panel.lines)
    texts = [text.get_text() for text in axes.texts]
    assert {"200 GFLOP/s peak", *panel.impls()} <= set(texts)
    assert len(texts) == len(set(texts))
    assert figure.texts[1].get_text().startswith("d = 256, h = 8; forward")
    assert roofline(train, found.roofs, found.roof_points) is None


def test_without_a_roof_there_is_no_picture() -> None:
    lines = some_lines()
    (forward, _) = panel_settings(lines)
    assert roofline(forward, [], some_findings(lines).roof_points) is None
