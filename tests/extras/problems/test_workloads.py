"""Workloads, constraints and functions that make inputs, of definitions of FlashInfer Trace: small ones of our own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.workload import Unsupported
from harness.extras.problems.definition_file import computed, read_definition, workload_file
from harness.extras.problems.definition_format import Definitions
from harness.extras.problems.trials.definition_problem import DefinitionProblem
from harness.extras.problems.trials.layer import layer_of

FILES = Path(__file__).parent / "files"
Change = Callable[[dict[str, Any]], None]


def changed(name: str, path: Path, change: Change) -> str:
    """A definition of these tests with a change, written to `path`."""
    definition = json.loads((FILES / f"{name}.json").read_text())
    change(definition)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(definition))
    return str(path)


def answer(runner: Executor, purpose: str, file: str, **at: Any) -> Any:
    sizes = {"seq_len": 1, "d_model": 1, "num_heads": 1, "dtype": "bfloat16"} | at
    return runner.run(purpose, Case(f"problem-file:{file}", **sizes))


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("a + 1", 7),
        ("a * b - 2", 22),
        ("a // b % 4", 1),
        ("a == b + 2", True),
        ("a >= 2 * b", False),
        ("(a + b) * b != 40", False),
    ],
)
def test_sums_products_and_comparisons_of_sizes_are_computed(formula: str, value: int) -> None:
    assert computed(formula, {"a": 6, "b": 4}) == value


@pytest.mark.parametrize(
    "formula",
    [
        "9 ** 9 ** 9",
        "1 << 9999",
        "c",
        "a if b else 1",
        "a < b < 9",
        "a.b",
        "len('a')",
        "'a' * 9",
        "1.5 * a",
        "a +",
        "",
        "(" * 150,
    ],
)
def test_no_other_formula_is_computed(formula: str) -> None:
    with pytest.raises(UsageError, match="is no sum, product or comparison of axes"):
        computed(formula, {"a": 6, "b": 4})


def test_a_constraint_that_divides_by_zero_does_not_hold() -> None:
    assert computed("a // (b - 4) == 1", {"a": 6, "b": 4}) is False
    assert computed("(a - 1) // (b - 1) == 1", {"a": 6, "b": 4}) is True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda it: it["inputs"]["A"].update(shape=["Q"]),
            "'Q' is no sum, product or comparison of axes that are known",
        ),
        (lambda it: it["axes"]["N"].pop("value"), "'N' is no sum, product or comparison of axes that are known"),
        (lambda it: it.update(outputs={}), "outputs"),
        (lambda it: it["axes"].update(threads={"type": "var"}), "its axis 'threads' is another one in a sweep"),
    ],
)
def test_a_definition_that_says_too_little_is_refused(change: Any, said: str, tmp_path: Path) -> None:
    file = changed("product", tmp_path / "a.json", change)
    with pytest.raises(UsageError, match=said):
        Definitions().axes(Path(file))


def test_a_case_that_breaks_a_constraint_is_refused(tmp_path: Path, runner: Executor) -> None:
    file = changed("product", tmp_path / "a.json", lambda it: it.update(constraints=["M % 8 == 0", "N >= K"]))
    assert answer(runner, "facts", file, options="M=24").ok
    outcome = answer(runner, "facts", file, options="M=12")
    assert (outcome.status, outcome.reason) == (
        "unsupported",
        "its constraint 'M % 8 == 0' does not hold: give other sizes",
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda it: it["inputs"]["A"].update(dtype="unknown"), "A: dtype: unknown 'unknown'; known: float32, float16"),
        (lambda it: it["outputs"]["C"].update(dtype="float4_e2m1"), "C: dtype: unknown 'float4_e2m1'"),
        (lambda it: it.update(constraints=["A.shape[0] == M"]), "'A.shape.*', which is not read: comparisons of axes"),
        (lambda it: it.update(constraints=["-M < N"]), "'-M < N' is no sum, product or comparison of axes"),
        (lambda it: it.update(constraints=["M <" + " N +" * 99]), "constraints: 1 .* at most 200 characters"),
    ],
)
def test_a_definition_that_is_not_understood_is_refused(change: Change, said: str, tmp_path: Path) -> None:
    file = changed("product", tmp_path / "a.json", change)
    with pytest.raises(UsageError, match=said):
        compose([f"impl={file}"], for_sweep=True)


def test_a_constraint_on_tensors_of_constant_sizes_is_left_to_the_reference(tmp_path: Path) -> None:
    file = changed("product", tmp_path / "a.json", lambda it: it.update(constraints=["B.shape[1] == K"]))
    assert read_definition(Path(file)).constraints == []


def test_an_input_keeps_the_dtype_that_its_definition_states(tmp_path: Path) -> None:
    def change(definition: dict[str, Any]) -> None:
        definition["inputs"]["B"]["dtype"] = "float32"

    layer = layer_of(changed("product", tmp_path / "a.json", change))
    dtypes = [tensor.dtype for tensor in layer.draw_inputs(Case("any", 1, 1, 1, dtype="bfloat16"))]
    assert dtypes == [torch.bfloat16, torch.float32]


def workload(axes: dict[str, int], **inputs: Any) -> str:
    return json.dumps({"definition": "any", "workload": {"uuid": "a", "axes": axes, "inputs": inputs}}) + "\n"


def tensor(key: str = "positions", path: str = "./blob/a.safetensors") -> dict[str, str]:
    return {"type": "safetensors", "path": path, "tensor_key": key}


def safetensors(path: Path, header: dict[str, Any], numbers: bytes, length: int | None = None) -> None:
    """Write a file in the format safetensors, with this length of the header in place of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + numbers)


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    """A data set with one definition, whose input `positions` nothing but a file determines."""
    definition = tmp_path / "definitions" / "rope" / "looked_up.json"
    changed("looked_up", definition, lambda it: None)
    (tmp_path / "workloads" / "rope").mkdir(parents=True)
    given = workload({"num_tokens": 3}, positions=tensor(), x={"type": "random"})
    (tmp_path / "workloads" / "rope" / "looked_up.jsonl").write_text(given)
    numbers = torch.tensor([2, 0, 1]).numpy().tobytes()
    entry = {"dtype": "I64", "shape": [3], "data_offsets": [8, 32]}
    safetensors(tmp_path / "blob" / "a.safetensors", {"other": {}, "positions": entry}, bytes(8) + numbers)
    return definition


