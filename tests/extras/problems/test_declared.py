"""Verdicts on formulas that problem files declare. The numbers are synthetic."""

import ast
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult, lines_of_records
from harness.core.run.executor import Executor
from harness.extras.problems.declared import declared_findings
from harness.extras.problems.sizes import value_of
from harness.study.report.document import markdown

FILES = Path(__file__).parent / "files"
SIZES = {"T": 16, "width": 4, "out": 6}, {"T": 32, "width": 8, "out": 20}


def flops(T: int, width: int, out: int) -> int:
    return 4 * 2 * T * width * out


def least_bytes(T: int, width: int, out: int) -> int:
    return 4 * (2 * 2 * T * width + 2 * T * out + 2 * width * out)


def line(impl: str, sizes: Mapping[str, int], **cells: Any) -> dict[str, Any]:
    own = {"width": ["w", 8], "out": ["o", 12]}
    options = f"out={sizes['out']}+width={sizes['width']}"
    counts = {"flops": flops(**sizes), "min_bytes": least_bytes(**sizes)}
    at = {"impl": impl, "seq_len": sizes["T"], "batch_size": 2, "options": options, "status": "ok"}
    return at | counts | {"own_axes": str(own).replace("'", '"'), "mode": "forward", "dtype": "float32"} | cells


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FILES / "projection", tmp_path / "projection"))


def lines(directory: Path, **cells: Any) -> list[CaseResult]:
    impl = f"problem-file:{directory / 'reference.py'}"
    return lines_of_records([line(impl, sizes, **cells) for sizes in SIZES], False)


def sentences(directory: Path, **cells: Any) -> list[str]:
    """The verdicts, without the name of the layer."""
    findings = declared_findings({}, lines(directory, **cells))
    assert findings is not None
    return [sentence.replace(f" of problem-file:{directory / 'reference.py'}", "") for sentence in findings.sentences]


def declare(directory: Path, old: str, new: str) -> None:
    text = (directory / "problem.yaml").read_text()
    assert old in text
    (directory / "problem.yaml").write_text(text.replace(old, new))


def test_formulas_that_equal_every_count_are_confirmed(directory: Path) -> None:
    where = "from batch_size = 2, T = 16, width = 4, out = 6 to batch_size = 2, T = 32, width = 8, out = 20."
    assert sentences(directory) == [
        f"Confirmed: flops_formula: equal to flops at 2 sizes, {where}",
        f"Confirmed: bytes_formula (precision fp32): equal to min_bytes at 2 sizes, {where}",
    ]


def test_a_formula_that_is_off_by_one_is_refuted_at_the_first_case_that_shows_it(directory: Path) -> None:
    declare(directory, "4 * batch_size * T * width * out", "4 * batch_size * T * width * out + T // 32")
    n, last = flops(**SIZES[1]), "batch_size = 2, T = 32, width = 8, out = 20"
    assert sentences(directory)[0] == f"Refuted: flops_formula: it is {n + 1} at {last}, and flops is {n}."


def test_digits_beyond_those_of_a_float_count(directory: Path) -> None:
    declare(directory, "4 * batch_size * T * width * out", "(2 ** 60 + 1) / 3 * 3")
    assert "Refuted" not in " ".join(sentences(directory, flops=2**60 + 1))
    assert sentences(directory, flops=2**60)[0].startswith(f"Refuted: flops_formula: it is {2**60 + 1} at")


@pytest.mark.parametrize(
    "formula",
    ["4 * n_tokens", "sum(T)", "T if T else 1", "T ** 65", "T / 0", "(2 ** 64) ** 64", "T +", "__import__('os')"],
)
def test_what_is_no_bounded_arithmetic_of_the_sizes_is_not_tested(formula: str, directory: Path) -> None:
    declare(directory, "4 * batch_size * T * width * out", formula)
    said = f"Not tested: flops_formula: '{formula}' is no arithmetic of batch_size, T, width, out."
    assert said in sentences(directory)


def test_a_formula_that_is_nested_too_deeply_is_not_tested(directory: Path) -> None:
    declare(directory, "4 * batch_size * T * width * out", "+".join(["T"] * 5000))
    assert sentences(directory)[0].startswith("Not tested: flops_formula: 'T+T+")


