"""Definitions of SOL-ExecBench: derived axes, inputs of the definition's own function, and directories."""

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
from harness.extras.problems.definition_file import read_definition, workloads_of
from harness.extras.problems.definition_format import Definitions
from harness.extras.problems.trials.definition_problem import DefinitionProblem
from harness.extras.problems.trials.layer import layer_of

FILES = Path(__file__).parent / "files" / "reordered"
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A copy of the problem: rows (batch_size · seq_len) in a random order, times a matrix, and `half` rows more."""
    for file in FILES.iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    return tmp_path


def change(directory: Path, by: Change, name: str = "definition.json") -> str:
    """Change a file of the directory."""
    file = directory / name
    content = json.loads(file.read_text())
    by(content)
    file.write_text(json.dumps(content))
    return str(file)


def expression(text: str, name: str = "half") -> Change:
    """Another expression for an axis."""
    return lambda it: it["axes"][name].update(expression=text)


def answer(runner: Executor, purpose: str, file: str, **at: Any) -> Any:
    sizes = {"seq_len": 3, "d_model": 1, "num_heads": 1, "batch_size": 2} | at
    return runner.run(purpose, Case(f"problem-file:{file}", **sizes))


def test_an_axis_may_be_a_sum_a_product_or_a_quotient_of_others() -> None:
    sizes = read_definition(FILES / "definition.json").with_derived({"batch_size": 2, "seq_len": 3})
    assert (sizes["half"], sizes["rows"], sizes["more"]) == (4, 6, 10)


def test_a_derived_axis_is_a_formula_of_shapes_and_no_axis_of_the_sweep() -> None:
    layer = layer_of(str(FILES / "definition.json"))
    assert [tensor.shape for tensor in layer.inputs] == [("bn", "4"), ("bn",), ("4", "8")]
    assert layer.output == ("bn + 4", "8")
    assert [*Definitions().axes(FILES / "definition.json").axis_of] == ["batch_size", "seq_len"]


@pytest.mark.parametrize(
    ("text", "shape"),
    [("2 * (batch_size + seq_len)", "2b + 2n"), ("seq_len * (width // 2)", "4n"), ("seq_len + 1 - width", "n − 7")],
)
def test_a_formula_may_have_brackets_and_quotients_of_constants(text: str, shape: str, directory: Path) -> None:
    file = change(directory, expression(text, "more"))
    assert layer_of(file).output[0] == shape


@pytest.mark.parametrize("length", [3, 16])
def test_the_work_is_that_of_derived_sizes(length: int, runner: Executor) -> None:
    facts = answer(runner, "facts", str(FILES / "definition.json"), seq_len=length).values
    assert facts["flops"] == 2 * (2 * length) * 4 * 8


def test_a_size_of_which_an_axis_is_a_quotient_keeps_the_value_of_the_file(directory: Path, runner: Executor) -> None:
    file = change(directory, expression("(seq_len + 1) // 4"))
    assert answer(runner, "facts", file, seq_len=16).ok
    outcome = answer(runner, "facts", file, seq_len=3)
    assert outcome.status == "unsupported"
    assert outcome.reason.startswith("its seq_len is fixed at 16: '(seq_len + 1) // 4' is no sum, product")


def test_a_dimension_may_be_a_number(directory: Path) -> None:
    file = change(directory, lambda it: it["inputs"]["matrix"].update(shape=["4", "width"]))
    assert layer_of(file).inputs[2].shape == ("4", "8")


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("-width", "'-width' is no sum, product or comparison of axes"),
        ("len(width)", "is no sum, product or comparison of axes"),
        ("depth // 2", "'depth // 2' is no sum, product or comparison of axes that are known before it"),
        ("half + 1", "'half . 1' is no sum, product or comparison of axes that are known before it"),
        ("more - rows", "'more - rows' is no sum, product or comparison of axes that are known before it"),
        ("width == 8", "half: expression is the text 'width == 8', String should match pattern"),
        ("", "'rows . half' is no sum"),
        ("width" + " + 1" * 99, "at most 200 characters"),
    ],
)
def test_an_expression_that_is_not_understood_is_refused(formula: str, said: str, directory: Path) -> None:
    file = change(directory, expression(formula))
    with pytest.raises(UsageError, match=said):
        compose([f"impl={file}"], for_sweep=True)


@pytest.mark.parametrize("formula", ["seq_len - 3", "seq_len // (seq_len - 3)"])
def test_an_axis_that_is_no_size_at_a_case_is_refused(formula: str, directory: Path) -> None:
    file = change(directory, expression(formula))
    with pytest.raises(Unsupported, match="its constraint 'half > 0' does not hold: give other sizes"):
        DefinitionProblem(file).inputs_at({"batch_size": 2, "seq_len": 3})


def test_a_constraint_on_a_constant_does_not_change_it(directory: Path) -> None:
    file = change(directory, lambda it: it.update(constraints=["width == batch_size + 1"]))
    with pytest.raises(Unsupported, match=r"'width == batch_size . 1' does not hold"):
        DefinitionProblem(file).inputs_at({"batch_size": 2, "seq_len": 3})


def test_a_function_of_the_reference_makes_the_inputs_at_all_sizes(runner: Executor) -> None:
    # Its order is a permutation, which no random integers are.
    for length in (16, 5):
        inputs = DefinitionProblem(str(FILES / "definition.json")).inputs_at({"batch_size": 2, "seq_len": length})
        assert inputs[1].sort().values.tolist() == [*range(2 * length)]
        assert answer(runner, "verify", str(FILES / "definition.json"), seq_len=length).ok
    assert not any(tensor.is_renewed for tensor in layer_of(str(FILES / "definition.json")).inputs)


def test_the_function_gets_the_numbers_of_the_workload(directory: Path) -> None:
    def scaled(definition: dict[str, Any]) -> None:
        definition["inputs"]["scale"] = {"shape": None, "dtype": "float32"}
        definition["reference"] = definition["reference"].replace(
            "device=device), ", "device=device) * axes_and_scalars['scale'], ", 1
        )

    file = change(directory, scaled)
    change(directory, lambda it: it["inputs"].update(scale={"type": "scalar", "value": 0.0}), "workload.jsonl")
    inputs = DefinitionProblem(file).inputs_at({"batch_size": 2, "seq_len": 16})
    assert (inputs[0].abs().max(), inputs[3]) == (0, 0.0)


def test_the_function_runs_in_trials_alone(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = change(directory, lambda it: it.update(reference=f"{it['reference']}\nraise SystemExit('it ran')\n"))
    compose([f"impl={file}"], for_sweep=True)
    assert capsys.readouterr().err.endswith("definition.json: batch_size = 2, seq_len = 16\n")


def test_a_function_that_is_absent_is_named(directory: Path) -> None:
    file = change(directory, lambda it: it.update(custom_inputs_entrypoint="other"))
    with pytest.raises(UsageError, match=r"definition\.json has no function 'other'"):
        DefinitionProblem(file).inputs_at({"batch_size": 2, "seq_len": 3})


@pytest.mark.parametrize("length", [16, 3])
def test_a_custom_input_without_a_function_is_refused(length: int, directory: Path) -> None:
    file = change(directory, lambda it: it.update(custom_inputs_entrypoint=None))
    with pytest.raises(Unsupported, match="its init makes no input 'rows_of_x'"):
        DefinitionProblem(file).inputs_at({"batch_size": 2, "seq_len": length})


def test_an_input_that_the_function_does_not_make_is_refused(directory: Path) -> None:
    file = change(directory, lambda it: it.update(reference=it["reference"].replace("'order':", "'plan':")))
    with pytest.raises(Unsupported, match="its make makes no input 'order'"):
        DefinitionProblem(file).inputs_at({"batch_size": 2, "seq_len": 3})


def test_a_bare_workload_may_have_a_tolerance() -> None:
    (workload,) = workloads_of(FILES / "definition.json")
    assert (workload.axes, workload.inputs["order"].type) == ({"batch_size": 2, "seq_len": 16}, "custom")


@pytest.fixture
def other_solutions(directory: Path) -> Path:
    """The directory with a solution that is wrong, and one in another language."""
    solution = json.loads((directory / "solution_python.json").read_text())
    solution["spec"]["languages"] = ["cuda_cpp"]
    (directory / "solution_cuda.json").write_text(json.dumps(solution))
    return directory


def test_a_directory_is_its_definition(directory: Path) -> None:
    axes = compose([f"impl={directory}"], for_sweep=True).axes
    assert axes["impl"] == (f"problem-file:{directory / 'definition.json'}",)


def test_solutions_of_a_directory_are_those_that_run_here(
    other_solutions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axes = compose([f"problem={other_solutions}"], for_sweep=True).axes
    name = f"problem-file:{other_solutions / 'definition.json'}"
    assert axes["impl"] == (name, f"{name}+{other_solutions / 'solution_python.json'}")
    assert f"{other_solutions / 'solution_cuda.json'} is in cuda_cpp: solutions in" in capsys.readouterr().err


@pytest.mark.parametrize(("row", "status"), [("y.new_ones", "ok"), ("1.1 * y.new_ones", "incorrect")])
def test_a_solution_is_verified_with_inputs_of_the_function(
    row: str, status: str, directory: Path, runner: Executor
) -> None:
    def changed(solution: dict[str, Any]) -> None:
        source = solution["sources"][0]
        source["content"] = source["content"].replace("y.new_ones", row)

    solution = change(directory, changed, "solution_python.json")
    assert answer(runner, "verify", f"{directory / 'definition.json'}+{solution}").status == status


def test_a_solution_without_the_source_of_its_entry_point_is_refused(directory: Path) -> None:
    def moved(solution: dict[str, Any]) -> None:
        solution["spec"]["entry_point"] = "main.py::run"

    solution = change(directory, moved, "solution_python.json")
    with pytest.raises(UsageError, match=r"has no source 'main\.py', which its entry_point names"):
        compose([f"problem={directory / 'definition.json'}", f"impl={solution}"], for_sweep=True)


def test_constraints_that_need_each_other_are_refused(directory: Path) -> None:
    def circle(definition: dict[str, Any]) -> None:
        definition["axes"]["count"] = {"type": "var"}
        definition["constraints"] = ["count == seq_len + 1", "seq_len == count + 1"]

    with pytest.raises(UsageError, match=r"'count . 1' is no sum|'seq_len . 1' is no sum"):
        layer_of(change(directory, circle))


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(UsageError, match=r"a\.json is no definition: Expecting property name"):
        compose([f"impl={tmp_path / 'a.json'}"], for_sweep=True)


def test_offsets_that_divide_tokens_are_exact(tmp_path: Path) -> None:
    ragged = Path(__file__).parent / "files" / "ragged.json"
    inputs = DefinitionProblem(str(ragged)).inputs_at({"batch_size": 3, "total_q": 7, "total_kv": 10})
    assert torch.equal(inputs[3], torch.tensor([0, 2, 4, 7], dtype=torch.int32))
    assert torch.equal(inputs[4], torch.tensor([0, 3, 6, 10], dtype=torch.int32))
