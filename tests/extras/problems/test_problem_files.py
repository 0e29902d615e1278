"""Problem files as layers: small files of our own, each with one trap."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.config import compose
from harness.core.layers.layer_files import files_of_class
from harness.core.layers.layer_lookup import is_in_a_file
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.extras.compare.commands import read_comparison_request
from harness.extras.problems.trials.layer import layer_of

FILES = Path(__file__).parent / "files"
N, D, H, B, HIDDEN = 16, 8, 2, 2, 32


def name(problem: str, solution: str = "") -> str:
    return f"problem-file:{FILES / problem}.py" + (f"+{FILES / solution}.py" if solution else "")


def answer(runner: Executor, purpose: str, impl: str, **at: Any) -> Any:
    sizes = {"seq_len": N, "d_model": D, "num_heads": H, "batch_size": B} | at
    return runner.run(purpose, Case(impl, **sizes))


@pytest.mark.parametrize(
    ("problem", "inputs", "output"),
    [
        ("block", ["b n d"], "b n d"),
        ("both", ["b n d"], "b n d"),
        ("growing_weights", ["b n h a"], "b n h a"),
        ("tokens", ["b n", "d"], "b n d"),
        ("recurrent", ["n b i", "2u b d", "2u b d"], "n b 2d"),
        ("attention_of_heads", ["b h n i"] * 3, "b h n i"),
        # These keep their own sizes.
        ("a_sum", ["2 17 8"], "2 17 8"),
        ("by_values", ["2 16 8"], "2 16 8"),
    ],
)
def test_each_dimension_is_found_in_the_sizes_of_the_file(problem: str, inputs: list[str], output: str) -> None:
    layer = layer_of(str(FILES / f"{problem}.py"))
    assert [" ".join(one.shape) for one in layer.inputs] == inputs
    assert " ".join(layer.output) == output
    assert bool(layer.verified_at) == (problem in ("a_sum", "by_values"))


@pytest.mark.parametrize("n", [16, 48])
def test_the_work_of_a_problem_is_that_of_its_sizes(n: int, runner: Executor) -> None:
    products = 3 * D * D + 2 * D * HIDDEN  # queries, keys and values, and the perceptron
    assert answer(runner, "facts", name("block"), seq_len=n).values["flops"] == B * (2 * n * products + 4 * n * n * D)
    wide = answer(runner, "facts", name("block"), seq_len=n, options="hidden=64").values["flops"]
    assert wide == B * (2 * n * (products + 2 * D * 32) + 4 * n * n * D)


def test_weights_may_grow_with_the_length_and_the_batch(runner: Executor) -> None:
    facts = answer(runner, "facts", name("growing_weights"), seq_len=20, d_model=2, batch_size=3).values
    assert facts["weights_bytes"] == 4 * 3 * 20 * H * (1 + 3)
    assert facts["inputs_bytes"] == 4 * 3 * 20 * H * 4


def test_whole_numbers_keep_their_dtype_and_arguments_their_values(runner: Executor) -> None:
    outcome = answer(runner, "facts", name("tokens"), num_heads=1, dtype="float64")
    assert outcome.values["inputs_bytes"] == 8 * B * N + 8 * D  # int64, and float64
    assert answer(runner, "verify", name("tokens"), num_heads=1, mode="train").ok


@pytest.mark.parametrize(
    ("solution", "status", "said"),
    [
        ("block_fused", "ok", "block.py:Model-with-its-weights"),
        ("block_renamed", "ok", "block.py:Model-from-one-seed"),
        ("block_reseeded", "unsupported", "its weights are not those of the problem (scale)"),
        ("block_wrong", "incorrect", "output is off by"),
    ],
)
def test_a_solution_has_the_weights_of_the_problem_or_those_of_one_seed(
    solution: str, status: str, said: str, runner: Executor
) -> None:
    outcome = answer(runner, "verify", name("block", solution))
    assert outcome.status == status
    assert said in (outcome.values["against"] if outcome.ok else outcome.reason)


@pytest.mark.parametrize(("n", "status"), [(16, "ok"), (32, "unsupported")])
def test_a_solution_for_one_size_runs_at_that_one(n: int, status: str, runner: Executor) -> None:
    outcome = answer(runner, "facts", name("block", "block_of_16"), seq_len=n)
    assert outcome.status == status
    assert outcome.ok or "its seq_len is fixed at 16: it fails at seq_len = 32" in outcome.reason


@pytest.mark.parametrize("problem", ["a_sum", "by_values"])
def test_a_file_that_cannot_be_mapped_is_measured_at_its_own_sizes(problem: str, runner: Executor) -> None:
    own = {"num_heads": 1, "batch_size": 1}
    assert answer(runner, "verify", name(problem), **own).ok
    assert answer(runner, "facts", name(problem), **own).ok
    assert "is fixed at 16" in answer(runner, "facts", name(problem), seq_len=32, **own).reason


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_model_is_built_at_the_batch_of_the_case(batch_size: int, runner: Executor) -> None:
    facts = answer(runner, "facts", name("growing_weights"), d_model=2, batch_size=batch_size).values
    assert facts["weights_bytes"] == 4 * batch_size * N * H * (1 + 3)


def test_a_size_that_the_file_lacks_is_refused(tmp_path: Path, runner: Executor) -> None:
    (tmp_path / "fixed.py").write_text(
        (FILES / "both.py").read_text().replace("B, T, dim = 2, 16, 8", "dim = 8; B = T = 2")
    )
    outcome = answer(runner, "facts", f"problem-file:{tmp_path / 'fixed.py'}", num_heads=1, batch_size=1)
    assert (outcome.status, outcome.reason) == ("unsupported", "the file has no integer that is seq_len: leave it out")


def test_an_integer_of_a_solution_is_a_size_if_the_problem_has_it_with_the_same_value(
    tmp_path: Path, runner: Executor
) -> None:
    text = (FILES / "block_fused.py").read_text()
    for value, status in ((16, "ok"), (3, "incorrect")):  # the length, and a number of its own
        scaled = text.replace("return x + self.down", "return x * (1 + (seq_len == 3)) + self.down")
        (tmp_path / f"with_{value}.py").write_text(f"seq_len = {value}\n{scaled}")
        impl = f"{name('block')}+{tmp_path / f'with_{value}.py'}"
        assert answer(runner, "verify", impl, seq_len=24).status == status


def test_gradients_of_other_weights_are_not_compared(runner: Executor) -> None:
    outcome = answer(runner, "verify", name("block", "block_renamed"), mode="train")
    assert outcome.status == "unsupported"
    assert outcome.reason == "the gradients of its weights have nothing to be compared with: give mode=forward"
    assert answer(runner, "verify", name("block", "block_fused"), mode="train").ok


def test_a_solution_does_not_say_how_inexact_it_may_be(tmp_path: Path, runner: Executor) -> None:
    text = (FILES / "block_wrong.py").read_text()
    (tmp_path / "lenient.py").write_text(text + "\n\nModelNew.allowed_error = 0.9\n")
    assert answer(runner, "verify", f"{name('block')}+{tmp_path / 'lenient.py'}").status == "incorrect"


def test_heads_of_another_width_are_an_axis_of_their_own(tmp_path: Path) -> None:
    text = (FILES / "block.py").read_text()
    (tmp_path / "wide.py").write_text(text.replace("n_head = 2", "n_head = 3"))
    axes = config(f"impl={tmp_path / 'wide.py'}", "seq_len=8").axes
    assert (axes["d_model"], axes["num_heads"]) == ((D,), (1,))


def test_a_solution_that_keeps_its_results_is_found(tmp_path: Path, runner: Executor) -> None:
    text = (FILES / "both.py").read_text()
    kept = "return self.__dict__.setdefault('kept', x.cumsum(1))"
    (tmp_path / "keeps.py").write_text(text.replace("return x.new_ones(x.shape[1], x.shape[1]).tril() @ x", kept))
    outcome = answer(runner, "verify", f"{name('both')}+{tmp_path / 'keeps.py'}", num_heads=1)
    assert outcome.status == "incorrect"


def test_the_digests_of_a_layer_are_those_of_both_files(tmp_path: Path) -> None:
    (tmp_path / "solution.py").write_text((FILES / "block_fused.py").read_text())
    layer = layer_of(f"{FILES / 'block.py'}+{tmp_path / 'solution.py'}")
    assert {str(FILES / "block.py"), str(tmp_path / "solution.py")} <= {*files_of_class(layer)}


def test_a_shape_that_grows_otherwise_at_other_sizes_is_refused(tmp_path: Path, runner: Executor) -> None:
    text = (FILES / "both.py").read_text().replace("randn(B, T, dim)", "randn(B, min(T, 40), dim)")
    (tmp_path / "capped.py").write_text(text)
    impl = f"problem-file:{tmp_path / 'capped.py'}"
    assert answer(runner, "facts", impl, seq_len=40, num_heads=1).ok
    outcome = answer(runner, "facts", impl, seq_len=41, num_heads=1)
    assert (outcome.status, outcome.reason) == (
        "unsupported",
        "get_inputs makes (2, 40, 8), which grows otherwise than (2, 41, 8)",
    )


def config(*overrides: str) -> Any:
    return compose(list(overrides), for_sweep=True)


def test_a_file_is_swept_at_its_own_sizes_unless_others_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    axes = config(f"impl={FILES / 'block.py'}", "seq_len=32,64", "layer.n_embd=16").axes
    assert (axes["impl"], axes["seq_len"], axes["d_model"]) == ((name("block"),), (32, 64), (16,))
    assert (axes["num_heads"], axes["batch_size"]) == ((H,), (B,))
    told = "batch_size = 2, seq_len = 16, d_model is its n_embd = 8, num_heads is its n_head = 2; layer.hidden = 32"
    assert capsys.readouterr().err == f"harness: {FILES / 'block.py'}: {told}\n"


def test_points_have_sizes_of_their_own_under_any_name_of_an_axis() -> None:
    points = config(f"impl={FILES / 'block.py'}", "points=[{n:32,layer.hidden:8},{n:64,layer.hidden:16}]").points
    assert [point["seq_len"] for point in points] == [32, 64]


def test_no_problem_is_measured_unless_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reference.py").write_text((FILES / "block.py").read_text())
    monkeypatch.chdir(tmp_path)
    assert not any(impl.startswith("problem-file:") for impl in config("seq_len=8").axes["impl"])
    assert config("impl=rnn.torch").axes["impl"] == ("rnn.torch",)


def test_a_name_that_is_too_long_for_a_path_is_a_layer_like_any_other() -> None:
    with pytest.raises(UsageError, match="unknown impl"):
        config(f"impl={'x' * 300}")


def test_an_integer_may_have_the_name_of_anything(tmp_path: Path, runner: Executor) -> None:
    text = (FILES / "both.py").read_text().replace("B, T, dim = 2, 16, 8", "B, T, tokens = 2, 16, 8")
    (tmp_path / "named.py").write_text(text.replace("dim)", "tokens)"))
    impl = f"problem-file:{tmp_path / 'named.py'}"
    facts = answer(runner, "facts", impl, num_heads=1, d_model=1, options="tokens=32").values
    assert facts["inputs_bytes"] == 4 * B * N * 32


def test_outputs_that_are_no_numbers_agree_with_nothing(tmp_path: Path, runner: Executor) -> None:
    text = (FILES / "block_renamed.py").read_text().replace("return ", "return float('nan') * ")
    (tmp_path / "nan.py").write_text(text)
    outcome = answer(runner, "verify", f"{name('block')}+{tmp_path / 'nan.py'}")
    assert outcome.status in ("unsupported", "incorrect")


def test_a_problem_is_measured_beside_its_solutions() -> None:
    solutions = f"problem={FILES / 'block.py'}", f"impl={FILES / 'block_fused.py'},attention.fused"
    assert config(*solutions).axes["impl"] == (name("block"), name("block", "block_fused"), "attention.fused")
    assert config(f"problem={FILES / 'both.py'}").axes["impl"] == (name("both"), name("both", "both"))


def test_a_problem_is_compared_with_its_solution() -> None:
    request = read_comparison_request([f"problem={FILES / 'block.py'}", f"impl={FILES / 'block_fused.py'}"], None)
    assert request.impls == (name("block"), name("block", "block_fused"))
    assert request.config.axes["seq_len"] == (N,)
    with pytest.raises(UsageError, match="compare takes two layers"):
        read_comparison_request([f"impl={FILES / 'block.py'}"], None)


def test_a_problem_is_one_file_whatever_the_commit() -> None:
    assert is_in_a_file(name("block"))


def test_a_width_that_no_file_has_is_a_multiple_of_the_heads() -> None:
    axes = config(f"impl={FILES / 'attention_of_heads.py'}", "h=2,3").axes
    assert (axes["d_model"], axes["seq_len"]) == ((6,), (N,))


def test_points_are_not_cut_down_to_the_sizes_of_the_file() -> None:
    points = "points=[{seq_len:32,d_model:8},{seq_len:64,d_model:16}]"
    assert [point["seq_len"] for point in config(f"impl={FILES / 'block.py'}", points).points] == [32, 64]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["impl=block.py", "impl=both.py"], "impl is given twice"),
        (
            ["problem=no_problem.py"],
            "a problem has the functions get_inputs and get_init_inputs, and this file has Model",
        ),
        (["problem=block.py", "impl=test.py"], "test.py cannot be read as Python: .Errno 2. No such file"),
        (["problem=block.py", "layer.widht=4"], "the problem has no integer 'widht'"),
        (["impl=block.py,recurrent.py"], "have different sizes: measure each by itself"),
    ],
)
def test_a_mistake_is_named(overrides: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    with pytest.raises(UsageError, match=said):
        config(*overrides)
