"""Relatives of KernelBench's problem files: small ones of our own, each with one trap."""

import shutil
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
PROJECTION = f"problem-file:{FILES}/projection/reference.py"


def config(*overrides: str, **settings: Any) -> Any:
    return compose(list(overrides), **{"for_sweep": True} | settings)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the directory `projection`, beside which the command runs."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(FILES / "projection", tmp_path / "projection"))


def test_a_directory_is_its_problem_with_its_solution() -> None:
    assert config(f"impl={FILES / 'projection'}").axes["impl"] == (PROJECTION,)
    solution = f"{PROJECTION}+{FILES}/projection/solution.py"
    assert config(f"problem={FILES / 'projection'}").axes["impl"] == (PROJECTION, solution)
    more = config(f"problem={FILES / 'projection'}", f"impl={FILES / 'block_fused.py'}")
    assert more.axes["impl"] == (PROJECTION, solution, f"{PROJECTION}+{FILES / 'block_fused.py'}")


def test_the_shapes_of_a_directory_are_measured_together(capsys: pytest.CaptureFixture[str]) -> None:
    points = config(f"impl={FILES / 'projection'}").points
    assert [(point["seq_len"], point["batch_size"], point["options"]) for point in points] == [
        (16, 2, "out=6+width=4"),
        (32, 2, "out=20+width=8"),
    ]
    assert capsys.readouterr().err.endswith("layer.width = 8, layer.out = 12; without a size given, all its shapes\n")


@pytest.mark.parametrize("size", ["n=64", "layer.width=16", "points=null", "head_dim=4", "preset=ladder"])
def test_sizes_of_the_user_replace_those_of_a_directory(size: str) -> None:
    points = config(f"impl={FILES / 'projection'}", size).points
    assert not any("options" in point for point in points)


def test_a_command_with_sizes_of_its_own_has_those_of_the_module() -> None:
    verified = config(f"impl={FILES / 'projection'}", for_sweep=False, usual=["seq_len=64", "mode=train"])
    assert (verified.points, verified.axes["seq_len"], verified.axes["mode"]) == ((), (16,), ("train",))


def test_heads_of_a_shape_divide_a_width_that_no_file_has(directory: Path) -> None:
    shutil.copy(FILES / "attention_of_heads.py", directory / "reference.py")
    (directory / "shapes.py").write_text("SHAPES = [{'num_heads': 3}, {'num_heads': 4}]")
    points = config("impl=./projection").points
    assert [(point["num_heads"], point["d_model"]) for point in points] == [(3, 3), (4, 4)]


def test_a_solution_of_a_directory_is_verified_against_its_reference(runner: Executor) -> None:
    impl = f"{PROJECTION}+{FILES}/projection/solution.py"
    case = Case(impl, seq_len=32, d_model=1, num_heads=1, batch_size=2, options="out=20+width=8", mode="train")
    outcome = runner.run("verify", case)
    assert (outcome.status, outcome.values["against"]) == (
        "ok",
        f"{FILES}/projection/reference.py:Model-with-its-weights",
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("shapes.py", "SHAPES = [{'T': 'long'}]", "SHAPES: 1: T is the text 'long', not a valid integer"),
        ("shapes.py", "SHAPES = [{'T': True}]", "SHAPES: 1: T is true, not a valid integer"),
        ("shapes.py", "SHAPES = [{'T': 0}]", "SHAPES: 1: T is 0, not greater than 0"),
        (
            "shapes.py",
            "SHAPES = made()",
            "correct it or the files beside it: malformed node or string on line 1",
        ),
        ("shapes.py", "T = 4", "correct it or the files beside it: 'SHAPES'"),
        ("shapes.py", "SHAPES = [", "shapes.py cannot be read as Python"),
        ("problem.yaml", "- flops_formula", "it is a list, not a valid dictionary"),
        (
            "problem.yaml",
            "precision: [",
            "correct it or the files beside it: while parsing a flow node expected",
        ),
        ("problem.yaml", "flops_formula: [1]", "flops_formula is a list, not a valid string"),
        ("problem.yaml", "precision: x\n" + "#" * 2**16, "the file is larger than"),
    ],
)
def test_a_file_of_a_directory_that_cannot_be_read_is_named(
    name: str, content: str, said: str, directory: Path
) -> None:
    (directory / name).write_text(content)
    if name == "problem.yaml" and content.startswith("-"):
        (directory / "shapes.py").unlink()
    with pytest.raises(UsageError, match=said):
        config("impl=./projection")


