"""Costs against n, of few layers and of many."""

from dataclasses import replace

import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.figure import Figure
from study.report.many import SIZES, many_lines, without

from harness.core.results.columns import CaseResult
from harness.study.report.chart import MARKERS
from harness.study.report.figure_panels import DEPTH, TIME, panel_settings
from harness.study.report.plots.curves import curves
from harness.study.report.plots.style import GUIDE
from impls.registry import IMPLS

TEN, ELEVEN = list(IMPLS)[:10], list(IMPLS)[:11]
AWAY = "attention.flash_attn"


def drawn(lines: list[CaseResult]) -> tuple[Figure, Axes, list[str]]:
    """The figure, its panel, and what its legend names."""
    (setting,) = panel_settings(lines)
    figure = curves(setting, TIME)
    return figure, figure.axes[0], [text.get_text() for text in figure.legends[0].get_texts()]


def bars(axes: Axes) -> int:
    return sum(isinstance(one, LineCollection) for one in axes.collections)


def widths(axes: Axes) -> set[float]:
    """The widths of the lines with markers."""
    return {line.get_linewidth() for line in axes.lines if line.get_marker() in MARKERS}


def names(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def crosses(axes: Axes) -> int:
    return sum(line.get_marker() == "x" for line in axes.lines)


def test_intervals_are_bars_at_their_points_unless_there_are_more_than_ten_layers() -> None:
    _, few, _ = drawn(many_lines(TEN))
    _, many, _ = drawn(many_lines(ELEVEN))
    assert bars(few) == 10 * len(SIZES)
    assert bars(many) == 0
    assert not any(isinstance(one, PolyCollection) for one in few.collections)


def test_all_lines_are_equally_wide() -> None:
    for impls in (TEN, ELEVEN):
        assert len(widths(drawn(many_lines(impls))[1])) == 1


def test_a_bar_wider_than_the_axis_ends_there_with_arrow_heads_and_the_caption_says_so() -> None:
    first, *others = many_lines(TEN[:2])
    figure, axes, _ = drawn([replace(first, time_lo_s=1e-12, time_hi_s=1e6), *others])
    assert bars(axes) == 1 + len(others)
    heads = [tuple(one.get_offsets()[0]) for one in axes.collections if isinstance(one, PathCollection)]
    assert heads == [(first.seq_len, limit) for limit in axes.get_ylim()]
    said = "bars: 95 % confidence intervals (arrow heads: beyond the axis)"
    assert said in " ".join(figure.texts[1].get_text().split())
    assert "arrow heads" not in " ".join(drawn([first, *others])[0].texts[1].get_text().split())


def guides(axes: Axes) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if line.get_color() == GUIDE]


def test_guides_go_back_from_above_the_highest_cost_at_the_largest_n() -> None:
    lines = many_lines(TEN[:2])
    last = max(line.time_s for line in lines if line.seq_len == SIZES[-1])
    for power, (n, values) in enumerate(guides(drawn(lines)[1]), start=1):
        assert n[-1] == SIZES[-1]
        assert last < values[-1] < 2 * last
        assert values[0] / values[-1] == pytest.approx((n[0] / SIZES[-1]) ** power)


def test_depth_has_no_guide_of_n_squared() -> None:
    (setting,) = panel_settings([replace(line, depth=3 * line.seq_len) for line in many_lines(TEN[:2])])
    figure = curves(setting, DEPTH)
    assert len(guides(figure.axes[0])) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["∝ n"]


def test_the_title_says_how_much_the_cost_grows() -> None:
    figure, _, _ = drawn(many_lines(TEN[:2]))
    assert figure.get_suptitle() == "From n = 64 to 512, the time per call grows 7.2 to 8.9-fold"


