"""A published figure stands beside the measured one of the same layer at the same place."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from extras.papers.settings import paper, timed

from harness.core.results.columns import CaseResult
from harness.extras.papers.claims import FigureComparison, PublishedFindings, figures_beside

NAIVE = timed("sdpa.naive", lambda n: 4e-3 * n / 256)
FLASH = timed("sdpa.flash", lambda n: 1e-3 * n / 256)


def found(lines: list[CaseResult], rows: dict[str, list[Any]], **table: Any) -> list[FigureComparison]:
    columns = [256, 512, 4096]
    told = {"title": "T", "quantity": "time_ms", "source": "S"}
    held = {**told, "along": "seq_len", "columns": columns, "rows": rows, **table}
    return figures_beside(paper(tables=[held]), lines)


def published_table(comparisons: list[FigureComparison]) -> pd.DataFrame:
    return PublishedFindings(paper(), comparisons, []).tables["published.csv"]


def test_each_figure_is_held_against_its_own_n() -> None:
    first, second, third = found(NAIVE, {"sdpa.naive": [2, 4, 100]})
    assert (first.ratio, second.ratio) == (pytest.approx(2), pytest.approx(2))
    assert (third.known, third.ended, third.case) == (None, "not measured", "")
    assert third.ratio is None


def test_a_ratio_is_of_two_layers_at_one_point() -> None:
    first, *_ = found([*NAIVE, *FLASH], {"sdpa.naive / sdpa.flash": [2, None, None]})
    assert first.known == pytest.approx((4, 4 * 0.986, 4 * 1.0143), rel=1e-3)
    assert first.ratio == pytest.approx(2)


def test_a_layer_without_heads_is_held_against_one_with_any_number_of_them() -> None:
    loop = timed("rnn.elman", lambda n: 8e-3)
    first, *_ = found([*FLASH, *loop], {"rnn.elman / sdpa.flash": [4, None, None]})
    assert first.ratio == pytest.approx(2)


def test_what_ended_without_a_number_says_how() -> None:
    broken = [replace(line, time_s=None, status="oom") for line in NAIVE]
    rows = {"sdpa.naive": ["oom", None, None], "sdpa.naive / sdpa.flash": [1, None, None]}
    first, second = found([*broken, *FLASH], rows)
    assert (first.figure.ended, first.ended) == ("oom", "oom")
    assert second.ratio is None
    table = published_table(found([*broken, *FLASH], {"sdpa.naive": ["oom", 3, 5]}))
    assert table.published_ended.tolist() == ["oom", "", ""]
    assert table.measured_ended.tolist() == ["oom", "oom", "not measured"]
    assert table.published.tolist()[1:] == [3, 5]
    assert table.measured.isna().all()


def test_it_is_found_by_what_the_table_is_at() -> None:
    masked = [replace(line, mask="causal", time_s=1.0) for line in NAIVE]
    first, *_ = found([*masked, *NAIVE], {"sdpa.naive": [4, None, None]}, at={"mask": "none", "head_dim": 64})
    assert first.ratio == pytest.approx(1)
    nowhere, *_ = found([*masked, *NAIVE], {"sdpa.naive": [4, None, None]}, at={"head_dim": 32})
    assert nowhere.ended == "not measured"


def test_the_table_has_a_line_a_figure_with_its_source_and_the_case_to_measure_again() -> None:
    table = published_table(
        found(NAIVE, {"sdpa.naive": [2, 4, 100]}, source="table 2", second_hand="a summary", hardware="A100")
    )
    assert table.published.tolist() == [2, 4, 100]
    assert table["at"].tolist() == ["seq_len=256", "seq_len=512", "seq_len=4096"]
    assert table.ratio.tolist()[:2] == pytest.approx([2, 2])
    assert table.source.unique().tolist() == ["table 2"]
    assert table.hardware.unique().tolist() == ["A100"]
    assert table.second_hand.unique().tolist() == ["a summary"]
    assert table.case[0] == NAIVE[0].case.key