def test_a_data_set_has_its_workloads_beside_its_definitions(data_set: Path, runner: Executor) -> None:
    assert workload_file(data_set) == data_set.parents[2] / "workloads" / "rope" / "looked_up.jsonl"
    assert compose([f"impl={data_set}"], for_sweep=True).axes["seq_len"] == (3,)
    assert answer(runner, "verify", str(data_set), seq_len=3).ok


def test_a_tensor_is_read_from_a_file_at_the_sizes_of_its_workload_alone(data_set: Path) -> None:
    problem = DefinitionProblem(str(data_set))
    assert problem.inputs_at({"num_tokens": 3})[1].tolist() == [2, 0, 1]
    with pytest.raises(Unsupported, match="its input 'positions' holds whole numbers that no constraint"):
        problem.inputs_at({"num_tokens": 4})


ENTRY = {"dtype": "I64", "shape": [3], "data_offsets": [0, 24]}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (ENTRY | {"dtype": "F64"}, "it is no int64 of the shape .3."),
        (ENTRY | {"shape": [1, 3]}, "it is no int64 of the shape .3."),
        (ENTRY | {"data_offsets": [-8, 16]}, "it is no int64 of the shape .3."),
        (ENTRY | {"data_offsets": [8, 32]}, "inside the file"),
        (ENTRY | {"data_offsets": [0, 23]}, "multiple of element size"),
        (ENTRY | {"data_offsets": [0, 16]}, "is invalid for input of size 2"),
        (ENTRY | {"data_offsets": [0, 2**70]}, "inside the file"),
        (ENTRY | {"data_offsets": [0.0, 24.0]}, ""),
        (ENTRY | {"data_offsets": "ab"}, ""),
        ({"shape": [3]}, "data_offsets"),
        ([], ""),
    ],
)
def test_a_header_that_does_not_fit_the_file_is_refused(entry: Any, said: str, data_set: Path) -> None:
    safetensors(data_set.parents[2] / "blob" / "a.safetensors", {"positions": entry}, bytes(24))
    with pytest.raises(
        Unsupported,
        match=f"'positions' cannot be read from ./blob/a.safetensors .bring it, or give other sizes.: .*{said}",
    ):
        DefinitionProblem(str(data_set)).inputs_at({"num_tokens": 3})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
            "it is a pointer of Git LFS: run `git lfs",
        ),
        (b"", "Expecting value"),
        ((2**63).to_bytes(8, "little") + b"{}", "positions"),
        ((9**5).to_bytes(8, "little") + b"[" * 9**5, ""),
        (None, "No such file or directory"),
    ],
)
def test_a_file_that_holds_no_tensors_is_refused(content: bytes | None, said: str, data_set: Path) -> None:
    file = data_set.parents[2] / "blob" / "a.safetensors"
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(
        Unsupported,
        match=f"'positions' cannot be read from ./blob/a.safetensors .bring it, or give other sizes.: .*{said}",
    ):
        DefinitionProblem(str(data_set)).inputs_at({"num_tokens": 3})


