"""Anybody's tidy table becomes lines."""

import io
from dataclasses import replace

import pandas as pd
import pytest
from rows import usual_lines

from harness.core.model.errors import UsageError
from harness.core.results.columns import lines_of_table, table


def test_a_summary_read_back_is_what_was_written() -> None:
    written = table(usual_lines()).to_csv(index=False)
    assert lines_of_table(pd.read_csv(io.StringIO(written))) == usual_lines()


def test_sizes_and_times_are_enough() -> None:
    (small, large) = lines_of_table(pd.DataFrame({"seq_len": [64, 128], "time_s": [1e-3, 2e-3]}))
    assert (small.impl, small.family, small.seq_len, small.num_heads) == ("layer", "layer", 64, 1)
    assert (large.time_s, large.time_lo_s, large.time_hi_s) == (2e-3, 2e-3, 2e-3)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"seqlen": [1], "time_s": [1.0]}, "no column seq_len"),
        ({"seq_len": [1]}, "needs one column at least of time_s"),
        ({"seq_len": [1.5], "time_s": [1.0]}, "seq_len=1.5 is not a whole number from 1 on"),
        ({"seq_len": [0], "time_s": [1.0]}, "seq_len=0 is not a whole number from 1 on"),
        ({"seq_len": ["64"], "time_s": [1.0]}, "seq_len='64' is not a whole number"),
        ({"seq_len": [float("inf")], "time_s": [1.0]}, "seq_len=inf is not a whole number"),
        ({"seq_len": [None], "time_s": [1.0]}, "a row has no seq_len"),
        ({"seq_len": [1], "time_s": ["soon"]}, "time_s='soon' is not a time in seconds"),
        ({"seq_len": [1], "time_s": [float("inf")]}, "time_s=inf is not a time in seconds"),
        (
            {"seq_len": [1], "time_s": [2.0], "time_lo_s": [3.0], "time_hi_s": [4.0]},
            "time_s=2.0 is not within 3.0 to 4.0",
        ),
        ({"seq_len": [1], "time_s": [-1.0]}, "time_s=-1.0 is not a time in seconds"),
        ({"seq_len": [1], "time_s": [1e-300]}, "time_s=1e-300 is not a time in seconds"),
        ({"seq_len": [1], "time_s": [1.0], "steal_share": [1.5]}, "steal_share=1.5 is not a number from 0 to 1"),
        ({"seq_len": [1], "time_s": [1.0], "probe_s": ["x"]}, "probe_s='x' is not a time in seconds"),
        ({"seq_len": [1], "time_s": [1.0], "probe_s": [0.0]}, "probe_s=0.0 is not a time in seconds"),
        ({"seq_len": [1], "time_s": [1.0], "tokens_per_s": ["x"]}, "tokens_per_s='x' is not a number from 0 on"),
        ({"seq_len": [1], "time_s": [1.0], "of_peak": [-0.5]}, "of_peak=-0.5 is not a number from 0 on"),
        ({"seq_len": [1], "time_s": [1.0], "ratio_hi": [float("inf")]}, "ratio_hi=inf is not a number from 0 on"),
        ({"seq_len": [1], "time_s": [1.0], "time_lo_s": [-1.0]}, "time_lo_s=-1.0 is not a number from 0 on"),
        ({"seq_len": [1], "time_s": [1.0], "status": ["wrong"]}, "status='wrong' is not one of ok, oom, timeout"),
    ],
)
def test_a_table_without_what_is_needed_is_one_line(columns: dict, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        lines_of_table(pd.DataFrame(columns))


@pytest.mark.parametrize(
    ("status", "counted"),
    [(status, (None, 9, 8, 4.0)) for status in ("oom", "timeout", "killed", "unsupported", "error")]
    + [("ok", (1.0, 9, 8, 4.0)), ("incorrect", (None, None, None, None))],
)
def test_of_a_failed_case_no_time_is_evidence_and_of_an_incorrect_one_no_number(status: str, counted: tuple) -> None:
    cells = {"seq_len": 64, "batch_size": 3, "time_s": 1.0, "flops": 9, "peak_bytes": 8, "compile_s": 4.0, "trials": 5}
    (line,) = lines_of_table(pd.DataFrame([{**cells, "status": status, "reason": "why", "host": "a"}]))
    assert (line.time_s, line.flops, line.peak_bytes, line.compile_s) == counted
    assert (line.time_lo_s, line.time_hi_s, line.best_known_time) == (counted[0],) * 2 + (
        (1.0,) * 3 if counted[0] else None,
    )
    assert (line.batch_size, line.trials, line.status, line.reason, line.host) == (3, 5, status, "why", "a")


def test_the_name_of_a_host_that_looks_like_a_number_is_a_text() -> None:
    (line,) = lines_of_table(pd.DataFrame({"seq_len": [64], "time_s": [1.0], "host": [123456789012]}))
    assert line.host == "123456789012"


def test_counts_beyond_what_a_float_holds_stay_whole() -> None:
    (line,) = lines_of_table(pd.DataFrame({"seq_len": [64], "flops": [2**60 + 1]}))
    assert line.flops == 2**60 + 1


def test_large_counts_keep_their_last_digit_beside_a_gap() -> None:
    (line, *_) = usual_lines()
    assert table([replace(line, flops=2**60 + 1), replace(line, flops=None)]).flops[0] == 2**60 + 1


def test_several_rows_of_one_case_are_not_made_one_law() -> None:
    with pytest.raises(UsageError, match="several rows are of layer n=64"):
        lines_of_table(pd.DataFrame({"seq_len": [64, 64], "time_s": [1.0, 2.0], "gpu": ["a", "b"]}))


@pytest.mark.parametrize("table", [None, {"seq_len": [64]}, [1, 2]])
def test_what_is_no_table_is_said_to_be_none(table: object) -> None:
    with pytest.raises(UsageError, match="a table is a pandas DataFrame"):
        lines_of_table(table)
