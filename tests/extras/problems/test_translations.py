"""Problems of AI-bench, robust-kbench, gpu-mode and MultiKernelBench: small files of our own, each with one trap."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.core.config import compose
from harness.core.layers.layer_files import files_of_class
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.results.columns import lines_of_records
from harness.core.run.executor import Executor
from harness.extras.problems.declared import declared_findings
from harness.extras.problems.trials.layer import layer_of

FILES = Path(__file__).parent / "files"
SPECIFICATION = FILES / "specification" / "projection.yaml"
FUNCTION = FILES / "function" / "func_forward.py"
BACKWARD = FILES / "function" / "func_backward.py"
TASK = FILES / "tasks" / "scaled" / "reference.py"
KINDS = ("input", "init", "shared")


def config(*overrides: str) -> Any:
    return compose(list(overrides), for_sweep=True)


def sizes(*overrides: str) -> list[tuple[int, int, str]]:
    """What the points of a sweep have."""
    points = config(*overrides).points
    return [(point["seq_len"], point["batch_size"], point["options"]) for point in points]


def shapes(name: str) -> list[str]:
    layer = layer_of(name)
    assert not layer.verified_at
    return [*(" ".join(one.shape) for one in layer.inputs), " ".join(layer.output)]


def answer(runner: Executor, purpose: str, impl: str, **at: Any) -> Any:
    return runner.run(purpose, Case(f"problem-file:{impl}", **{"d_model": 1, "num_heads": 1, "batch_size": 2} | at))


def copied(folder: str, to: Path) -> Path:
    return Path(shutil.copytree(FILES / folder, to / folder))


# AI-bench


def test_whole_dims_of_a_specification_are_axes_and_others_keep_their_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert sizes(f"impl={SPECIFICATION}") == [(16, 2, "OUT=4+WIDTH=8"), (32, 2, "OUT=4+WIDTH=8")]
    told = "batch_size is its BATCH = 2, seq_len is its SEQ_LEN = 16; layer.WIDTH = 8, layer.OUT = 4"
    assert f"{told}; without a size given, all its shapes\n" in capsys.readouterr().err
    assert shapes(str(SPECIFICATION)) == ["b n W", "b n O"]


def test_the_part_of_a_specification_is_a_group_of_variants() -> None:
    group = f"{SPECIFICATION}:bench-cpu"
    assert sizes(f"impl={group}") == [(64, 3, "OUT=6+WIDTH=8"), (128, 3, "OUT=6+WIDTH=8")]
    assert layer_of(group)(seq_len=64, batch_size=3, OUT=6, WIDTH=8).call.model.scale == 0.25


def test_the_first_group_that_a_specification_has_is_measured(tmp_path: Path) -> None:
    files = copied("specification", tmp_path)
    text = (files / "projection.yaml").read_text()
    (files / "projection.yaml").write_text(text.replace("ci:", "other:"))
    assert [n for n, *_ in sizes(f"impl={files / 'projection.yaml'}")] == [64, 128]


@pytest.mark.parametrize(("n", "width"), [(16, 8), (48, 12)])
def test_the_work_of_a_specification_is_that_of_its_sizes(n: int, width: int, runner: Executor) -> None:
    at = {"seq_len": n, "options": f"OUT=6+WIDTH={width}"}
    assert answer(runner, "facts", str(SPECIFICATION), **at).values["flops"] == 2 * 2 * n * width * 6
    assert answer(runner, "verify", str(SPECIFICATION), mode="train", **at).ok


@pytest.mark.parametrize(("scale", "status"), [("self.scale", "ok"), ("2", "incorrect")])
def test_a_solution_of_a_specification_is_verified(scale: str, status: str, tmp_path: Path, runner: Executor) -> None:
    text = (FILES / "specification" / "projection.py").read_text()
    (tmp_path / "solution.py").write_text(text.replace("* self.scale", f"* {scale}"))
    files = config(f"problem={SPECIFICATION}", f"impl={tmp_path / 'solution.py'}").axes["impl"]
    assert files == (f"problem-file:{SPECIFICATION}", f"problem-file:{SPECIFICATION}+{tmp_path / 'solution.py'}")
    assert answer(runner, "verify", f"{SPECIFICATION}+{tmp_path / 'solution.py'}", seq_len=16).status == status


def test_the_model_of_a_specification_may_be_where_ai_bench_has_it(tmp_path: Path) -> None:
    specification = tmp_path / "problems" / "specs" / "KernelBench" / "level1" / "projection.yaml"
    model = tmp_path / "third_party" / "KernelBench" / "KernelBench" / "level1" / "projection.py"
    specification.parent.mkdir(parents=True)
    model.parent.mkdir(parents=True)
    shutil.copy(SPECIFICATION, specification)
    with pytest.raises(UsageError, match=f"model is looked for in {specification.with_suffix('.py')} and in {model}"):
        layer_of(str(specification))
    shutil.copy(FILES / "specification" / "projection.py", model)
    layer = layer_of(str(specification))
    assert layer.output == ("b", "n", "O")
    # A change of either is noticed.
    assert {str(specification), str(model)} <= files_of_class(layer).keys()


def verdicts(specification: Path, runner: Executor, lengths: tuple[int, ...] = (16, 32)) -> list[str]:
    """The verdicts on what a specification declares, from counts of its own layer."""
    records = []
    for n in lengths:
        at = {"seq_len": n, "options": "OUT=4+WIDTH=8"}
        counts = answer(runner, "facts", str(specification), **at).values
        record = {"impl": f"problem-file:{specification}", "status": "ok", "mode": "forward", "dtype": "float32", **at}
        own = '{"WIDTH": ["W", 8], "OUT": ["O", 4]}'
        record |= {"batch_size": 2, "own_axes": own, "flops": counts["flops"], "min_bytes": counts["min_bytes"]}
        records.append(record)
    findings = declared_findings({}, lines_of_records(records, False))
    return [] if findings is None else findings.sentences


def test_formulas_of_a_specification_are_judged(runner: Executor) -> None:
    of_bytes, of_flops = verdicts(SPECIFICATION, runner)
    where = "equal to flops at 2 sizes, from BATCH = 2, SEQ_LEN = 16, WIDTH = 8, OUT = 4 to BATCH = 2, SEQ_LEN = 32"
    assert of_flops.startswith(f"Confirmed: flops_formula of problem-file:{SPECIFICATION}: {where}")
    # Scaling and the bias read and write the product again.
    assert of_bytes.startswith(f"Refuted: bytes_formula (precision float32) of problem-file:{SPECIFICATION}: it is")


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        ('"2*BATCH', '"3*BATCH', "flops"),
        ('    mem_bytes: "(', '    mem_bytes: "2 * (', "bytes"),
        # Without its own number, a variant has another formula than the rest.
        ("    flop", "    no_flop", "flops"),
    ],
)
def test_formulas_that_differ_within_a_group_are_left_out(
    old: str, new: str, left: str, tmp_path: Path, runner: Executor
) -> None:
    specification = copied("specification", tmp_path) / "projection.yaml"
    specification.write_text(specification.read_text().replace(old, new, 1))
    (judged,) = verdicts(specification, runner, (16,))
    assert f"{left}_formula" not in judged


@pytest.mark.parametrize(
    ("dtypes", "precision"), [(("float32", "float32"), "float32"), (("float16", "float32"), "unstated")]
)
def test_bytes_are_judged_where_inputs_and_variants_agree_on_a_dtype(
    dtypes: tuple[str, str], precision: str, tmp_path: Path, runner: Executor
) -> None:
    specification = copied("specification", tmp_path) / "projection.yaml"
    of_input, of_variant = dtypes
    text = specification.read_text().replace("dtype: float32", f"dtype: {of_input}")
    specification.write_text(text.replace("params: [X]", f"params: [X]\n    dtype: {of_variant}"))
    assert f"(precision {precision})" in " ".join(verdicts(specification, runner, (16,)))


def test_a_number_of_flops_is_no_formula(tmp_path: Path, runner: Executor) -> None:
    specification = copied("specification", tmp_path) / "projection.yaml"
    specification.write_text(specification.read_text().replace('"2*BATCH*SEQ_LEN*WIDTH*OUT"', "2048"))
    assert "flops_formula" not in " ".join(verdicts(specification, runner, (16,)))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("inputs:\n", "in:\n", "'dict object' has no attribute 'inputs'"),
        ("params: [X]", "params: [Z]", "'dict object' has no attribute 'Z'"),
        ("    dims: {BATCH: 2, SEQ_LEN: 16", "    dim: {BATCH: 2, SEQ_LEN: 16", "has no attribute 'dims'"),
        ("SCALE: 0.5", "no name: 0.5", "invalid syntax"),
        ("SCALE: 0.5", "class: 0.5", "invalid syntax"),
        ("ci:\n", "ci: [\n", "while parsing a flow"),
    ],
)
def test_a_specification_that_cannot_be_read_is_named(old: str, new: str, said: str, tmp_path: Path) -> None:
    specification = copied("specification", tmp_path) / "projection.yaml"
    specification.write_text(specification.read_text().replace(old, new))
    with pytest.raises(UsageError, match=rf"projection\.yaml: correct it or the files beside it: .*{said}"):
        config(f"impl={specification}")


def test_a_group_that_a_specification_lacks_is_named() -> None:
    with pytest.raises(UsageError, match="'dict object' has no attribute 'bench-tpu'"):
        config(f"impl={SPECIFICATION}:bench-tpu")


def test_inputs_have_the_dtype_of_the_case_as_the_model_has(tmp_path: Path, runner: Executor) -> None:
    specification = copied("specification", tmp_path) / "projection.yaml"
    specification.write_text(specification.read_text().replace("dtype: float32", "dtype: float16"))
    model = specification.with_suffix(".py")
    # Torch's device meta does not convolve float16 with float32.
    model.write_text(
        model.read_text().replace("self.down(x)", "nn.functional.conv1d(x.mT, self.down.weight[..., None]).mT")
    )
    assert shapes(str(specification)) == ["b n W", "b n O"]
    at = {"seq_len": 16, "options": "OUT=4+WIDTH=8"}
    assert answer(runner, "facts", str(specification), dtype="bfloat16", **at).values["inputs_bytes"] == 2 * 2 * 16 * 8


def test_other_files_of_yaml_are_no_problems(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(UsageError, match=r"list\.yaml: correct it or .*: it is a list, not a valid dictionary"):
        config(f"impl={tmp_path / 'list.yaml'}")


def test_a_name_of_another_axis_keeps_its_value_and_its_cases_are_left_out(tmp_path: Path) -> None:
    specification = copied("specification", tmp_path) / "projection.yaml"
    text = specification.read_text().replace("SEQ_LEN: 16,", "SEQ_LEN: 16, threads: 1,")
    specification.write_text(text.replace("SEQ_LEN: 32,", "SEQ_LEN: 32, threads: 2,"))
    assert [n for n, *_ in sizes(f"impl={specification}")] == [16]


# robust-kbench


def test_single_settings_of_a_function_are_its_sizes_and_multiple_ones_the_points(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Settings that differ in `eps` too are no points.
    assert sizes(f"impl={FUNCTION.parent}") == [(16, 2, "out=4+width=8"), (32, 2, "out=4+width=8")]
    assert "batch_size = 2, seq_len = 16; layer.out = 4, layer.width = 8;" in capsys.readouterr().err
    assert shapes(str(FUNCTION)) == ["b n w", "b n o"]


def test_a_shared_size_is_that_of_the_inputs_and_of_the_model(runner: Executor) -> None:
    for n, width in ((16, 8), (24, 20)):
        facts = answer(runner, "facts", str(FUNCTION), seq_len=n, options=f"out=6+width={width}").values
        assert facts["flops"] == 2 * 2 * n * width * 6
        assert facts["weights_bytes"] == 4 * width * 6
    assert answer(runner, "verify", str(FUNCTION), seq_len=24, mode="train").ok


def test_a_number_keeps_its_value_in_json() -> None:
    # YAML would read 1e-05 as a text.
    assert layer_of(str(FUNCTION))(seq_len=16, batch_size=2).call.model.eps == 1e-05


@pytest.mark.parametrize(("added", "status"), [("eps", "ok"), ("2 * eps + 1", "incorrect")])
def test_a_function_is_measured_within_the_model_of_its_task(
    added: str, status: str, tmp_path: Path, runner: Executor
) -> None:
    text = (FILES / "function" / "linear.py").read_text()
    (tmp_path / "mine.py").write_text(text.replace("+ eps", f"+ {added}"))
    files = config(f"problem={FUNCTION}", f"impl={tmp_path / 'mine.py'}").axes["impl"]
    assert files == (f"problem-file:{FUNCTION}", f"problem-file:{FUNCTION}+{tmp_path / 'mine.py'}")
    for mode in ("forward", "train"):
        outcome = answer(runner, "verify", f"{FUNCTION}+{tmp_path / 'mine.py'}", seq_len=16, mode=mode)
        assert outcome.status == status
        assert not outcome.ok or outcome.values["against"] == f"{FUNCTION}:Model-with-its-weights"


def test_a_task_that_is_copied_and_changed_is_a_solution_too(tmp_path: Path, runner: Executor) -> None:
    (tmp_path / "changed.py").write_text(FUNCTION.read_text().replace("+ eps", "+ eps + 1"))
    assert layer_of(f"{FUNCTION}+{tmp_path / 'changed.py'}").__name__ == "forward_fn"
    assert answer(runner, "verify", f"{FUNCTION}+{tmp_path / 'changed.py'}", seq_len=16).status == "incorrect"


@pytest.mark.parametrize(("factor", "status"), [("gradient.T", "ok"), ("2 * gradient.T", "incorrect")])
def test_a_backward_pass_is_verified_with_its_gradients(
    factor: str, status: str, tmp_path: Path, runner: Executor
) -> None:
    text = (FILES / "function" / "gradients.py").read_text()
    (tmp_path / "mine.py").write_text(text.replace("gradient.T", factor))
    impl = f"{BACKWARD}+{tmp_path / 'mine.py'}"
    at = {"batch_size": 1, "seq_len": 16, "options": "width=8"}
    assert answer(runner, "verify", impl, mode="train", **at).status == status
    assert answer(runner, "verify", impl, mode="forward", **at).ok


def test_a_part_of_a_function_is_refused() -> None:
    with pytest.raises(UsageError, match="ValueError: a task of robust-kbench has no parts: leave out :multi"):
        layer_of(f"{FUNCTION}:multi")


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    files = copied("function", tmp_path)
    text = (files / "config_forward.json").read_text()
    (files / "config_forward.json").write_text(text.replace('{"out": 4,', '{"batch_size": 3, "out": 4,'))
    with pytest.raises(UsageError, match="ValueError: batch_size has two values in single_input_configs and single_"):
        layer_of(str(files / "func_forward.py"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "it is a list, not a valid dictionary"),
        ("{}", "'dict object' has no attribute 'single_input_configs'"),
        ("{", "Expecting property name"),
    ],
)
def test_a_file_of_settings_that_cannot_be_read_is_named(content: str, said: str, tmp_path: Path) -> None:
    files = copied("function", tmp_path)
    (files / "config_forward.json").write_text(content)
    with pytest.raises(UsageError, match=rf"func_forward\.py: correct it or the files beside it: {said}"):
        config(f"impl={files}")


def test_a_function_without_settings_is_no_problem(tmp_path: Path) -> None:
    files = copied("function", tmp_path)
    (files / "config_forward.json").unlink()
    with pytest.raises(UsageError, match="a problem has the functions get_inputs and get_init_inputs, and this file"):
        config(f"problem={files / 'func_forward.py'}")


def test_a_setting_that_the_model_does_not_take_is_named(tmp_path: Path) -> None:
    files = copied("function", tmp_path)
    text = (files / "config_forward.json").read_text()
    (files / "config_forward.json").write_text(text.replace('"out": 4', '"inside": 4'))
    with pytest.raises(UsageError, match=r"fails at its own sizes: TypeError: .* unexpected keyword argument 'inside'"):
        layer_of(str(files / "func_forward.py"))


def test_a_function_is_no_solution_of_a_problem_that_takes_a_class() -> None:
    with pytest.raises(UsageError, match=r"fails at its own sizes: AttributeError: .* no attribute 'Model'"):
        layer_of(f"{FILES / 'block.py'}+{FILES / 'function' / 'linear.py'}")
    with pytest.raises(UsageError, match="a solution has ModelNew, Model or the function of its format, and this file"):
        config(f"problem={FUNCTION}", f"impl={FILES / 'tasks' / 'utils.py'}")


# gpu-mode


def test_benchmarks_that_differ_in_sizes_alone_are_points(capsys: pytest.CaptureFixture[str]) -> None:
    points = config(f"impl={TASK.parent}").points
    assert [(point["seq_len"], point["d_model"], point["batch_size"], point["options"]) for point in points] == [
        (16, 4, 2, "out=6"),
        (32, 8, 2, "out=6"),
    ]
    told = "batch_size is its B = 2, seq_len is its seqlen = 16, d_model is its hiddendim = 4; layer.out = 6;"
    assert told in capsys.readouterr().err
    assert sizes(f"impl={TASK}:tests") == [(8, 1, "out=2")]


@pytest.mark.parametrize(("n", "width"), [(16, 4), (24, 10)])
def test_a_task_with_its_submission_runs_at_any_sizes(n: int, width: int, runner: Executor) -> None:
    submission = f"{TASK}+{TASK.parent}/submission.py"
    assert config(f"problem={TASK.parent}").axes["impl"] == (f"problem-file:{TASK}", f"problem-file:{submission}")
    at = {"seq_len": n, "d_model": width, "options": "out=6"}
    for impl in (str(TASK), submission):
        assert answer(runner, "facts", impl, **at).values["flops"] == 2 * 2 * n * width * 6
        assert answer(runner, "verify", impl, **at).ok


def test_a_wrong_submission_is_incorrect(tmp_path: Path, runner: Executor) -> None:
    text = (TASK.parent / "submission.py").read_text()
    (tmp_path / "mine.py").write_text(text.replace("x @ (weight * scale)", "x @ weight"))
    *_, impl = config(f"problem={TASK.parent}", f"impl={tmp_path / 'mine.py'}").axes["impl"]
    outcome = runner.run("verify", Case(impl, seq_len=16, d_model=4, num_heads=1, batch_size=2, options="out=6"))
    assert outcome.status == "incorrect"


SMALL = """
import torch
def generate_input(size, seed):
    return DATA
