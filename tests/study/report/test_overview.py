"""The overview: which layers it shows, and sentences that say no more than the data support."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from rows import usual_lines
from study.report.many import many_lines

from harness.core.model.sweep_axes import Setting
from harness.core.results.columns import CaseResult
from harness.study.analyse import analyse
from harness.study.laws.crossovers import Crossover
from harness.study.laws.laws import Range
from harness.study.report.chart import Curve, Point
from harness.study.report.figure_panels import MEMORY, TIME, panel_settings
from harness.study.report.overview import Overview, overview, overview_layers
from harness.study.report.plots.cost_overview import cost_overview
from harness.study.report.report_data import Contents
from harness.study.report.text.growth import depth_sentence, exponent_sentence, names_of, ratio_sentence
from impls.registry import IMPLS

SHOWN = ["rnn.elman", "rnn.torch", "attention.naive", "attention.fused"]


def with_depth(line: CaseResult) -> CaseResult:
    return replace(line, depth=3 * line.seq_len + 1 if line.family == "rnn" else 7)


def known_overview(lines: Sequence[CaseResult]) -> Overview:
    (found,) = Contents(lines, analyse(lines)).overviews
    return found


def crossed(slower: str, faster: str, n: float | None, lo: float | None, hi: float | None) -> Crossover:
    setting = Setting.of(usual_lines()[0])
    return Crossover(slower, faster, setting, "time", 256, 8, 1, n, lo, hi, 64, 2048)


def with_crossovers(*found: Crossover, lines: Sequence[CaseResult] = ()) -> Overview:
    (setting,) = panel_settings(lines or usual_lines())
    facet = (tuple(setting.at.values()), 256, 8)
    made = overview(setting, {}, {facet: list(found)})
    assert made is not None
    return made


def test_it_shows_time_memory_and_depth_of_the_fullest_panel_with_what_to_see() -> None:
    found = known_overview([with_depth(line) for line in usual_lines()])
    assert found.title == "rnn.torch is the fastest above n = 750 (512 – 1024)"
    assert found.caption == "d = 256, h = 8; forward, float32, batch 1, cpu, 1 thread; bars: 95 % confidence intervals"
    assert {chart.title: chart.message for chart in found.charts.values()} == {
        "Time per call": "At n = 2048, rnn.torch grows as n^1.0; attention.* grow as n^1.8.",
        "Peak memory per call": (
            "From n = 1024 to 2048, attention.fused and rnn.torch grow as n^1.0; attention.naive grows as n^2.0."
        ),
        "Sequential depth": "rnn.torch runs 3n + 1 operations one after another; attention.* run 7 at every n.",
    }
    assert found.crossing is not None
    assert found.crossing.label == "n = 750 (512 – 1024)"


def test_a_cost_that_nobody_measured_has_no_chart() -> None:
    assert list(known_overview(usual_lines()).charts) == ["time", "memory"]


def test_it_marks_from_which_n_on_one_layer_is_the_fastest() -> None:
    found = with_crossovers(
        crossed("attention.naive", "rnn.torch", 500.0, 450.0, 560.0),
        crossed("attention.fused", "rnn.torch", 812.0, 745.0, 887.0),
    )
    assert found.crossing is not None
    assert found.title == "rnn.torch is the fastest above n = 812 (745 – 887)"
    assert (found.crossing.impl, found.crossing.lo, found.crossing.hi) == ("rnn.torch", 745.0, 887.0)


def test_from_which_n_on_a_layer_is_the_fastest_is_left_out_while_one_comparison_is_open() -> None:
    found = with_crossovers(
        crossed("attention.naive", "rnn.torch", 500.0, 450.0, 560.0),
        crossed("attention.fused", "rnn.torch", None, 128.0, None),
    )
    assert found.crossing is None
    assert found.title == "rnn.torch is the fastest at n = 2048"


def test_without_a_clear_winner_the_title_names_the_layers_that_the_table_marks_too() -> None:
    rnn_s = {line.seq_len: line.time_s for line in usual_lines() if line.impl == "rnn.torch" and line.d_model == 256}
    alike = [
        line
        if line.impl != "attention.fused" or line.d_model != 256 or not (time_s := rnn_s[line.seq_len])
        else replace(line, time_s=1.01 * time_s, time_lo_s=0.9 * time_s, time_hi_s=1.1 * time_s)
        for line in usual_lines()
    ]
    found = with_crossovers(
        crossed("attention.naive", "rnn.torch", 0.0, 0.0, 0.0),
        crossed("attention.naive", "attention.fused", 0.0, 0.0, 0.0),
        crossed("attention.fused", "rnn.torch", None, 128.0, None),
        lines=alike,
    )
    assert found.title == "No clear winner at n = 2048: rnn.torch and attention.fused are within measurement error"


def test_layers_with_suspect_times_alone_have_no_fastest() -> None:
    suspects = [replace(line, suspect="too fast") for line in usual_lines()]
    assert known_overview(suspects).title.startswith("From n = 64 to 2048, the time per call grows ")


def test_a_single_layer_has_its_growth_as_title_and_not_twice() -> None:
    found = known_overview([with_depth(line) for line in usual_lines() if line.family == "rnn"])
    assert found.title == "From n = 64 to 2048, the time per call grows 32-fold"
    assert found.title not in {chart.message.removesuffix(".") for chart in found.charts.values()}


def test_a_bar_wider_than_its_axis_is_told_in_the_caption() -> None:
    lines = [replace(line, time_lo_s=1e-12) if line.seq_len == 64 else line for line in usual_lines()]
    caption = known_overview(lines).caption
    assert "; bars: 95 % confidence intervals (arrow heads: beyond the axis)" in caption
    assert caption.endswith("; hollow: not to be compared, the interval spans more than a factor of 10")


def test_a_layer_that_is_surely_the_fastest_at_the_end_has_no_crossing_where_noise_could_make_one() -> None:
    found = with_crossovers(
        crossed("attention.naive", "rnn.torch", None, 0.0, 512.0),
        crossed("attention.fused", "rnn.torch", 0.0, 0.0, 0.0),
    )
    assert found.crossing is None
    assert found.title == "rnn.torch is the fastest at every n measured from 512 on; below that, this is not sure"
    earlier = with_crossovers(
        crossed("attention.naive", "rnn.torch", None, 0.0, 512.0),
        crossed("attention.fused", "rnn.torch", 812.0, 745.0, 887.0),
    )
    assert earlier.crossing is not None
    assert earlier.title == "rnn.torch is the fastest above n = 812 (745 – 887)"
    everywhere = [crossed(f"attention.{name}", "rnn.torch", 0.0, 0.0, 0.0) for name in ("naive", "fused")]
    assert with_crossovers(*everywhere).title == "rnn.torch is the fastest at every n measured"


def test_of_many_layers_the_fastest_of_each_family_are_shown() -> None:
    lines = many_lines()
    impls, how = overview_layers(panel_settings(lines)[0].panels[-1])
    families = [impl.split(".")[0] for impl in impls]
    assert len(set(families)) == len(families) <= 10
    assert "rnn.elman" in impls  # the first one costs the least
    assert how.startswith(f"{len(impls)} of ")
    few, nothing = overview_layers(panel_settings(many_lines(list(IMPLS)[:10]))[0].panels[-1])
    assert (len(few), nothing) == (10, "")


def test_a_layer_with_a_suspect_time_is_not_the_fastest_of_its_family() -> None:
    def chosen(lines: list[CaseResult]) -> list[str]:
        return overview_layers(panel_settings(lines)[0].panels[-1])[0]

    lines = many_lines()
    assert "rnn.elman" in chosen(lines)
    assert "rnn.elman" not in chosen(
        [replace(line, suspect="too fast" if line.impl == "rnn.elman" else None) for line in lines]
    )


def test_names_at_the_ends_of_lines_never_overlap() -> None:
    figure = cost_overview(known_overview([with_depth(line) for line in many_lines(list(IMPLS)[:10])]))
    figure.draw_without_rendering()
    for axes in figure.axes:
        ends = [text for text in axes.texts if text.get_text() in IMPLS]
        assert len(ends) == 10
        boxes = sorted((text.get_window_extent() for text in ends), key=lambda box: box.y0)
        assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))


@pytest.mark.parametrize(
    ("exponents", "says"),
    [
        (
            {"rnn.elman": 1.0, "rnn.torch": 1.0, "attention.fused": 1.8},
            "rnn.* grow as n^1.0; attention.fused grows as n^1.8",
        ),
        (dict.fromkeys(SHOWN, 1.0), "all layers grow as n^1.0"),
        ({"rnn.elman": 0.0, "attention.naive": 2.0}, "rnn.elman stays constant; attention.naive grows as n^2.0"),
        ({}, ""),
    ],
)
def test_exponents_form_groups_where_they_are_surely_apart(exponents: dict[str, float], says: str) -> None:
    known = {impl: Range(value, value - 0.02, value + 0.02) for impl, value in exponents.items()}
    known |= {"attention.naive": Range(1.5, 0.5, 2.5)} if "attention.naive" not in exponents and exponents else {}
    sentence = exponent_sentence(known, "At n = 2048", SHOWN)
    assert sentence == (f"At n = 2048, {says}." if says else "")


def test_exponents_whose_intervals_overlap_are_one_range() -> None:
    known = {"rnn.elman": Range(1.0, 0.8, 1.3), "attention.naive": Range(1.45, 1.25, 1.7)}
    assert exponent_sentence(known, "Here", SHOWN) == "Here, rnn.elman and attention.naive grow as n^0.8 – n^1.7."


def curve(
    impl: str, values: Sequence[float], spread: float | None = None, hosts: Sequence[str | None] = (None,) * 3
) -> Curve:
    points = []
    for i, (value, host) in enumerate(zip(values, hosts, strict=False)):
        lo, hi = (None, None) if spread is None else (value / spread, value * spread)
        points.append(Point(64 * 2**i, value, lo, hi, n=64 * 2**i, host=host))
    return Curve(impl, points)


def test_a_ratio_names_the_layers_only_if_their_intervals_are_apart() -> None:
    apart = [curve("a.a", [1, 2, 4], 1.1), curve("b.b", [1, 4, 16], 1.1)]
    assert ratio_sentence(apart, TIME) == "From n = 64 to 256, the time per call grows 4.0-fold (a.a) to 16-fold (b.b)."
    close = [curve("a.a", [1, 2, 4], 1.2), curve("b.b", [1, 2, 5], 1.2)]
    assert ratio_sentence(close, TIME) == "From n = 64 to 256, the time per call grows 3.1 to 6.5-fold."
    assert ratio_sentence([curve("a.a", [1, 2, 4], 5.0)], TIME) == ""
    assert ratio_sentence([curve("a.a", [1, 2, 4])], TIME) == ""
    assert ratio_sentence([curve("a.a", [1])], MEMORY) == ""


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (["n1", "n1", "n1"], "From n = 64 to 256, the time per call grows 3.5 to 4.6-fold."),
        (["n1", "n2", "n3,n1"], ""),
        ([None, "n2", "n1"], "From n = 64 to 256, the time per call grows 3.5 to 4.6-fold."),
        (["n1", "n1", "n2"], ""),
        (["n1,n3", "n1", "n2"], ""),
    ],
)
def test_times_of_two_hosts_have_no_ratio(hosts: list[str | None], said: str) -> None:
    of_hosts = curve("a.a", [1, 2, 4], 1.1, hosts)
    assert ratio_sentence([of_hosts], TIME) == said
    assert ratio_sentence([of_hosts], MEMORY) == "From n = 64 to 256, the peak memory per call grows 4.0-fold."


def test_depth_is_a_formula_where_one_is_exact_and_a_number_otherwise() -> None:
    found = [curve("rnn.elman", [193, 385]), curve("attention.naive", [7, 7]), curve("attention.fused", [5, 5])]
    assert (
        depth_sentence(found, {"rnn.elman": "3n + 1"})
        == "rnn.elman runs 3n + 1 operations one after another; attention.* run 5 – 7 at every n."
    )
    assert depth_sentence(found[:1], {}) == "rnn.elman runs 385 operations one after another at n = 128."
    assert depth_sentence(found[1:], {}) == "All layers run 5 – 7 operations one after another at every n."
    assert depth_sentence([curve("attention.naive", [7])], {}) == ""


def test_a_whole_family_has_one_name_and_many_names_become_a_count() -> None:
    assert names_of(["rnn.torch", "rnn.elman"], SHOWN) == "rnn.*"
    assert names_of(["rnn.torch", "attention.fused"], SHOWN) == "rnn.torch and attention.fused"
    mine = ["mine:A", "mine:B"]
    assert names_of(mine, [*SHOWN, *mine]) == "mine:A and mine:B"
    many = [f"{family}.x" for family in "abcde"]
    assert names_of(many[:4], many) == "4 layers"
    assert names_of(many[:4], many, are_others=True) == "the other layers"