def test_a_shape_along_a_name_that_the_module_lacks_is_refused(directory: Path) -> None:
    # As an axis of the sweep, `threads` would say how many threads to use.
    (directory / "shapes.py").write_text("SHAPES = [{'T': 16, 'threads': 2}]")
    with pytest.raises(UsageError, match=r"shapes\.py: reference\.py has no integer threads"):
        config("impl=./projection")


def test_files_beside_a_module_of_another_name_say_nothing(directory: Path) -> None:
    (directory / "reference.py").rename(directory / "problem.py")
    assert config("impl=./projection/problem.py").points == ()


def test_a_model_of_any_name_is_the_one_that_no_other_part_uses(runner: Executor) -> None:
    assert layer_of(str(FILES / "any_name.py")).__name__ == "GatedSum"
    outcome = runner.run("verify", Case(f"problem-file:{FILES / 'any_name.py'}", seq_len=1, d_model=1, num_heads=1))
    assert outcome.ok


def test_a_solution_of_a_model_of_any_name_is_a_model_too(tmp_path: Path) -> None:
    text = (FILES / "any_name.py").read_text().replace("GatedSum", "ModelNew")
    (tmp_path / "solution.py").write_text(text)
    layer = layer_of(f"{FILES / 'any_name.py'}+{tmp_path / 'solution.py'}")
    assert (layer.__name__, layer.reference.__name__) == ("ModelNew", f"{FILES / 'any_name.py'}:GatedSum")
    assert str(FILES / "any_name.py") in files_of_class(layer)


def test_one_of_several_models_is_not_guessed() -> None:
    with pytest.raises(UsageError, match=r"two_models\.py has no class Model: .*: First or Second"):
        config(f"impl={FILES / 'two_models.py'}")


def test_a_layer_of_ones_own_is_no_problem() -> None:
    with pytest.raises(UsageError, match="get_inputs and get_init_inputs, and this file has Doubled"):
        config(f"problem={FILES / 'own_layer.py'}")
    with pytest.raises(UsageError, match="give a class or function of it"):
        config(f"impl={FILES / 'own_layer.py'}")


def test_integer_defaults_of_the_functions_are_sizes(runner: Executor) -> None:
    layer = layer_of(str(FILES / "defaults.py"))
    assert [" ".join(one.shape) for one in layer.inputs] == ["b n d"]
    assert layer.names == {"hidden": "hidden", "dim": "d_model", "seq_len": "seq_len", "batch_size": "batch_size"}
    impl = f"problem-file:{FILES / 'defaults.py'}"
    case = Case(impl, seq_len=32, d_model=4, num_heads=1, batch_size=3, options="hidden=10")
    assert runner.run("facts", case).values["flops"] == 2 * 3 * 32 * 4 * 10


def test_sizes_of_one_statement_are_axes(runner: Executor) -> None:
    layer = layer_of(str(FILES / "tuple_of_sizes.py"))
    assert ([" ".join(one.shape) for one in layer.inputs], layer.output) == (["b n d"], ("b", "n", "d"))
    impl = f"problem-file:{FILES / 'tuple_of_sizes.py'}"
    assert runner.run("verify", Case(impl, seq_len=24, d_model=4, num_heads=1, batch_size=3)).ok


def test_a_file_without_integers_has_no_size_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    config(f"impl={FILES / 'any_name.py'}")
    assert capsys.readouterr().err.endswith("any_name.py: no size to change\n")
