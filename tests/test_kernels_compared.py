"""Times of one layer that ran different kernels are not set beside each other without a word."""

from dataclasses import replace
from io import StringIO

import pytest
from gate.comparisons import CASE, RULES, blocks, line
from gate.histories import commit, history, ratio
from rich.console import Console
from rows import PRECISION, row

from harness.analysis.analyse import analyse
from harness.extras.commits.history_page import history_page
from harness.extras.compare.comparison import Comparison, compare_sides
from harness.extras.compare.paired_verdicts import MeasuredBlocks
from harness.formatting import kernels_sentence
from harness.gate.reporters import comparison_sentences
from harness.report.report_data import Contents, report_markdown, show_answer
from harness.results.columns import CaseResult
from harness.results.summarise import summarise
from harness.sweep_axes import Case

ON_BOTH_SIDES = "attention.fused ran flash on the base and cudnn on the head: the times are of different kernels."


def test_the_sentence_names_the_layer_each_kernel_and_its_place() -> None:
    kernels = {"here": "cudnn", "there": "flash"}
    said = "attention.fused ran cudnn here and flash there: the times are of different kernels."
    assert kernels_sentence("attention.fused", kernels) == said


@pytest.mark.parametrize("kernels", [{}, {"here": "flash"}, {"here": "flash", "there": "flash"}, {"here": None}])
def test_one_kernel_needs_no_sentence(kernels: dict[str, str | None]) -> None:
    assert kernels_sentence("attention.fused", kernels) == ""


def test_an_unknown_kernel_is_no_other_kernel() -> None:
    assert kernels_sentence("attention.fused", {"here": "flash", "there": None}) == ""
    three = {"in a": "flash", "in b": None, "in c": "math"}
    assert kernels_sentence("sdpa.fused", three).startswith("sdpa.fused ran flash in a and math in c: ")


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


def in_environments(**backends: str) -> list[CaseResult]:
    rows = [
        row(Case("attention.fused", n, 64, 2, env=env), purpose, samples_s=[1e-3] * 5, probe_s=1e-4, backend=backend)
        for env, backend in backends.items()
        for n in (64, 128)
        for purpose in ("verify", "facts", "time")
    ]
    return summarise(rows, PRECISION)


def test_a_report_of_several_environments_says_so_on_the_page_and_on_the_terminal() -> None:
    said = "attention.fused ran flash with env=a and cudnn with env=b: the times are of different kernels."
    lines = in_environments(a="flash", b="cudnn")
    contents, console = Contents(lines, analyse(lines)), Console(file=StringIO(), width=200)
    show_answer(contents, console)
    assert console.file.getvalue().count(said) == 1  # type: ignore[attr-defined]
    assert report_markdown(contents).count(said) == 1
    alike = in_environments(a="flash", b="flash")
    assert "different kernels" not in report_markdown(Contents(alike, analyse(alike)))


def test_a_step_in_a_history_says_so_beside_the_case() -> None:
    lines = [commit(number, commit=f"{number:x}" * 40, time=ratio(0.0, number)) for number in range(6)]
    for number in range(6, 12):
        slower = ratio(0.08, number)
        lines.append(commit(number, commit=f"{number:x}" * 40, time=slower, facts={"backend": "ATen"}))
    text, _, _ = history_page(history(*lines), 0.03)
    ran = "mine:Layer ran math at 5555555555 and ATen at 6666666666"
    assert f"{ran}: the times are of different kernels." in text
