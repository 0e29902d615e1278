"""Times of one layer that ran different kernels are not set beside each other without a word."""

from io import StringIO

import pytest
from rich.console import Console
from rows import PRECISION, row

from harness.core.model.formatting import kernels_sentence
from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.summarise import summarise
from harness.study.analyse import analyse
from harness.study.report.report_data import Contents, report_markdown, show_answer


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
