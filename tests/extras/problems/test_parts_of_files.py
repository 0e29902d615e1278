"""Files with several problems: registries of flash-linear-attention, and workloads of `kernels benchmark`."""

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
REGISTRY = FILES / "registry" / "registry.py"
REPOSITORY = FILES / "kernel_repository"
BENCHMARK = REPOSITORY / "benchmarks" / "benchmark.py"
B, T, H, D = 2, 16, 2, 8


def name(file: Path, problem: str, solution: str = "") -> str:
    return f"problem-file:{file}:{problem}" + (f"+{file}:{solution}" if solution else "")


def operation(runner: Executor, purpose: str, impl: str, **at: Any) -> Any:
    sizes = {"seq_len": T, "d_model": H * D, "num_heads": H, "batch_size": B} | at
    return runner.run(purpose, Case(impl, **sizes))


def workload(runner: Executor, purpose: str, part: str, file: Path = BENCHMARK, **at: Any) -> Any:
    return runner.run(purpose, Case(name(file, part, part), **{"seq_len": 1, "d_model": 1, "num_heads": 1} | at))


def axes_of(*overrides: str) -> Any:
    return compose(list(overrides), for_sweep=True).axes


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the registry in the current directory."""
    shutil.copytree(REGISTRY.parent, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "registry.py"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REPOSITORY, tmp_path / "kernel"))


@pytest.mark.parametrize(
    ("part", "inputs", "output"),
    [
        ("naive_decay", ["b n h d/h", "b n h d/h", "b n h d/h", "b n h", "b n h"], "b n h d/h"),
        ("chunk_decay", ["b n h", "b n h", "b n h d/h", "b n h d/h", "b n h d/h"], "b n h d/h"),
        ("mean_of_sources", ["b n d", "L b n d"], "b n d"),
    ],
)
def test_shapes_of_an_operation_follow_its_axes(part: str, inputs: list[str], output: str) -> None:
    layer = layer_of(f"{REGISTRY}:{part}")
    assert [" ".join(tensor.shape) for tensor in layer.inputs] == inputs
    assert (" ".join(layer.output), layer.verified_at) == (output, {})


def test_sizes_are_the_first_of_the_registry_or_those_of_the_operation(capsys: pytest.CaptureFixture[str]) -> None:
    axes = axes_of(f"impl={REGISTRY}:naive_decay")
    assert (axes["batch_size"], axes["seq_len"], axes["num_heads"], axes["d_model"]) == ((B,), (T,), (H,), (H * D,))
    axes = axes_of(f"impl={REGISTRY}:squared")
    assert (axes["batch_size"], axes["seq_len"], axes["num_heads"], axes["d_model"]) == ((1,), (4,), (2,), (8,))
    axes = axes_of(f"impl={REGISTRY}:mean_of_sources")
    assert (axes["seq_len"], axes["num_heads"], axes["d_model"]) == ((8,), (1,), (4,))
    assert capsys.readouterr().err.endswith("num_heads is its H = 1, d_model = 4; layer.L = 3\n")


@pytest.mark.parametrize("n", [16, 40])
@pytest.mark.parametrize("head_dim", [8, 16])
def test_the_work_of_an_operation_is_that_of_its_length_and_of_the_width_of_a_head(
    n: int, head_dim: int, runner: Executor
) -> None:
    impl = name(REGISTRY, "chunk_decay")
    facts = operation(runner, "facts", impl, seq_len=n, num_heads=3, d_model=3 * head_dim).values
    # Two products of (n, n) matrices for each head of each sequence.
    assert facts["flops"] == B * 3 * (2 * 2 * n * n * head_dim)
    assert facts["inputs_bytes"] == 4 * B * n * 3 * (3 * head_dim + 2)


def test_the_width_of_a_head_may_be_swept(registry: Path) -> None:
    points = compose(["impl=registry.py:chunk_decay", "head_dim=8,16", "seq_len=32"], for_sweep=True).points
    assert [point["d_model"] for point in points] == [16, 32]


@pytest.mark.parametrize(("solution", "status"), [("chunk_decay", "ok"), ("wrong_decay", "incorrect")])
def test_an_operation_is_verified_against_another_by_the_names_of_its_inputs(
    solution: str, status: str, runner: Executor
) -> None:
    outcome = operation(runner, "verify", name(REGISTRY, "naive_decay", solution), mode="train")
    assert outcome.status == status
    assert not outcome.ok or outcome.values["against"] == f"{REGISTRY}:naive_decay:Model"


def test_an_operation_is_verified_against_a_problem_of_kernelbench(tmp_path: Path, runner: Executor) -> None:
    (tmp_path / "squares.py").write_text(
        "import torch\nB, T, H, D = 1, 4, 2, 4\n\n\nclass Model(torch.nn.Module):\n    def forward(self, q):\n"
        "        return (q[..., None, :] * q[..., None, :, :]).sum(-1)\n\n\ndef get_inputs():\n"
        "    return [torch.randn(B, T, H, D)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    impl = f"problem-file:{tmp_path / 'squares.py'}+{REGISTRY}:squared"
    assert operation(runner, "verify", impl, seq_len=8, num_heads=3, d_model=3).ok


def test_operations_are_compared_from_the_command_line(registry: Path) -> None:
    impls = axes_of("problem=./registry.py:naive_decay", "impl=./registry.py:chunk_decay")["impl"]
    assert impls == (
        "problem-file:registry.py:naive_decay",
        "problem-file:registry.py:naive_decay+registry.py:chunk_decay",
    )


def test_a_class_of_a_file_is_no_solution_but_a_layer() -> None:
    layer = f"{FILES / 'mean_of_window.py'}:MeanOfWindow"
    assert axes_of(f"problem={REGISTRY}:naive_decay", f"impl={layer}")["impl"][1] == layer


@pytest.mark.parametrize(("head_dim", "status"), [(16, "ok"), (32, "unsupported")])
def test_a_constraint_of_an_operation_holds_at_each_case(head_dim: int, status: str, runner: Executor) -> None:
    for purpose in ("facts", "verify"):
        outcome = operation(runner, purpose, name(REGISTRY, "chunk_decay"), d_model=H * head_dim)
        assert outcome.status == status
        assert outcome.ok or outcome.reason == "chunk_decay takes D in [8, 16], and it is 32"


def test_a_list_of_tensors_is_one_input_whose_number_is_an_axis(runner: Executor) -> None:
    impl, at = name(REGISTRY, "mean_of_sources"), {"seq_len": 8, "num_heads": 2, "d_model": 6, "options": "L=5"}
    facts = operation(runner, "facts", impl, **at).values
    assert facts["inputs_bytes"] == 4 * B * 8 * 6 * (5 + 1)
    assert operation(runner, "verify", impl, mode="train", **at).ok


def test_inputs_without_a_transform_are_drawn_anew() -> None:
    fills = [tensor.fill for tensor in layer_of(f"{REGISTRY}:naive_decay").inputs]
    assert fills[:3] == ["normal"] * 3
    assert not any(isinstance(fill, str) for fill in fills[3:])


def test_the_code_of_an_operation_is_that_of_its_module_too(registry: Path, runner: Executor) -> None:
    assert str(REGISTRY.with_name("plain_operations.py")) in files_of_class(layer_of(f"{REGISTRY}:chunk_decay"))


def test_modules_of_one_name_beside_two_registries_are_not_mixed_up(registry: Path, runner: Executor) -> None:
    impl = f"{name(REGISTRY, 'naive_decay')}+{registry}:wrong_decay"
    reason = operation(runner, "verify", impl).reason
    assert "measure one registry at a time: plain_operations is " in reason


def test_kernels_of_one_name_are_not_mixed_up(repository: Path, runner: Executor) -> None:
    scales = repository / "torch-ext" / "small_kernel" / "scales.py"
    scales.write_text("SCALE = 0.25")
    impl = f"{name(BENCHMARK, 'wide')}+{repository}/benchmarks/benchmark.py:wide"
    assert workload(runner, "verify", "wide").ok
    assert runner.run("verify", Case(impl, seq_len=1, d_model=1, num_heads=1)).status == "incorrect"


def test_a_package_that_is_absent_is_named(runner: Executor) -> None:
    reason = operation(runner, "facts", name(REGISTRY, "elsewhere")).reason
    assert "no_such_package.ops cannot be imported (No module named 'no_such_package'): install its package" in reason


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", r"known: naive_decay, chunk_decay, wrong_decay, mean_of_sources, squared, elsewhere$"),
        ('"T": 16', '"T": "long"', "SHAPES: 1: T is the text 'long', not a valid integer"),
        ('"T": 16', '"T": 0', "SHAPES: 1: T is 0, not greater than 0"),
        ("SHAPE_CONFIGS = {", "SHAPE_CONFIGS = dict() or {", "correct it or the files beside it: malformed node"),
        ("=STACKS", "={}", "correct it or the files beside it: not enough values to unpack"),
        ("SHAPE_CONFIGS", "SHAPES", "correct it or the files beside it: malformed node"),
        ('name="squared"', 'func_name="squared"', "correct it or the files beside it: 'name'"),
    ],
)
def test_a_registry_that_cannot_be_read_is_an_error(old: str, new: str, said: str, registry: Path) -> None:
    registry.write_text(registry.read_text().replace(old, new))
    with pytest.raises(UsageError, match=said):
        axes_of("impl=registry.py")


@pytest.mark.parametrize("size", ["B", "T", "H", "D"])
def test_a_size_that_a_shape_lacks_is_named(size: str, registry: Path, runner: Executor) -> None:
    registry.write_text(registry.read_text().replace(f'"{size}": ', '"x y": ', 1))
    reason = operation(runner, "facts", name(registry, "naive_decay")).reason
    assert "fails at its own sizes" in reason
    assert f"'{size}'" in reason


def test_a_misspelt_part_is_named_with_the_nearest(registry: Path) -> None:
    with pytest.raises(UsageError, match=r"registry\.py:NAME; did you mean 'chunk_decay'\?"):
        axes_of("impl=registry.py:chunck_decay")


@pytest.mark.parametrize("part", ["wide", "Products.small", "Products.wide", "Sums.small"])
def test_a_workload_is_verified_against_its_reference(part: str, runner: Executor) -> None:
    outcome = workload(runner, "verify", part)
    assert (outcome.status, outcome.values["against"]) == ("ok", f"{BENCHMARK}:{part}:Model")


def test_a_workload_is_a_fixed_case_with_its_own_setup(runner: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    facts = workload(runner, "facts", "wide", dtype="float16").values
    assert (facts["flops"], facts["inputs_bytes"]) == (2 * 16 * 16 * 32, 2 * (16 * 16 + 16 * 32))
    impls = axes_of(f"problem={BENCHMARK}:wide")["impl"]
    assert impls == (f"problem-file:{BENCHMARK}:wide", name(BENCHMARK, "wide", "wide"))
    said = "no size to change; impl=FILE measures Model alone, and problem=FILE its ModelNew too"
    assert capsys.readouterr().err.endswith(f"wide: {said}\n")
    assert "no integer that is seq_len" in workload(runner, "facts", "wide", seq_len=4).reason


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("wrong", "output is off by"),
        # Its second call would have another result.
        ("accumulated", "output is not finite"),
    ],
)
def test_a_workload_with_other_results_than_its_reference_is_incorrect(part: str, said: str, runner: Executor) -> None:
    outcome = workload(runner, "verify", part)
    assert outcome.status == "incorrect"
    assert outcome.reason.startswith(said)


def test_tensors_in_a_list_are_the_same_for_a_workload_and_its_reference(runner: Executor) -> None:
    assert workload(runner, "verify", "listed").ok


def test_a_workload_has_no_backward_pass(runner: Executor) -> None:
    outcome = workload(runner, "verify", "wide", mode="train")
    assert (outcome.status, outcome.reason) == (
        "unsupported",
        "a benchmark has no backward pass: give mode=forward",
    )


def test_the_code_of_a_workload_is_that_of_its_kernel_too() -> None:
    files = files_of_class(layer_of(f"{BENCHMARK}:wide+{BENCHMARK}:wide"))
    kernel = REPOSITORY / "torch-ext" / "small_kernel"
    assert {str(BENCHMARK), str(kernel / "__init__.py"), str(kernel / "scales.py")} <= {*files}


def test_workloads_without_a_reference_are_none(repository: Path) -> None:
    file = repository / "benchmarks" / "benchmark.py"
    listed = "known: Products.small, Products.wide, Products.wrong, Sums.accumulated, Sums.listed, Sums.small$"
    with pytest.raises(UsageError, match=listed):
        axes_of(f"problem={file}")
    with pytest.raises(UsageError, match="give one of its parts"):
        axes_of(f"problem={file}:unverified")
    with pytest.raises(UsageError, match="give one of its parts"):
        axes_of(f"problem={file}:small")  # of which class?


def test_a_file_with_one_workload_needs_no_name(repository: Path) -> None:
    file = repository / "benchmarks" / "benchmark.py"
    before, _, _ = file.read_text().partition("    def verify_wide")
    file.write_text(before)
    assert layer_of(f"{file}+{file}").__name__ == "ModelNew"


def test_a_kernel_that_is_built_needs_the_package_that_loads_it(repository: Path, runner: Executor) -> None:
    file = repository / "benchmarks" / "benchmark.py"
    (repository / "build").mkdir()
    reason = workload(runner, "facts", "wide", file).reason
    assert f"the kernel in {repository}/build is loaded by the package kernels: install it" in reason


def test_a_kernel_that_is_absent_is_said_to_be(repository: Path, runner: Executor) -> None:
    shutil.rmtree(repository / "torch-ext")
    reason = workload(runner, "facts", "wide", repository / "benchmarks" / "benchmark.py").reason
    assert f"no kernel is in build/ or torch-ext/NAME/ of {repository}: build it, or bring its files" in reason
