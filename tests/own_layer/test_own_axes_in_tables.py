"""An axis that only its layer declares is in tables, pictures, cost models and claims: no package knows its name."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_layer.paged_lines import AXES, lines
from rich.console import Console

from harness.core.model.errors import UsageError
from harness.core.model.own_axes import at_size, own_size, stated_options, varied_axes, without_default_sizes
from harness.core.results.columns import CaseResult, table
from harness.study.analyse import Analysis, analyse
from harness.study.claims.claims_table import verdicts
from harness.study.complete_lines import complete_lines
from harness.study.laws.fitted_laws import FittedLaw, fit_laws
from harness.study.laws.predict import sizes_requested
from harness.study.report.figure_panels import drawn_settings, own_axis_panels, panel_settings
from harness.study.report.html.chart_data import chart_data
from harness.study.report.html.page import page
from harness.study.report.plots.all_plots import draw, over_own_axis
from harness.study.report.report_data import Contents, report_markdown, show_answer
from harness.study.report.text.costs import tables_over_own_axes


def law(metric: str) -> FittedLaw:
    (found,) = (one for one in fit_laws(lines()) if one.series.metric == metric)
    return found


def test_cost_models_are_in_both_letters() -> None:
    assert str(law("flops").law) == "256 n·w"
    assert {"w", "p"} <= set(law("time").own_exponents)
    time = law("time").predict(2048, 64, 1, 1, (("p", 16), ("w", 512)))
    assert time.value == pytest.approx(1e-6 + 1e-9 * 2048 * 512, rel=0.1)


def test_a_value_that_was_not_varied_cannot_be_predicted_and_its_key_is_named() -> None:
    (found,) = (one for one in fit_laws(lines(pages=(16,))) if one.series.metric == "flops")
    with pytest.raises(ValueError, match=r"layer.page_size=32 was requested, and the law of flops knows"):
        found.predict(512, 64, 1, 1, (("p", 32), ("w", 64)))


def test_a_claim_in_the_letters_is_one_verdict_for_all_values() -> None:
    (work,) = (one for one in verdicts(lines(), fit_laws(lines())) if one.quantity == "work")
    assert (work.claimed, work.verdict, work.reason) == ("4nwd", "confirmed", "to the last digit in 27 cases")


def test_tables_have_a_column_for_each_axis_that_varies() -> None:
    both, one = table(lines()), table(lines(pages=(16,)))
    assert set(zip(both.page_size, both.window, strict=True)) == {(p, w) for p in (8, 16, 32) for w in (64, 128, 256)}
    assert "page_size" not in one.columns
    assert sorted(set(one.window)) == [64, 128, 256]


def test_the_report_has_a_table_and_a_picture_over_each_axis() -> None:
    held = lines(pages=(16,))
    (shown,) = tables_over_own_axes(held)
    assert shown.title == "Time of one call over window"
    assert [row[0] for row in shown.rows] == ["64", "128", "256"]
    assert list(shown.columns) == ["window", "n=256", "n=512", "n=1024"]
    (panel,) = own_axis_panels(held)
    axes = over_own_axis(panel).axes[0]
    assert axes.get_xlabel() == "window"
    assert [list(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 3] == [[64, 128, 256]] * 3
    assert tables_over_own_axes(lines(pages=(16,), windows=(64,))) == []


def test_the_answer_precedes_tables_over_own_axes_which_begin_with_its_own_sizes() -> None:
    held = complete_lines([*lines(), *(replace(line, impl="z", own_axes=None) for line in lines((16,), (128,)))], {})[0]
    contents = Contents(held, analyse(held))
    abouts = [f"{one.title} {one.about}" for one in contents.over_own_axes]
    assert len(abouts) == 6
    assert ("over page_size" in abouts[0], "window = 256" in abouts[0]) == (True, True)
    assert ("over window" in abouts[1], "page_size = 32" in abouts[1]) == (True, True)
    console = Console(width=120, record=True, file=io.StringIO())
    show_answer(contents, console)
    for text in (console.export_text(), report_markdown(contents).replace("\\", ""), page(contents)):
        order = [text.find(one) for one in ("Fastest at n=1024", "Cost of one call", "over page_size")]
        assert -1 < min(order[:2]) < max(order[:2]) < order[2]
        assert "2 more" in text


def test_pictures_over_an_axis_are_named_by_what_differs(tmp_path: Path) -> None:
    window = [line for line in lines(pages=(16,)) if line.seq_len == 256]
    text = AXES.replace("window", "state")
    state = [replace(one, impl="s", own_axes=text, options=one.options.replace("window", "state")) for one in window]
    wide = [replace(line, impl="other", d_model=d) for line in window for d in (64, 128)]
    draw(tmp_path, [*window, *wide, *state], {})
    assert {path.stem for path in tmp_path.glob("time_over_*.png")} == {
        "time_over_state",
        "time_over_window_paged.py-paged_d64",
        "time_over_window_other_d64",
        "time_over_window_other_d128",
    }
    shutil.rmtree(tmp_path)
    draw(tmp_path, lines(pages=(8, 16)), {})
    found = {path.stem for path in tmp_path.glob("time_over_window*.png")}
    assert found == {"time_over_window_page_size8", "time_over_window_page_size16"}


def test_one_value_of_each_axis_is_drawn_over_n() -> None:
    settings = panel_settings(complete_lines(lines(), {})[0])
    assert len(settings) == 9
    (drawn,) = drawn_settings(settings)
    assert "page_size=32, window=256" in drawn.title
    timed = [line if "window=256" not in line.options else replace(line, time_s=None) for line in lines()]
    (drawn,) = drawn_settings(panel_settings(complete_lines(timed, {})[0]))
    assert "page_size=32, window=128" in drawn.title
    apart = panel_settings([replace(line, threads=2) if line.seq_len == 512 else line for line in lines()])
    assert len(drawn_settings(apart)) == 2


def test_settings_name_the_default_where_it_varies_and_are_in_the_order_of_its_values() -> None:
    titles = [one.title for one in panel_settings(complete_lines(lines(pages=(8, 16, 128)), {})[0])]
    assert [title.split(", ")[1:3] for title in titles[::3]] == [[f"page_size={p}", "window=64"] for p in (8, 16, 128)]


def test_the_page_has_a_filter_for_each_axis_that_varies_in_the_order_of_its_values() -> None:
    def filters(held: list[CaseResult]) -> dict[str, list[Any]]:
        axes = chart_data(Contents(complete_lines(held, {})[0], Analysis()))["axes"]
        return {one["label"]: one["values"] for one in axes if len(one["values"]) > 1}

    both = filters(lines(pages=(8, 16, 128)))
    assert both == {"page_size p": ["8", "16", "128"], "window w": ["64", "128", "256"]}
    assert list(filters(lines(pages=(16,)))) == ["window w"]
    shares = [
        replace(line, own_axes=None, options=options)
        for options in ("share=0.25", "bias=true+share=0.5", "share=1e-05")
        for line in lines((16,), (128,))
    ]
    assert filters(shares) == {"bias": ["true", "usual"], "share": ["1e-05", "0.25", "0.5"]}


@pytest.mark.parametrize(
    ("options", "size", "usual"),
    [
        ("none", (("p", 16), ("w", 128)), "none"),
        ("window=128", (("p", 16), ("w", 128)), "none"),
        ("bias=true+page_size=16+window=64", (("p", 16), ("w", 64)), "bias=true+window=64"),
    ],
)
def test_options_are_sizes_by_letter_and_usual_without_defaults(options: str, size: Any, usual: str) -> None:
    assert own_size(AXES, options) == size
    assert without_default_sizes(AXES, options) == usual
    assert own_size(AXES, stated_options(AXES, options)) == size
    assert at_size(AXES, options, "window", 128) == usual.replace("+window=64", "")


def test_layers_with_one_value_each_of_a_letter_stay_in_one_setting() -> None:
    others = json.dumps({"window": ["w", 64]})
    held = [
        replace(line, impl=impl, own_axes=text, options="none")
        for impl, text in (("./paged.py:paged", AXES), ("./other.py:other", others))
        for line in lines(pages=(16,), windows=(128,))
    ]
    assert varied_axes(held) == []
    assert {line.options for line in complete_lines(held, {})[0]} == {"none"}
    (setting,) = panel_settings(complete_lines([*held, *with_windows()], {})[0])[:1]
    assert {line.impl for panel in setting.panels for line in panel.lines} >= {"./paged.py:paged", "./other.py:other"}


def with_windows() -> list[CaseResult]:
    """Of a third layer, whose window varies."""
    return [replace(line, impl="./third.py:third") for line in lines(pages=(16,))]


def test_usual_options_can_be_chosen_where_a_run_has_others_too() -> None:
    held = [
        replace(line, own_axes=None, options=options)
        for line in lines((16,), (128,))
        for options in ("none", "bias=true")
    ]
    given = {"seq_len": [2048], "d_model": None, "num_heads": None, "batch_size": None, "options": "none"}
    (size,) = sizes_requested(given, fit_laws(held), "run")
    assert size.setting.options == "none"
    with pytest.raises(UsageError, match="choose one"):
        sizes_requested({**given, "options": None}, fit_laws(held), "run")


def test_a_misspelt_option_of_a_prediction_is_corrected() -> None:
    given = {"seq_len": [2048], "d_model": None, "num_heads": None, "batch_size": None, "options": "windw=3"}
    with pytest.raises(UsageError, match=r"^run has no layer\.windw; did you mean 'layer\.window'\?$"):
        sizes_requested(given, fit_laws(lines()), "run")
