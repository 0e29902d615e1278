"""Costs against n of more layers than one pair of axes has room for: each family has its own, each curve its name."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from study.report.many import many_lines, without

from harness.core.results.columns import CaseResult
from harness.study.report.chart import looks_of
from harness.study.report.figure_panels import MEMORY, TIME, panel_settings
from harness.study.report.overview import overview_layers
from harness.study.report.plots.curves import curves, spread_labels
from impls.registry import IMPLS

PLAIN = ("rnn", "attention", "conv")
LADDER = [*(name for name in IMPLS if name.split(".")[0] in PLAIN), "encoder.naive"]


def drawn(lines: Sequence[CaseResult]) -> Figure:
    (setting,) = panel_settings(lines)
    return curves(setting, TIME)


def shown(figure: Figure) -> dict[str, Axes]:
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def names(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_text()]


@pytest.fixture(scope="module")
def ladder() -> Figure:
    return drawn(many_lines(LADDER))


def test_each_family_has_axes_and_small_ones_share_them(ladder: Figure) -> None:
    assert list(shown(ladder)) == ["rnn", "attention", "conv, encoder"]


def test_each_curve_has_its_name_at_its_end_without_what_the_title_says(ladder: Figure) -> None:
    axes = shown(ladder)
    of_rnns = [name for name in LADDER if name.startswith("rnn.")]
    assert sorted(names(axes["rnn"])) == sorted(name.removeprefix("rnn.") for name in of_rnns)
    assert sorted(names(axes["conv, encoder"])) == ["conv.conv1d", "encoder.naive"]


def test_names_stand_in_the_order_of_their_curves_and_on_no_other(ladder: Figure) -> None:
    ladder.draw_without_rendering()
    for axes in shown(ladder).values():
        boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
        assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(sorted(boxes, key=lambda box: box.y0)))
    ends = sorted((line.time_s, line.impl) for line in many_lines(LADDER) if line.seq_len == 512)
    from_below = [name.removeprefix("attention.") for _, name in ends if name.startswith("attention.")]
    assert names(shown(ladder)["attention"]) == from_below


def test_the_other_families_are_grey_behind(ladder: Figure) -> None:
    for axes in shown(ladder).values():
        marked = [line for line in axes.lines if line.get_marker() not in ("None", None, "")]
        assert len(marked) == len(names(axes))
        assert len(axes.lines) == len(LADDER) + 2  # and two guides


def test_a_failed_case_is_marked_among_its_own_family_alone() -> None:
    axes = shown(drawn(without(many_lines(LADDER), "rnn.gru", "oom", "full", from_n=512)))
    crosses = {title: sum(line.get_marker() == "x" for line in one.lines) for title, one in axes.items()}
    assert crosses == {"rnn": 1, "attention": 0, "conv, encoder": 0}


def test_of_many_widths_those_at_the_ends_are_shown() -> None:
    lines = many_lines(LADDER)
    figure = drawn([replace(line, d_model=d) for d in (32, 64, 128) for line in lines])
    assert [title for title in shown(figure) if title.startswith("rnn")] == [
        "rnn, d = 32, h = 2",
        "rnn, d = 128, h = 2",
    ]
    assert any("(2 of 3 panels)" in text.get_text() for text in figure.texts)


def test_no_two_layers_look_alike() -> None:
    every = looks_of(IMPLS)
    assert len(set(every.values())) == len(every)
    for colour in {look.colour for look in every.values()}:
        alike = [look for look in every.values() if look.colour == colour][:4]
        assert len({look.dash for look in alike}) == len({look.marker for look in alike}) == len(alike)


def test_up_to_ten_layers_of_any_families_have_ten_colours() -> None:
    names = list(IMPLS)
    for some in (names[:10], names[-10:], ["rnn.elman", *names[5:14]], ["own:A", "own:B", *names[20:28]]):
        assert len({look.colour for look in looks_of(some).values()}) == 10


def test_layers_that_an_overview_of_many_shows_have_different_colours() -> None:
    fastest = ("rnn.linear_scan", "attention.fused.math", "conv.conv1d", "encoder.naive")
    held = [replace(line, time_s=line.time_s / (100 if line.impl in fastest else 1)) for line in many_lines(LADDER)]
    (setting,) = panel_settings(held)
    impls, _ = overview_layers(setting.panels[0])
    assert set(impls) == set(fastest)
    assert len({setting.looks[impl].colour for impl in impls}) == 4
    assert len(set(setting.looks.values())) == len(LADDER)


def test_layers_of_one_family_share_a_colour_only_if_the_family_has_more_than_the_palette() -> None:
    every = looks_of(IMPLS)
    rnn = [look.colour for impl, look in every.items() if impl.startswith("rnn.")]
    conv = [look.colour for impl, look in every.items() if impl.startswith("conv.")]
    assert len(set(rnn)) == 10
    assert len(set(conv)) == len(conv)


def test_a_setting_without_a_value_of_one_kind_has_no_picture_of_it() -> None:
    (setting,) = panel_settings([replace(line, peak_bytes=None) for line in many_lines(LADDER[:12])])
    assert curves(setting, MEMORY) is None
    assert curves(setting, TIME) is not None


@pytest.mark.parametrize(
    ("wanted", "placed"),
    [
        ([], []),
        ([0.2, 0.9], [0.2, 0.9]),
        ([0.5, 0.5], [0.45, 0.55]),
        ([0.0, 0.0, 0.0], [0.0, 0.1, 0.2]),
        ([0.5, 0.5, 0.9, 1.0], [0.45, 0.55, 0.9, 1.0]),
        ([0.98, 0.99], [0.9, 1.0]),
    ],
)
def test_names_keep_apart_and_as_near_to_their_curves_as_they_can(wanted: list[float], placed: list[float]) -> None:
    assert spread_labels(wanted, 0.1) == pytest.approx(placed)


def test_a_chart_the_same_in_a_picture_of_a_part_of_the_run() -> None:
    whole = many_lines(LADDER[:12])
    looks = looks_of(line.impl for line in whole)
    part = [line for line in whole if line.impl == LADDER[9]]
    (setting,) = panel_settings(part, looks)
    figure = curves(setting, TIME)
    assert figure is not None
    colours = {line.get_color() for line in figure.axes[0].lines if line.get_marker() not in ("None", None, "")}
    assert colours == {looks[LADDER[9]].colour}
    assert colours != {looks_of([LADDER[9]])[LADDER[9]].colour}
