"""`explain` as it is used: two layers, two commits, and the mistakes."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from extras.compare.repositories import enter, git

from harness.cli.commands import main
from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.extras.compare.commands import _one_case
from harness.extras.compare.worktree import has_uncommitted_changes

pytestmark = pytest.mark.usefixtures("forked_servers")
N, D = 64, 16
SIZES = [f"seq_len={N}", f"d_model={D}", "num_heads=2", "threads=1", "memory_limit=512MiB", "out=found"]
LAYERS = """\
import torch
from torch import Tensor, nn


class Plain(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x)


class Same(Plain):
    pass


class OneMoreProduct(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x) + x[0] @ self.mix.weight


class Loops(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.mix(x_t) for x_t in x.unbind(1)], 1)


class Squared(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x) + (x @ x.transpose(1, 2)) @ x


class Raises(Plain):
    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("no such luck")
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch, columns=160)
    Path("explained_layers.py").write_text(LAYERS)


def explain(b: str, *more: str) -> dict[str, Any]:
    assert main(["explain", "explained_layers:Plain", f"explained_layers:{b}", *SIZES, *more]) == 0
    return json.loads(Path("found/explain.json").read_text())


def of_operation(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in found["operations"] if row["operation"] == name)


def test_an_additional_product_is_named_with_its_calls_flops_and_line(capsys: pytest.CaptureFixture) -> None:
    found = explain("OneMoreProduct")
    product = of_operation(found, "aten::mm")
    assert product["calls"] == [0, 1]
    assert product["flops"] == [0, 2 * N * D * D]
    assert product["bytes"] == [0, 4 * (2 * N * D + D * D)]
    (line,) = product["places"][1]
    assert "x[0] @" in LAYERS.splitlines()[int(line.partition(":")[2]) - 1]
    out = capsys.readouterr().out
    assert f"+{2 * N * D * D:,}" in out
    assert "found: explain.md, explain.json, trace_a.json.gz, trace_b.json.gz" in out
    for side in "ab":
        with gzip.open(f"found/trace_{side}.json.gz", "rt") as file:
            assert any(event["name"] == "aten::addmm" for event in json.load(file)["traceEvents"])


def test_a_loop_over_time_has_n_calls_of_the_same_work() -> None:
    product = of_operation(explain("Loops"), "aten::addmm")
    assert product["calls"] == [1, N]
    assert product["flops"] == [2 * N * D * D] * 2


def test_a_quadratic_tensor_is_named_at_the_peak_and_training_counts_the_backward_pass() -> None:
    found = explain("Squared", "mode=train")
    scores = [row for row in found["tensors_at_peak"] if row["shape"] == f"1×{N}×{N}"]
    assert [(row["operation"], row["number"][0]) for row in scores] == [("aten::bmm", 0)]
    assert scores[0]["bytes"][1] % (4 * N * N) == 0
    # Two products forward, and two gradients of each.
    assert of_operation(found, "aten::bmm")["flops"] == [0, 6 * 2 * N * N * D]
    assert "backward" in of_operation(found, "aten::bmm")["places"][1]


def test_equal_layers_say_that_nothing_exact_differs(capsys: pytest.CaptureFixture) -> None:
    found = explain("Same")
    assert (found["operations"], found["tensors_at_peak"]) == ([], [])
    assert "Nothing exact differs" in capsys.readouterr().out