def test_a_workload_counts_at_its_own_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = changed("ragged", tmp_path / "ragged.json", lambda it: None)
    first = {"batch_size": 2, "len_indptr": 3, "total_q": 6, "total_kv": 10}
    second = {"batch_size": 1, "len_indptr": 2, "total_q": 3, "total_kv": 3}
    scales = [{"type": "scalar", "value": scale} for scale in (0.5, 0.25)]
    lines = [workload(first, sm_scale=scales[0]), workload(second, sm_scale=scales[1])]
    (tmp_path / "workload.jsonl").write_text("\n".join(lines))
    problem = DefinitionProblem(file)
    for sizes, scale in ((first, 0.5), (second, 0.25), (first | {"total_q": 8}, 0.5)):
        sizes = {name: size for name, size in sizes.items() if name != "len_indptr"}
        assert problem.inputs_at(sizes)[-1] == scale
    compose([f"impl={file}"], for_sweep=True)
    assert capsys.readouterr().err.endswith(
        "; these are the sizes of workload 1 of 2; of its outputs, the first is compared\n"
    )


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "{}", '{"axes": {"M": 0}}', '{"axes": {"M": 8}, "inputs": {"A": {"type": "zeros"}}}', "[" * 9**5],
)
def test_a_line_that_is_no_workload_is_named(line: str, tmp_path: Path) -> None:
    file = changed("product", tmp_path / "product.json", lambda it: None)
    (tmp_path / "workload.jsonl").write_text(f'{{"axes": {{"M": 8}}}}\n{line}\n')
    with pytest.raises(UsageError, match=r"workload.jsonl has a line that is no workload: "):
        compose([f"impl={file}"], for_sweep=True)


def test_a_dump_makes_its_inputs_by_its_own_function(runner: Executor) -> None:
    # Its reference fails unless its function `init` has made the inputs, and unless the optional one is left out.
    assert answer(runner, "verify", str(FILES / "merged.json"), seq_len=5).ok
    assert [one.is_renewed for one in layer_of(str(FILES / "merged.json")).inputs] == [False, False]


def test_what_is_left_out_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    compose([f"impl={FILES / 'merged.json'}"], for_sweep=True)
    assert capsys.readouterr().err.endswith("; assumed, as no workload says it: sizes of 16, state = None\n")


def test_an_optional_input_that_a_workload_has_is_made(tmp_path: Path) -> None:
    file = changed("merged", tmp_path / "merged.json", lambda it: None)
    (tmp_path / "workload.jsonl").write_text(workload({"seq_len": 5}, state={"type": "random"}))
    assert DefinitionProblem(file).inputs_at({"seq_len": 5})[2].tolist() == [[0.0] * 4] * 5


def test_an_input_that_the_own_function_does_not_make_is_refused(tmp_path: Path, runner: Executor) -> None:
    file = changed("merged", tmp_path / "a.json", lambda it: it.update(init=it["init"].replace('"order":', '"plan":')))
    outcome = answer(runner, "facts", file, seq_len=5)
    assert (outcome.status, outcome.reason) == ("unsupported", "its init makes no input 'order'")
