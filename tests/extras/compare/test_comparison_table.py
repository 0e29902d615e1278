"""`comparison.csv`, and the same on the terminal."""

import math
from dataclasses import replace
from io import StringIO

import pandas as pd
import pytest
from extras.compare.comparisons import CASE, blocks, comparison, line, of_lines
from rich.console import Console

from harness.core.model.sweep_axes import AXES
from harness.extras.compare.report import (
    Comparison,
    closing_sentence,
    comparison_table,
    outcomes_of,
    show_comparison,
)
from harness.study.check.reporters import GateReport

ASKED = ["verdict", "ratio", "ratio_lo", "ratio_hi", "blocks", "smallest_detectable", "control"]


def written(found: Comparison) -> pd.DataFrame:
    return pd.read_csv(StringIO(comparison_table(found).to_csv(index=False)))


def test_the_columns_are_the_axes_then_what_was_found() -> None:
    frame = written(comparison([blocks(1.2, again=1.25), blocks(1.0)]))
    assert list(frame.columns)[: len(AXES) + len(ASKED)] == [*AXES, *ASKED]
    first = frame.iloc[0]
    assert (first.impl, first.seq_len, first.allocator) == ("attention.fused", 64, "steady")
    assert (first.verdict, first.blocks, first.control, first.base) == ("slower", 48, "held", "attention.fused")
    assert first.ratio_lo < first.ratio < first.ratio_hi
    assert first.ratio == pytest.approx(1.25, abs=0.01)
    assert 0.03 < first.smallest_detectable < 0.1
    assert (first.memory_verdict, first.memory_ratio, first.flops_verdict) == ("equivalent", 1.0, "equivalent")


def test_what_is_not_known_is_an_empty_cell() -> None:
    frame = written(of_lines(line(CASE), line(CASE, "error", "no such luck"), None))
    (row,) = frame.itertuples()
    assert (row.verdict, row.blocks, row.control, row.reason) == (
        "unmeasured",
        0,
        "none",
        "head: error: no such luck",
    )
    assert all(math.isnan(value) for value in (row.ratio, row.ratio_lo, row.ratio_hi, row.smallest_detectable))
    few = written(comparison([blocks(1.0, number=4)])).iloc[0]
    assert few.ratio == pytest.approx(1.0)
    assert math.isnan(few.ratio_hi)


def test_of_no_pairs_it_still_has_its_columns() -> None:
    assert list(written(Comparison((), ())).columns)[: len(AXES)] == list(AXES)


def shown(found: Comparison, width: int = 120) -> str:
    console = Console(file=StringIO(), width=width)
    show_comparison("compare [b]x[/]", found, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [20, 40, 79])
def test_a_narrow_terminal_loses_no_verdict(width: int) -> None:
    text = shown(comparison([blocks(1.2, again=1.2)]), width)
    assert max(map(len, text.splitlines())) <= width
    assert "slower:" in " ".join(text.split())


def test_an_interval_stays_on_one_line_at_80_columns_and_the_other_columns_are_folded() -> None:
    found = comparison([blocks(1.2, again=1.2)])
    (one,) = found.compared
    long = replace(one.head, impl="their_package.their_module:TheirAttentionLayer", d_model=4096, num_heads=128)
    text = shown(replace(found, compared=(replace(one, head=long),)), 80)
    assert "×1.200 (1.193 to 1.207)" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            comparison([blocks(1.0), blocks(1.0)]),
            "2 of 2 times decided (2 equivalent); exit status 0: nothing got worse.",
        ),
        (
            comparison([blocks(1.0), blocks(1.2, again=1.2), blocks(1.03)]),
            "2 of 3 times decided (1 slower, 1 undecided, 1 equivalent); exit status 1: got worse: time.",
        ),
        (
            of_lines(line(CASE), line(CASE, flops=3000, peak_bytes=50_000), blocks(1.0)),
            "1 of 1 times decided (1 equivalent); exit status 1: got worse: peak memory, flops.",
        ),
        (
            of_lines(None, None, None),
            "0 of 1 times decided (1 unmeasured); exit status 3: could not be measured: time.",
        ),
    ],
)
def test_the_last_line_counts_decided_times_and_explains_the_exit_status(found: Comparison, sentence: str) -> None:
    assert closing_sentence(GateReport("compare x", outcomes_of(found))) == sentence
