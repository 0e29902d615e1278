"""The plot of the gain of each step from one layer to the next."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib.colors
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from rows import usual_lines
from study.report.many import SIZES, many_lines, without

from harness.core.results.columns import CaseResult
from harness.study.report.figure_panels import panel_settings
from harness.study.report.plots.all_plots import draw, failed_rows, ladder, ladder_rows
from impls.registry import IMPLS

ELEVEN = list(IMPLS)[:11]


def figure_of(lines: list[CaseResult]) -> Figure:
    (setting,) = panel_settings(lines)
    figure = ladder(setting)
    assert figure is not None
    return figure


def dots(figure: Figure, column: int) -> list[PathCollection]:
    return [one for one in figure.axes[column].collections if isinstance(one, PathCollection)]


def test_it_is_made_where_more_than_ten_are_timed_and_else_not() -> None:
    for lines, made in ((usual_lines(), False), (many_lines(ELEVEN[:10]), False), (many_lines(ELEVEN), True)):
        (setting,) = panel_settings(lines)
        assert (ladder(setting) is not None) is made
    assert ladder(panel_settings(without(many_lines(ELEVEN), ELEVEN[3], "oom", "full"))[0]) is None


def test_a_run_of_many_gets_it_among_its_pictures(tmp_path: Path) -> None:
    draw(tmp_path, many_lines(ELEVEN), {})
    assert {"ladder.png", "ladder.svg"} <= {path.name for path in tmp_path.iterdir()}


def test_rows_stand_in_the_registrys_order_by_family_and_somebodys_own_after() -> None:
    own = "their.module:TheirLayer"
    (setting,) = panel_settings(many_lines([own, *reversed(IMPLS)]))
    found = ladder_rows(setting.panels[0])
    families = [name.split(".")[0] for name in found[:-1]]
    assert found[-1] == own
    assert [name for name in found if name.startswith("attention.")] == [
        name for name in IMPLS if name.startswith("attention.")
    ]
    assert len(set(families)) == 1 + sum(a != b for a, b in pairwise(families))


def test_each_n_has_a_dot_in_both_columns_darker_the_larger_it_is() -> None:
    figure = figure_of(many_lines(ELEVEN))
    for column in (0, 1):
        assert len(dots(figure, column)) == len(ELEVEN)
        for row, one in enumerate(dots(figure, column)):
            assert {y for _, y in one.get_offsets()} == {row}
            shades = [sum(matplotlib.colors.to_rgb(colour)) for colour in one.get_facecolors()]
            assert len(shades) == len(SIZES)
            assert shades == sorted(shades, reverse=True)


def test_the_interval_at_the_largest_n_is_a_bar() -> None:
    lines = many_lines(ELEVEN)
    figure = figure_of(lines)
    last = next(line for line in lines if line.impl == ELEVEN[0] and line.seq_len == SIZES[-1])
    bars = [one.get_segments()[0] for one in figure.axes[0].collections if isinstance(one, LineCollection)]
    assert [(last.time_lo_s, 0), (last.time_hi_s, 0)] in [list(map(tuple, bar)) for bar in bars]


def test_an_interval_that_knows_nothing_does_not_squeeze_the_dots() -> None:
    lines = [replace(line, time_lo_s=1e-30, time_hi_s=1e30) for line in many_lines(ELEVEN)]
    lo, hi = figure_of(lines).axes[0].get_xlim()
    times = [line.time_s for line in lines]
    assert lo > min(times) / 10
    assert hi < max(times) * 10


def test_what_is_unsupported_everywhere_has_no_row_and_other_failures_are_told_at_theirs() -> None:
    lines = without(many_lines(list(IMPLS)[:14]), ELEVEN[1], "unsupported", "not installed")
    lines = without(lines, ELEVEN[2], "oom", "full", from_n=256)
    figure = figure_of(without(lines, ELEVEN[4], "incorrect", "off"))
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert ELEVEN[1] not in names
    told = {names[round(text.get_position()[1])]: text.get_text() for text in figure.axes[1].texts}
    assert told == {ELEVEN[2]: "oom from n = 256", ELEVEN[4]: "incorrect"}


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        (("ok", "ok", "ok", "ok"), ""),
        (("oom",) * 4, "oom"),
        (("ok", "ok", "ok", "timeout"), "timeout at n = 512"),
        (("unsupported", "unsupported", "ok", "ok"), "unsupported at n = 64 and 128"),
        (("ok", "error", "oom", "oom"), "error at n = 128, oom from n = 256"),
        (("oom", "ok", "oom", "oom"), "oom at 3 of 4 n"),
        (("error", "error", "error", "ok"), "error at 3 of 4 n"),
    ],
)
def test_a_rows_failures_in_words(statuses: tuple[str, ...], said: str) -> None:
    lines = [replace(line, status=status) for line, status in zip(many_lines(["rnn.gru"]), statuses, strict=True)]
    assert failed_rows(panel_settings(lines)[0].panels[0], "rnn.gru") == said


def test_it_is_of_the_fullest_panel_and_says_which() -> None:
    lines = many_lines(ELEVEN)
    wide = [replace(line, d_model=64) for line in lines if line.seq_len == 64]
    assert "d = 32, h = 1" in figure_of([*lines, *wide]).get_suptitle()


def test_memory_that_nobody_knows_leaves_its_column_empty(tmp_path: Path) -> None:
    figure = figure_of([replace(line, peak_bytes=None) for line in many_lines(ELEVEN)])
    figure.savefig(tmp_path / "ladder.png")
    assert dots(figure, 1) == []


def test_of_many_sizes_the_legend_names_some_with_the_ends() -> None:
    lines = many_lines(ELEVEN)
    every = [replace(line, seq_len=line.seq_len * k) for line in lines for k in (1, 16, 256)]
    (legend,) = figure_of(every).legends
    named = [text.get_text() for text in legend.get_texts()]
    assert len(named) == 7
    assert (named[0], named[5]) == ("n = 64", str(512 * 256))