def test_panels_with_equal_curves_share_their_axes() -> None:
    lines = [replace(line, depth=7, d_model=d) for d in (32, 64) for line in many_lines(TEN[:2])]
    (setting,) = panel_settings(lines)
    assert [axes.get_title() for axes in curves(setting, DEPTH).axes] == ["every d and h"]
    assert [axes.get_title() for axes in curves(setting, TIME).axes] == ["every d and h"]
    halved = [replace(line, depth=4 if line.d_model == 32 else 7) for line in lines]
    (setting,) = panel_settings(halved)
    assert [axes.get_title() for axes in curves(setting, DEPTH).axes] == ["d = 32, h = 1", "d = 64, h = 1"]


def test_an_adapter_that_is_not_installed_is_no_news_in_a_picture() -> None:
    _, axes, named = drawn(without(many_lines([*TEN, AWAY]), AWAY, "unsupported", "not installed"))
    assert crosses(axes) == 0
    assert AWAY not in named
    assert not any("failed" in text for text in named)


def test_of_few_an_unsupported_case_of_a_measured_impl_is_marked() -> None:
    _, axes, named = drawn(without(many_lines(TEN), TEN[0], "unsupported", "too long", from_n=512))
    assert crosses(axes) == 1
    assert any("failed" in text for text in named)


def test_of_many_no_unsupported_case_is_marked_and_other_failures_are() -> None:
    lines = without(many_lines(ELEVEN), ELEVEN[0], "unsupported", "too long", from_n=512)
    assert crosses(drawn(lines)[1]) == 0
    assert crosses(drawn(without(lines, ELEVEN[1], "oom", "full", from_n=256))[1]) == 2


def test_of_many_no_name_stands_beside_what_has_no_value() -> None:
    some = list(IMPLS)[:12]
    _, axes, named = drawn(without(many_lines(some), some[1], "incorrect", "off"))
    assert "elman" in names(axes)
    assert "torch" not in names(axes)
    assert not set(some).intersection(named)
    assert crosses(axes) == 0


def test_a_panel_in_which_nothing_is_supported_takes_no_tick_from_the_others() -> None:
    lines = many_lines(TEN)
    wide = [replace(line, d_model=64, status="unsupported", reason="odd", time_s=None) for line in lines]
    figure, axes, _ = drawn([*lines, *(replace(line, impl="their.own:Layer", family="own") for line in wide)])
    assert len(figure.axes) == 2
    assert list(axes.get_xticks()) == [64, 128, 256, 512]


def test_a_run_in_which_nothing_is_supported_has_no_picture() -> None:
    (setting,) = panel_settings(without(many_lines([AWAY]), AWAY, "unsupported", "not installed"))
    assert curves(setting, TIME) is None


def test_curves_that_lie_on_each_other_take_turns_in_dashes_and_markers() -> None:
    alike = [replace(line, depth=3 * line.seq_len) for line in many_lines(TEN[:3])]
    apart = [replace(line, depth=7) if line.impl == TEN[2] else line for line in alike]
    (setting,) = panel_settings(apart)
    figure = curves(setting, DEPTH)
    assert figure is not None
    looks = setting.looks
    first, second, alone = (
        next(line for line in figure.axes[0].lines if line.get_color() == looks[impl].colour) for impl in TEN[:3]
    )
    assert list(first.get_markevery()) == [0, 2]
    assert list(second.get_markevery()) == [1, 3]
    assert list(alone.get_markevery()) == [0, 1, 2, 3]


def test_a_case_whose_interval_is_too_wide_is_hollow_and_the_caption_says_so() -> None:
    lines = many_lines(TEN[:2])
    wide = [replace(line, time_lo_s=(line.time_s or 0.0) / 20) if line.seq_len == 128 else line for line in lines]
    figure, axes, _ = drawn(wide)
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert [list(line.get_xdata()) for line in hollow] == [[128], [128]]
    assert any("hollow: not to be compared" in text.get_text().replace("\n", " ") for text in figure.texts)
    _, axes, _ = drawn(lines)
    assert not [line for line in axes.lines if line.get_markerfacecolor() == "white"]