def ref_kernel(data):
    assert type(data).__name__ == "KIND"
    return sum(data).cumsum(0)
"""


@pytest.mark.parametrize(("data", "kind"), [("torch.randn(size, 4)", "Tensor"), ("(torch.randn(size, 4),)", "tuple")])
def test_data_of_one_tensor_is_a_tuple_if_the_task_makes_one(
    data: str, kind: str, tmp_path: Path, runner: Executor
) -> None:
    (tmp_path / "task.yml").write_text("tests: [{size: 16, seed: 1}]")
    (tmp_path / "reference.py").write_text(SMALL.replace("DATA", data).replace("KIND", kind))
    at = {"seq_len": 1, "batch_size": 1, "options": "size=20"}
    assert answer(runner, "verify", str(tmp_path / "reference.py"), **at).ok


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ("torch.randn(size), {'eps': 1}", "dict"),
        ("torch.randn(size), torch.nn.Linear(4, 4)", "Linear"),
        ("torch.randn(size), (torch.randn(size), 2)", "tuple"),
        ("[torch.randn(size)]", "list"),
    ],
)
def test_data_that_is_nested_is_refused(data: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "task.yml").write_text("tests: [{size: 16, seed: 1}]")
    (tmp_path / "reference.py").write_text(SMALL.replace("DATA", data))
    said = f"TypeError: its data holds a {kind}: give tensors and numbers, alone or in one tuple"
    with pytest.raises(UsageError, match=f"fails at its own sizes: {said}$"):
        layer_of(str(tmp_path / "reference.py"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is present")
@pytest.mark.parametrize(
    "data",
    [
        "torch.randn(size, device='cuda')",
        "torch.randn(size).cuda()",
        "torch.randn(size, device='cuda', generator=torch.Generator(device='cuda'))",
    ],
)
def test_a_problem_that_needs_cuda_says_so(data: str, tmp_path: Path) -> None:
    (tmp_path / "task.yml").write_text("benchmarks: [{size: 16, seed: 1}]")
    (tmp_path / "reference.py").write_text(SMALL.replace("DATA", data))
    with pytest.raises(UsageError) as refused:
        layer_of(str(tmp_path / "reference.py"))
    assert str(refused.value) == f"{tmp_path}/reference.py needs CUDA: measure it where torch.cuda.is_available()"


def test_a_problem_that_names_cuda_and_fails_otherwise_says_how(tmp_path: Path) -> None:
    text = (FILES / "both.py").read_text().replace("randn(B, T, dim)", "randn(B, T, dim, device='cpu' or 'cuda') + 'x'")
    (tmp_path / "problem.py").write_text(text)
    with pytest.raises(UsageError, match="fails at its own sizes: TypeError"):
        layer_of(str(tmp_path / "problem.py"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("benchmarks: []", "has no element 0"),
        ("description: none", "No first item"),
        ("tests: [{'two words': 1}]", "invalid syntax"),
    ],
)
def test_a_task_that_cannot_be_read_is_named(content: str, said: str, tmp_path: Path) -> None:
    files = copied("tasks", tmp_path) / "scaled"
    (files / "task.yml").write_text(content)
    with pytest.raises(UsageError, match=rf"reference\.py: correct it or the files beside it: .*{said}"):
        config(f"impl={files}")


# MultiKernelBench

GROUPS = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, power):
        return x ** power
def get_input_groups():
    return [[torch.randn(4, 6), 2], [torch.randn(5, 3, 2), 3]]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("part", "shape"), [("", "4 6"), (":1", "4 6"), (":2", "5 3 2")])
def test_the_part_of_a_problem_with_groups_is_the_number_of_one(
    part: str, shape: str, tmp_path: Path, runner: Executor
) -> None:
    (tmp_path / "power.py").write_text(GROUPS)
    impl = f"{tmp_path / 'power.py'}{part}"
    assert config(f"impl={impl}").axes["impl"] == (f"problem-file:{impl}",)
    assert [" ".join(one.shape) for one in layer_of(impl).inputs] == [shape]
    assert answer(runner, "verify", impl, seq_len=1, batch_size=1).ok


@pytest.mark.parametrize("part", ["0", "-1", "3"])
def test_a_group_that_is_not_there_is_none(part: str, tmp_path: Path) -> None:
    (tmp_path / "power.py").write_text(GROUPS)
    with pytest.raises(UsageError, match=f"fails at its own sizes: KeyError: {part}"):
        layer_of(f"{tmp_path / 'power.py'}:{part}")


def test_a_group_without_a_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "power.py").write_text(GROUPS)
    with pytest.raises(UsageError, match=r"power\.py: correct it or the files beside it: invalid literal for int"):
        config(f"impl={tmp_path / 'power.py'}:first")