def test_two_commits_are_explained_and_the_working_tree_as_it_is(capsys: pytest.CaptureFixture) -> None:
    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "layers")
    Path("explained_layers.py").write_text(LAYERS.replace("return self.mix(x)\n", "return self.mix(self.mix(x))\n", 1))
    assert has_uncommitted_changes()
    assert main(["explain", "HEAD", ".", "impl=explained_layers:Plain", *SIZES]) == 0
    found = json.loads(Path("found/explain.json").read_text())
    assert found["sides"] == ["HEAD", "."]
    assert of_operation(found, "aten::addmm")["flops"] == [2 * N * D * D, 4 * N * D * D]
    assert len(git("worktree", "list").splitlines()) == 1
    for mistake, message in {
        ("HEAD", "main"): "HEAD and main are the same commit",
        ("HEAD", "absent"): "absent: git knows no such commit here",
        ("HEAD", "rnn.torch"): "'rnn.torch' is a layer, and impl= names one too",
    }.items():
        assert main(["explain", *mistake, "impl=explained_layers:Plain", *SIZES[:-1], "out=other"]) == 2
        assert message in capsys.readouterr().err
    git("branch", "rnn.torch")
    assert main(["explain", ".", "rnn.torch", "impl=explained_layers:Plain", *SIZES[:-1], "out=other"]) == 2
    assert "'rnn.torch' is a layer and a commit. For the commit, type its hash, " in capsys.readouterr().err
    assert main(["explain", "HEAD", "rnn.torch", *SIZES[:-1], "out=other"]) == 2
    assert "'HEAD' is a commit: name the layer" in capsys.readouterr().err


def test_a_new_file_is_of_the_working_tree_and_not_of_head(capsys: pytest.CaptureFixture) -> None:
    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "layers")
    Path("new_layers.py").write_text(LAYERS)
    assert main(["explain", "HEAD", ".", "impl=explained_layers:Plain", *SIZES]) == 0
    assert "Nothing exact differs" in capsys.readouterr().out
    assert main(["explain", "HEAD", ".", "impl=new_layers:Plain", *SIZES[:-1], "out=other"]) == 2
    assert "HEAD: impl 'new_layers:Plain': ModuleNotFoundError" in capsys.readouterr().err


def test_an_axis_that_is_left_out_has_its_largest_default_value(tmp_path: Path) -> None:
    (tmp_path / "preset").mkdir()
    (tmp_path / "preset" / "falling.yaml").write_text("# @package _global_\nseq_len: [128, 64]\n")
    _, case = _one_case(["impl=rnn.torch"], None)
    assert case.seq_len == max(compose(["impl=rnn.torch"]).axes["seq_len"])
    with pytest.raises(UsageError, match="give one value of seq_len"):
        _one_case(["impl=rnn.torch", "preset=falling"], tmp_path)


def test_a_commit_without_the_layer_is_an_error(capsys: pytest.CaptureFixture) -> None:
    git("init", "-b", "main")
    git("commit", "--allow-empty", "-m", "empty")
    git("add", ".")
    assert main(["explain", "HEAD", ".", "impl=explained_layers:Plain", *SIZES]) == 2
    assert "HEAD: impl 'explained_layers:Plain': ModuleNotFoundError" in capsys.readouterr().err
    assert not Path("found").exists()


def test_a_layer_that_raises_is_a_sentence_and_status_3(capsys: pytest.CaptureFixture) -> None:
    assert main(["explain", "rnn.torch", "explained_layers:Raises", *SIZES]) == 3
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "explained_layers:Raises could not be traced: error: RuntimeError: no such luck (explained_layers.py:" in err


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["rnn.torch", "rnn.elma"], "unknown impl 'rnn.elma'; did you mean 'rnn.elman'?"),
        (["rnn.torch", "rnn.elman", "rnn.gru"], "explain takes two sides, and got rnn.torch rnn.elman rnn.gru"),
        (["rnn.torch", "seq_len=64"], "explain takes two sides, and got rnn.torch"),
        (["rnn.torch", "rnn.elman", "seq_len=64,128"], "explain takes one case: give one value of seq_len"),
        (["rnn.torch", "absent_module:Layer", "seq_len=64"], "impl 'absent_module:Layer': ModuleNotFoundError"),
        (["main", ".", "impl=rnn.torch", "seq_len=64"], "two commits need a layer of this repository"),
    ],
)
def test_mistakes_are_one_sentence(typed: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["explain", *typed, "out=found"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not Path("found").exists()


def test_a_directory_in_use_is_left_alone(capsys: pytest.CaptureFixture) -> None:
    Path("found").mkdir()
    Path("found/thing").touch()
    assert main(["explain", "rnn.torch", "rnn.elman", *SIZES]) == 2
    assert "out=found is not empty" in capsys.readouterr().err
