"""The static roofline."""

from report.found import some_findings, some_lines

from harness.report.figure_panels import panel_settings
from harness.report.plots.overviews import roofline


def test_every_case_of_the_setting_stands_under_the_roof() -> None:
    lines = some_lines()
    found = some_findings(lines)
    forward, train = panel_settings(lines)
    figure = roofline(forward, found.roofs, found.roof_points)
    (axes,) = figure.axes
    points = sum(len(drawn.get_offsets()) for drawn in axes.collections if type(drawn).__name__ == "PathCollection")
    assert points == len(found.roof_points)
    assert "200 GFLOP/s peak" in [text.get_text() for text in axes.texts]
    assert roofline(train, found.roofs, found.roof_points) is None


def test_without_a_roof_there_is_no_picture() -> None:
    lines = some_lines()
    (forward, _) = panel_settings(lines)
    assert roofline(forward, [], some_findings(lines).roof_points) is None
