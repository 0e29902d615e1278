"""What is said of a problem before it is measured: outputs that show nothing, unused tensors, and memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.core.run.executor import Executor
from harness.extras.problems.formats import format_of

pytestmark = pytest.mark.usefixtures("look")
FILES = Path(__file__).parent / "files"
# A problem whose model has these lines of code.
PROBLEM = """
import torch
from torch import nn

seq_len, dim = 6, 8


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        {init}

    def forward(self, {names}):
        {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [dim]
"""
ONE, TWO = "torch.randn(seq_len, dim)", "torch.randn(seq_len, dim), torch.randn(seq_len, dim)"
ATTENTION = "self.q, self.k, self.v = (nn.Linear(dim, dim, bias={}) for _ in range(3))"
ATTEND = "return (self.q(x) @ self.k(x).T).softmax(-1) @ self.v(x)"


@pytest.fixture
def said(tmp_path: Path, runner: Executor) -> Any:
    """The warnings about a model with these lines."""

    def of(forward: str, inputs: str = ONE, init: str = "pass") -> list[str]:
        names = ", ".join("xyz"[: inputs.count("torch.")])
        file = tmp_path / "problem.py"
        file.write_text(PROBLEM.format(init=init, names=names, forward=forward, inputs=inputs))
        return warnings(runner, file)

    return of


def warnings(runner: Executor, file: Path, **sizes: int) -> list[str]:
    axes = format_of(str(file)).axes(file)
    own = {name: axes.sizes[axis] for name, axis in axes.axis_of.items()}
    outcome = runner.run("look_at_problem", extra={"file": str(file), "sizes": own | sizes})
    return [text for text in outcome.values.get("warning", str(outcome.reason)).split("; ") if text]


@pytest.mark.parametrize("file", ["block.py", "attention_of_heads.py", "recurrent.py", "tokens.py", "product.json"])
def test_nothing_is_said_of_a_usual_problem(file: str, runner: Executor) -> None:
    assert warnings(runner, FILES / file) == []


def test_an_output_below_the_tolerance_is_trivial(said: Any) -> None:
    (text,) = said("return 1e-6 * x.tanh()")
    assert text.startswith("zeros would pass the tolerance of its format: the largest output is 9.")
    assert said("return 1e-3 * x.tanh()") == []


def test_a_definition_tolerates_more(runner: Executor, tmp_path: Path) -> None:
    definition = json.loads((FILES / "product.json").read_text())
    definition["reference"] = definition["reference"].replace("return ", "return 1e-4 * ")
    file = tmp_path / "small.json"
    file.write_text(json.dumps(definition))
    (text,) = warnings(runner, file)
    assert text.startswith("zeros would pass the tolerance of its format: the largest output is 0.00")


def test_the_tolerance_of_16_bits_is_larger(said: Any) -> None:
    (text,) = said("return (1e-3 * x.tanh()).bfloat16()")
    assert text.startswith("zeros would pass")


def test_an_output_of_zeros_depends_on_nothing(said: Any) -> None:
    assert said("return 0 * x") == [
        "zeros would pass the tolerance of its format: the largest output is 0",
        "its output does not depend on input 1",
    ]


@pytest.mark.parametrize("forward", ["return x / 0 * 0", "return x.clone().fill_(torch.inf)"])
def test_an_output_that_is_not_finite_is_named(forward: str, said: Any) -> None:
    assert said(forward) == ["its output has numbers that are not finite"]


def test_an_input_that_changes_nothing_is_named(said: Any) -> None:
    assert said("return x + 0 * y", TWO) == ["its output does not depend on input 2"]
    assert said("return x + 1e-3 * y", TWO) == []


def test_an_input_of_constant_values_is_drawn_anew_too(said: Any) -> None:
    assert said("return x * y", f"{ONE}, torch.ones(dim)") == []


def test_a_bias_before_a_softmax_is_a_weight_that_changes_nothing(said: Any) -> None:
    assert said(ATTEND, init=ATTENTION.format(True)) == ["its output does not depend on k.bias"]
    assert said(ATTEND, init=ATTENTION.format(False)) == []


def test_a_weight_of_zeros_may_matter(said: Any) -> None:
    gain = "self.gain = nn.Parameter(torch.zeros(dim))"
    assert said("return x * (1 + self.gain)", init=gain) == []


def test_weights_behind_a_weight_of_zeros_change_nothing_now(said: Any) -> None:
    gated = "self.up = nn.Linear(dim, dim, bias=False); self.gate = nn.Parameter(torch.zeros(dim))"
    assert said("return x + self.gate * self.up(x)", init=gated) == ["its output does not depend on up.weight"]


def test_many_weights_that_change_nothing_are_counted(said: Any) -> None:
    (text,) = said("return x", init="self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(4))")
    assert text.endswith("layers.0.weight, layers.0.bias, layers.1.weight, layers.1.bias and 4 more tensors")


def test_random_numbers_of_a_forward_pass_are_the_same_in_each_call(said: Any) -> None:
    assert said("return x + torch.randn_like(x) + 0 * y", TWO) == ["its output does not depend on input 2"]
    assert said("return x * torch.rand_like(x) + y", TWO) == []


def test_a_model_that_counts_its_calls_is_new_in_each(said: Any) -> None:
    counting = "self.calls = 0"
    assert said("self.calls += 1; return self.calls * x + 0 * y", TWO, counting) == [
        "its output does not depend on input 2"
    ]


def test_an_input_that_is_changed_in_place_is_drawn_again(said: Any) -> None:
    assert said("return x.mul_(2) + 0 * y", TWO) == ["its output does not depend on input 2"]


def test_whole_numbers_are_left_out(said: Any) -> None:
    assert said("return x", f"{ONE}, torch.arange(3)") == []


@pytest.mark.parametrize(
    ("whole", "is_named"),
    [
        ("torch.tensor([0, 4, 8, 12])", True),
        ("torch.tensor([0, 4, 7, 12])", False),
        ("torch.full((3,), 4)", True),
        ("torch.tensor([4, 3, 5])", False),
        ("torch.arange(3)", False),  # positions
        ("torch.ones(3).bool()", False),  # a mask
    ],
)
def test_sequences_of_one_length_are_named(whole: str, is_named: bool, said: Any) -> None:
    assert said("return x", f"{ONE}, {whole}") == ["input 2 has sequences of one length"] * is_named


def test_a_problem_that_needs_much_memory_is_not_run(runner: Executor) -> None:
    assert warnings(runner, FILES / "block.py", seq_len=2**21) == [
        "its output is not looked at, as its tensors need 256 MiB"
    ]


HUGE = PROBLEM.format(init="pass", names="x", forward="return x", inputs="torch.randn(2**20, seq_len, dim)")


def test_a_problem_that_needs_half_of_the_memory_is_not_measured_unasked(tmp_path: Path) -> None:
    (tmp_path / "huge.py").write_text(HUGE.replace("seq_len, dim = 6, 8", "seq_len, dim = 4096, 64"))
    with pytest.raises(UsageError) as refusal:
        compose([f"impl={tmp_path / 'huge.py'}"], for_sweep=True)
    assert str(refusal.value).startswith(f"{tmp_path / 'huge.py'} needs at least 2.00 TiB at its own sizes, and trials")
    assert str(refusal.value).endswith("give a smaller seq_len=, or seq_len=4096 to measure it as it is")


def test_a_size_that_is_no_axis_of_the_sweep_is_named_as_it_is_typed(tmp_path: Path) -> None:
    (tmp_path / "wide.py").write_text(HUGE.replace("seq_len, dim = 6, 8", "seq_len, dim = 64, 4096"))
    with pytest.raises(UsageError, match=r"give a smaller layer\.dim=, or layer\.dim=4096 to measure it as it is"):
        compose([f"impl={tmp_path / 'wide.py'}"], for_sweep=True)


@pytest.mark.parametrize("stated", ["layer.seq_len=4096", "seq_len=4096", "points=[{n:4096}]"])
def test_a_size_that_the_user_gives_is_measured(
    stated: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "huge.py"
    file.write_text(HUGE.replace("seq_len, dim = 6, 8", "seq_len, dim = 4096, 64"))
    for _ in range(2):  # a command may read its overrides twice
        assert compose([f"impl={file}", stated], for_sweep=True).axes["seq_len"] == (4096,)
    warning = f"warning: {file}: its output is not looked at, as its tensors need 2.00 TiB"
    assert capsys.readouterr().err.count(warning) == 1


def test_the_first_sizes_that_are_given_are_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "problem.py"
    forward = "return x * (1e-6 if x.shape[0] == 64 else 1)"
    file.write_text(PROBLEM.format(init="pass", names="x", forward=forward, inputs=ONE))
    compose([f"impl={file}", "seq_len=64,8"], for_sweep=True)
    assert "warning" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["import os; os._exit(0)", "raise ValueError", "import no_such_package"])
def test_nothing_is_said_of_a_file_that_fails(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fails.py").write_text(f"{(FILES / 'block.py').read_text()}\n{line}\n")
    compose([f"impl={tmp_path / 'fails.py'}"], for_sweep=True)
    assert "warning" not in capsys.readouterr().err