@pytest.mark.parametrize(
    ("declared", "measured", "is_judged"),
    [
        ("fp32", "float32", True),
        ("float32", "float32", True),
        ("bf16", "bfloat16", True),
        ("fp16", "float16", True),
        ("bf16", "float32", False),
        ("fp16", "bfloat16", False),
        ("fp8_e4m3", "float32", False),
    ],
)
def test_bytes_are_judged_in_the_declared_precision_alone(
    declared: str, measured: str, is_judged: bool, directory: Path
) -> None:
    declare(directory, "precision: fp32", f"precision: {declared}")
    of_bytes = next(text for text in sentences(directory, dtype=measured) if "bytes_formula" in text)
    assert of_bytes.startswith("Confirmed" if is_judged else f"Not tested: bytes_formula (precision {declared}): ")


def test_bytes_of_no_stated_precision_are_not_judged(directory: Path) -> None:
    declare(directory, "precision: fp32\n", "")
    assert sentences(directory)[0].startswith("Not tested: bytes_formula (precision unstated): it takes two sizes")


@pytest.mark.parametrize("cells", [{"mode": "train"}, {"flops": None}, {"status": "incorrect"}])
def test_cases_of_training_and_cases_without_a_count_are_not_judged(cells: dict[str, Any], directory: Path) -> None:
    assert sentences(directory, **cells)[0].startswith("Not tested: flops_formula: it takes two sizes with flops, ")


def test_one_size_confirms_nothing_and_refutes_what_differs(directory: Path) -> None:
    (first, _) = lines(directory)
    findings = declared_findings({}, [first])
    assert all(text.startswith("Not tested") for text in findings.sentences)
    declare(directory, "4 * batch_size", "2 * batch_size")
    assert declared_findings({}, [first]).sentences[0].startswith("Refuted: flops_formula")


def test_a_run_is_reported_without_its_files(directory: Path) -> None:
    results = lines(directory)
    shutil.rmtree(directory)
    (said,) = declared_findings({}, results).sentences
    assert said.startswith("Not tested: what problem-file:")
    assert "cannot be read as Python" in said


def test_sizes_are_those_of_the_run_and_not_those_that_the_file_has_since(directory: Path) -> None:
    results = lines(directory)
    text = (directory / "reference.py").read_text()
    (directory / "reference.py").write_text(text.replace("width, out = 8, 12", "width, out = 100, 200"))
    assert all(sentence.startswith("Confirmed") for sentence in declared_findings({}, results).sentences)


def test_each_layer_has_a_verdict_of_its_own(directory: Path) -> None:
    solution = f"problem-file:{directory / 'reference.py'}+{directory / 'solution.py'}"
    doubled = [line(solution, sizes, flops=2 * flops(**sizes)) for sizes in SIZES]
    findings = declared_findings({}, [*lines(directory), *lines_of_records(doubled, False)])
    assert [text.partition(":")[0] for text in findings.sentences] == ["Refuted", "Confirmed", "Confirmed", "Confirmed"]
    assert f"flops_formula of {solution}" in findings.sentences[0]


def test_other_runs_have_no_such_section(directory: Path) -> None:
    assert declared_findings({}, lines_of_records([line("attention.fused", SIZES[0])], False)) is None
    (directory / "problem.yaml").unlink()
    assert declared_findings({}, lines(directory)) is None


def test_the_report_has_all_verdicts(directory: Path) -> None:
    findings = declared_findings({}, lines(directory))
    text = markdown(findings.section("a machine"))
    assert text.startswith("# Declared formulas\n")
    assert text.count("\n- Confirmed: ") == 2


@pytest.mark.parametrize("sizes", SIZES)
def test_the_formulas_of_the_example_are_what_is_counted(sizes: dict[str, int], runner: Executor) -> None:
    impl, own = f"problem-file:{FILES}/projection/reference.py", f"out={sizes['out']}+width={sizes['width']}"
    facts = runner.run(
        "facts", Case(impl, seq_len=sizes["T"], d_model=1, num_heads=1, batch_size=2, options=own)
    ).values
    assert (facts["flops"], facts["min_bytes"]) == (flops(**sizes), least_bytes(**sizes))


def test_nothing_is_computed_of_other_names() -> None:
    assert value_of(ast.parse("a * 0.1", mode="eval").body, {"a": 10}) == 1
    assert value_of(ast.parse("a * b", mode="eval").body, {"a": 10}) is None
