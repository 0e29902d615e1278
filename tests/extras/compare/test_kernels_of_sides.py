"""Times of two sides that ran different kernels are not set beside each other without a word."""

from dataclasses import replace

from extras.compare.comparisons import CASE, RULES, blocks, line

from harness.core.results.columns import CaseResult
from harness.extras.compare.paired_verdicts import MeasuredBlocks
from harness.extras.compare.report import Comparison, compare_sides, comparison_sentences

ON_BOTH_SIDES = "attention.fused ran flash on the base and cudnn on the head: the times are of different kernels."


def compared(*sides: tuple[CaseResult, CaseResult]) -> Comparison:
    pairs = [(base.case, head.case) for base, head in sides]
    measured = MeasuredBlocks([blocks(1.0)] * len(pairs), {0: blocks(1.0)})
    lines = ({side[at].case: side[at] for side in sides} for at in (0, 1))
    return compare_sides(pairs, range(len(pairs)), measured, *lines, RULES)


def test_compare_says_once_for_all_sizes_that_the_sides_ran_different_kernels() -> None:
    cases = [CASE, replace(CASE, seq_len=128)]
    different = compared(*((line(case, backend="flash"), line(case, backend="cudnn")) for case in cases))
    assert [*comparison_sentences(different)].count(ON_BOTH_SIDES) == 1


def test_compare_says_nothing_of_one_kernel_of_unknown_ones_or_of_two_layers() -> None:
    another = replace(CASE, impl="sdpa.fused")
    for base, head in (
        (line(CASE, backend="flash"), line(CASE, backend="flash")),
        (line(CASE, backend="flash"), line(CASE)),
        (line(CASE, backend="flash"), line(another, backend="cudnn")),
    ):
        assert "kernels" not in " ".join(comparison_sentences(compared((base, head))))
