"""`compare --changed` and `compare --prove`, in repositories of a few layers."""

import json
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from extras.compare.repositories import LAYER, git, worktrees

from harness.cli.commands import main
from tests.extras.compare.test_compare_command import TINY, elsewhere

pytestmark = pytest.mark.usefixtures("forked_servers")
__all__ = ["elsewhere"]  # a fixture that applies by itself
COMMON = "from torch import nn\n\n\nclass Mix(nn.Linear):\n    pass\n"
USES_COMMON = "from layers.common import Mix\n" + LAYER.replace("nn.Linear(", "Mix(")


def commit(subject: str) -> str:
    git("add", ".")
    git("commit", "-m", subject)
    return git("rev-parse", "HEAD").strip()


@pytest.fixture(autouse=True)
def repository(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two layers that share a file, and one on its own; the current directory."""
    (elsewhere / "layers").mkdir()
    for name, text in (("common", COMMON), ("narrow", USES_COMMON), ("wide", USES_COMMON), ("alone", LAYER)):
        Path("layers", f"{name}.py").write_text(text.replace("{products}", "4"))
    Path(".gitignore").write_text("found*\n*.json\n")
    git("init", "-b", "main")
    commit("layers")
    return elsewhere


ALL_THREE = "impl=" + ",".join(f"layers.{name}:Layer" for name in ("narrow", "wide", "alone"))
COMPARE = ["compare", "ref=main", ALL_THREE, "seq_len=32", "threshold=0.5", *TINY]


def test_nothing_touched_passes_with_a_sentence_and_measures_nothing(capsys: pytest.CaptureFixture) -> None:
    Path("notes.md").write_text("not code")
    assert main([*COMPARE, "--changed", "--json", "found.json", "--markdown", "found.md"]) == 0
    sentence = "The changes since main touch none of these layers: no layer was measured."
    assert sentence in capsys.readouterr().out
    found = json.loads(Path("found.json").read_text())
    assert (found["exit_status"], found["outcomes"]) == (0, [])
    assert sentence in found["remarks"]
    assert sentence in Path("found.md").read_text()
    assert not Path("found").exists()
    assert worktrees() == 1


@pytest.mark.usefixtures("planted_blocks")
def test_only_touched_layers_are_measured_and_shared_code_is_named(capsys: pytest.CaptureFixture) -> None:
    for name in ("alone", "common"):
        path = Path("layers", f"{name}.py")
        path.write_text(path.read_text() + "\n")
    assert main([*COMPARE, "--changed", "--json", "found.json", "--markdown", "found.md"]) == 0
    assert list(pd.read_csv("found/comparison.csv").impl) == ["layers.alone:Layer"]
    for text in (capsys.readouterr().out, "\n".join(json.loads(Path("found.json").read_text())["remarks"])):
        words = " ".join(text.split())
        assert "touch none of their own files: layers.narrow:Layer, layers.wide:Layer." in words
        assert "Shared code changed (layers/common.py): any layer may be affected" in words
    assert json.loads(Path("found.json").read_text())["properties"]["changed shared files"] == "layers/common.py"
    assert "<!-- attn-harness: compare -->" in Path("found.md").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("planted_blocks")
def test_all_layers_are_measured_once_shared_code_changed() -> None:
    Path("layers", "common.py").write_text(COMMON + "\n")
    assert main([*COMPARE, "--changed=all"]) == 0
    assert len(pd.read_csv("found/comparison.csv")) == 3


def test_changed_needs_a_commit(capsys: pytest.CaptureFixture) -> None:
    assert main(["compare", "impl=rnn.torch,rnn.elman", "--changed"]) == 2
    assert "--changed needs a commit to compare with: give ref=origin/main" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("planted_blocks")
def test_a_known_bad_commit_must_be_found(capsys: pytest.CaptureFixture) -> None:
    alone = Path("layers", "alone.py")
    alone.write_text(LAYER.format(products=24))
    slower = commit("slower")
    harmless = (alone.write_text(LAYER.format(products=24) + "\n"), commit("harmless"))[1]
    sizes = ["seq_len=32", "d_model=16", "num_heads=2", "threads=1"]
    assert main(["sweep", "impl=layers.alone:Layer", *sizes, "precision=quick", "out=found_run", "--no-plots"]) == 0
    assert main(["baseline", "found_run", "-o", "base.json", "--known-bad", slower[:10]]) == 0
    assert json.loads(Path("base.json").read_text())["known_bad"] == [slower]
    assert main(["check", "base.json", "--exact"]) == 0

    assert main(["baseline", "found_run", "-o", "base.json", "--known-bad", harmless]) == 0
    assert json.loads(Path("base.json").read_text())["known_bad"] == [slower, harmless], "the list is kept"

    command = ["compare", "ref=main", "impl=layers.alone:Layer", "seq_len=32", "threshold=0.5", *TINY[:-1], "--prove"]
    capsys.readouterr()
    assert main([*command, "base.json", "out=found", "--json", "found.json"]) == 3
    proofs = [one for one in json.loads(Path("found.json").read_text())["outcomes"] if "known" in one["quantity"]]
    assert {one["verdict"] for one in proofs} == {"passed", "unmeasured"}
    said = capsys.readouterr().out
    assert "the gate found its slow-down: layers.alone:Layer" in said
    assert f"the gate did not find the slow-down of {harmless[:12]}" in said
    assert worktrees() == 1


@pytest.mark.parametrize(
    ("file", "more", "sentence"),
    [
        ("absent.json", [], "absent.json: No such file"),
        ("absent.json", ["impl=rnn.torch,rnn.elman"], "--prove absent.json needs a commit to compare with"),
    ],
)
def test_a_proof_without_a_baseline_or_a_commit_is_an_error(
    file: str, more: list[str], sentence: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(["compare", *(more or ["ref=main", ALL_THREE]), "--prove", file]) == 2
    assert sentence in capsys.readouterr().err


def test_an_unknown_known_bad_commit_is_an_error(capsys: pytest.CaptureFixture) -> None:
    subprocess.run(["git", "tag", "good"], check=True)
    from harness.extras.compare.worktree import commit_of

    assert commit_of("good").hash == git("rev-parse", "HEAD").strip()
    with pytest.raises(Exception, match="v9: git knows no such commit"):
        commit_of("v9")
