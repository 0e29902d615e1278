"""Definitions of FlashInfer Trace as layers: small ones of our own."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.config import compose
from harness.core.layers.layer_files import files_of_class
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.extras.problems.trials.layer import layer_of

FILES = Path(__file__).parent / "files"
M, N, K = 16, 12, 8


def name(definition: str, solution: str = "") -> str:
    return f"problem-file:{FILES / definition}.json" + (f"+{FILES / solution}.json" if solution else "")


def answer(runner: Executor, purpose: str, impl: str, **at: Any) -> Any:
    return runner.run(purpose, Case(impl, **{"seq_len": 1, "d_model": 1, "num_heads": 1, "dtype": "bfloat16"} | at))


@pytest.mark.parametrize(
    ("definition", "inputs", "output"),
    [
        ("product", ["a 8", "12 8"], "a 12"),
        ("ragged", ["n 2 4", "o 2 4", "o 2 4", "b + 1", "b + 1"], "n 2 4"),
    ],
)
def test_shapes_are_those_of_the_definition(definition: str, inputs: list[str], output: str) -> None:
    layer = layer_of(str(FILES / f"{definition}.json"))
    letters = {name: letter for name, (letter, _) in layer.axes.items()}
    named = [" ".join(one.shape).replace(letters.get("M", "?"), "a") for one in layer.inputs]
    assert [shape.replace(letters.get("total_kv", "?"), "o") for shape in named] == inputs
    assert " ".join(layer.output).replace(letters.get("M", "?"), "a") == output


@pytest.mark.parametrize("rows", [16, 48])
def test_the_work_of_a_definition_is_that_of_its_sizes(rows: int, runner: Executor) -> None:
    facts = answer(runner, "facts", name("product"), options=f"M={rows}").values
    assert (facts["flops"], facts["inputs_bytes"]) == (2 * rows * N * K, 2 * (rows + N) * K)


def test_offsets_divide_the_tokens_among_the_sequences(runner: Executor) -> None:
    # Two sequences of 3 queries and 5 keys, and four of 3 and 4, each with 2 heads of width 4.
    facts = answer(runner, "facts", name("ragged"), seq_len=6, batch_size=2, options="total_kv=10").values
    assert facts["flops"] == 2 * 2 * (2 * 2 * 4) * 3 * 5
    facts = answer(runner, "facts", name("ragged"), seq_len=12, batch_size=4, options="total_kv=16").values
    assert facts["flops"] == 4 * 2 * (2 * 2 * 4) * 3 * 4
    assert answer(runner, "verify", name("ragged"), seq_len=12, batch_size=2, options="total_kv=16").ok


@pytest.mark.parametrize(
    ("solution", "status"), [("product_solution", "ok"), ("product_returned", "ok"), ("product_wrong", "incorrect")]
)
def test_a_solution_is_verified_whether_it_returns_its_outputs_or_writes_them(
    solution: str, status: str, runner: Executor
) -> None:
    outcome = answer(runner, "verify", name("product", solution))
    assert outcome.status == status
    assert not outcome.ok or outcome.values["against"].endswith("product.json:run")


@pytest.mark.parametrize(
    ("definition", "at", "said"),
    [
        ("looked_up", {}, "its input 'positions' holds whole numbers that no constraint of the definition determines"),
        ("product", {"mode": "train"}, "a definition has no backward pass: give mode=forward"),
        ("product", {"dtype": "float32"}, "it is defined in bfloat16"),
    ],
)
def test_a_case_that_a_definition_does_not_determine_is_refused(
    definition: str, at: dict[str, str], said: str, runner: Executor
) -> None:
    outcome = answer(runner, "facts", name(definition), **at)
    assert (outcome.status, outcome.reason) == ("unsupported", said)


def test_a_solution_that_keeps_its_results_is_found(tmp_path: Path, runner: Executor) -> None:
    text = (FILES / "product_wrong.json").read_text().replace("A @ B.T * 1.1", "run.__dict__.setdefault('C', A @ B.T)")
    (tmp_path / "keeps.json").write_text(text.replace("def multiply", "def run(): pass\\n\\n\\ndef multiply"))
    outcome = answer(runner, "verify", f"{name('product')}+{tmp_path / 'keeps.json'}")
    assert outcome.status == "incorrect"


def test_digests_are_those_of_the_definition_its_solution_and_its_workload(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text((FILES / "product_wrong.json").read_text())
    files = files_of_class(layer_of(f"{FILES / 'product.json'}+{tmp_path / 's.json'}"))
    assert {str(FILES / "product.json"), str(tmp_path / "s.json")} <= {*files}
    assert str(FILES / "workloads" / "ragged.jsonl") in files_of_class(layer_of(str(FILES / "ragged.json")))


def config(*overrides: str) -> Any:
    return compose(list(overrides), for_sweep=True)


def test_sizes_and_numbers_are_those_of_a_workload_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    axes = config(f"impl={FILES / 'ragged.json'}").axes
    assert (axes["seq_len"], axes["batch_size"], axes["dtype"]) == ((6,), (2,), ("bfloat16",))
    said = "batch_size = 2, seq_len is its total_q = 6; layer.total_kv = 10; of its outputs, the first is compared"
    assert capsys.readouterr().err == f"harness: {FILES / 'ragged.json'}: {said}\n"
    config(f"impl={FILES / 'product.json'}", "layer.M=4,8")
    assert capsys.readouterr().err.endswith(": layer.M = 16; assumed, as no workload says it: sizes of 16\n")


def test_a_solution_of_another_definition_is_unsupported(runner: Executor, tmp_path: Path) -> None:
    solution = json.loads((FILES / "product_solution.json").read_text()) | {"definition": "sum"}
    (tmp_path / "s.json").write_text(json.dumps(solution))
    outcome = answer(runner, "verify", f"{name('product')}+{tmp_path / 's.json'}")
    assert (outcome.status, outcome.reason) == ("unsupported", "it is a solution of another definition, 'sum'")


def test_a_definition_is_measured_beside_its_solutions() -> None:
    axes = config(f"problem={FILES / 'product.json'}", f"impl={FILES / 'product_solution.json'}").axes
    assert axes["impl"] == (name("product"), name("product", "product_solution"))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["problem=product.json", "impl=product_cuda.json"], "product_cuda.json is in cuda: solutions in python, "),
        (["problem=product.json", "impl=ragged.json"], "ragged.json is no solution: spec is missing"),
        (["impl=sampled.json"], "definition sampled returns int64: only float32, "),
        (
            ["problem=broken.json"],
            "broken.json is no definition: axes: M: type is the text 'any', not 'const', 'var' or 'expr'",
        ),
    ],
)
def test_a_mistake_is_named(overrides: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in FILES.glob("*.json"):
        (tmp_path / file.name).write_text(file.read_text())
    ragged = (FILES / "ragged.json").read_text().replace("len_indptr == batch_size + 1", "batch_size == len_indptr - 1")
    (tmp_path / "unread.json").write_text(ragged)
    (tmp_path / "broken.json").write_text((FILES / "product.json").read_text().replace('"var"', '"any"'))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        config(*overrides)
