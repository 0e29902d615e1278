"""What becomes of a pair: its time by blocks, its memory and FLOPs by counts."""

from dataclasses import replace
from pathlib import Path

import pytest
from extras.compare.comparisons import CASE, beside_a_timed_pair, blocks, comparison, line, of_lines

from harness.core.model.errors import UsageError
from harness.extras.compare.compared_sides import Log
from harness.extras.compare.interleaved import is_block_row
from harness.extras.compare.report import FAILED, HELD, NONE, comparison_table, outcomes_of


def test_the_verdict_of_time_is_that_of_the_blocks_and_the_cases_keep_their_order() -> None:
    found = comparison([blocks(1.0), blocks(1.2, again=1.2), blocks(0.8, again=0.8), blocks(1.03), blocks(1, number=0)])
    assert [one.verdict.time for one in found.compared] == ["equivalent", "slower", "faster", "undecided", "undecided"]
    assert [one.head.seq_len for one in found.compared] == [64, 128, 192, 256, 320]
    assert found.control == HELD


@pytest.mark.parametrize("control", [blocks(1.2), blocks(1.0, number=0, failure="control: killed: by SIGKILL")])
def test_a_control_that_fails_or_cannot_be_measured_disarms(control: object) -> None:
    found = comparison([blocks(1.2, again=1.2), blocks(1.0, failure="head: oom: too large")], control)  # type: ignore[arg-type]
    assert found.control == FAILED
    assert [one.verdict.time for one in found.compared] == ["unmeasured", "unmeasured"]
    assert list(comparison_table(found).verdict) == ["unmeasured", "unmeasured"]


@pytest.mark.parametrize(
    ("was", "now", "verdict"),
    [
        ({"flops": 1000}, {"flops": 1001}, "more"),
        ({"flops": 1000}, {"flops": 999}, "less"),
        ({"flops": 1000}, {"flops": 1000}, "equivalent"),
        ({"flops": None}, {"flops": 1000}, "unknown"),
        ({"flops": 1000}, {"flops": None}, "unknown"),
        ({"flops": None}, {"flops": None}, "unknown"),
    ],
)
def test_flops_are_compared_to_the_last_digit(was: dict, now: dict, verdict: str) -> None:
    (one,) = of_lines(line(CASE, **was), line(CASE, **now), blocks(1.0)).compared
    assert one.flops.verdict.amount == verdict
    assert one.memory.verdict.amount == "equivalent"


@pytest.mark.parametrize(("peak", "verdict"), [(10_100, "equivalent"), (10_101, "more"), (9_899, "less")])
def test_memory_is_compared_within_one_per_cent(peak: int, verdict: str) -> None:
    (one,) = of_lines(line(CASE), line(CASE, peak_bytes=peak), blocks(1.0)).compared
    assert one.memory.verdict.amount == verdict
    assert one.memory.ratio == pytest.approx(peak / 10_000)


def test_what_could_not_be_timed_is_unmeasured() -> None:
    bad = line(CASE, "error", "RuntimeError: no such luck")
    found = of_lines(line(CASE), bad, None)
    assert found.control == NONE
    (one,) = found.compared
    assert (one.verdict.time, one.time) == ("unmeasured", None)


@pytest.mark.parametrize(
    ("base", "head", "excused"),
    [
        ("unsupported", "unsupported", True),
        ("oom", "ok", True),
        ("error", "ok", True),
        ("timeout", "ok", False),
        ("killed", "ok", False),
        ("ok", "unsupported", False),
        ("incorrect", "incorrect", False),
    ],
)
def test_a_head_is_excused_only_for_what_it_is_not_to_blame_for_and_would_be_so_again(
    base: str, head: str, excused: bool
) -> None:
    lost = replace(CASE, seq_len=4096)
    of_base, of_head = line(lost, base, "so"), line(lost, head, "so")
    found = beside_a_timed_pair(of_base, of_head)
    # The screen, comparison.csv, and the outcomes of JSON and JUnit have one verdict.
    verdict = "undecided" if excused else "unmeasured"
    assert list(comparison_table(found).verdict) == ["equivalent", verdict]
    times = [outcome.verdict.time for outcome in outcomes_of(found) if outcome.quantity == "time"]
    assert times == ["equivalent", verdict]
    assert [pair.verdict.time for pair in found.compared] == times
    assert of_lines(of_base, of_head, None).compared[0].verdict.time == "unmeasured", (
        "nothing was timed: nothing passes"
    )


@pytest.mark.parametrize(
    "row", ['{"base": "n=64", "log_ratio": 0.1}', "[" * 50_000 + "]" * 50_000], ids=["old", "deep"]
)
def test_a_row_that_another_version_wrote_is_named_with_its_file_and_line(row: str, tmp_path: Path) -> None:
    path = tmp_path / "blocks.jsonl"
    path.write_text(f"{row}\n")
    with pytest.raises(UsageError, match=r"blocks\.jsonl, line 1: .* name a new directory"):
        Log(path, lambda _, row: is_block_row(row)).read()
