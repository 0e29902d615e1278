"""`compare` as it is used: two layers, two commits or two sides. How it decides is tested in `paired/`."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from cli import test_going_on
from cli.test_changed_code import STOPPED, saved_anew
from extras.compare.repositories import LAYER, enter, git, worktrees
from planted_environments import plant_environment

from harness.cli.commands import main
from harness.core.model.sweep_axes import AXES
from harness.extras.compare import interleaved

pytestmark = pytest.mark.usefixtures("forked_servers")
ROOT = Path(__file__).resolve().parents[3]
TINY = ["d_model=16", "num_heads=2", "threads=1", "blocks=16", "memory_limit=512MiB", "out=found"]
ASKED = ["verdict", "ratio", "ratio_lo", "ratio_hi", "blocks", "smallest_detectable", "control"]
RAISES = LAYER.replace("return sum", 'raise RuntimeError("no such luck")\n        return sum')


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    enter(tmp_path, monkeypatch)
    # Warm parents take a second to start, and blocks half of one: how exact they are is not what is tested here.
    monkeypatch.setattr(interleaved.Sides, "renew", lambda sides: sides.control.start())
    monkeypatch.setattr(interleaved, "TURN_S", 0.001)
    monkeypatch.setattr(interleaved, "BLOCK_S", 0.016)
    return tmp_path


@pytest.fixture
def repository(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A layer, committed; the current directory."""
    top = elsewhere / "repository"
    top.mkdir()
    monkeypatch.chdir(top)
    (top / "compared_layer.py").write_text(LAYER.format(products=4))
    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "a layer")
    return top


@pytest.mark.usefixtures("planted_blocks")
def test_two_layers_are_compared_at_every_size(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    files = ["--json", "found.json", "--markdown", "found.md", "--junit", "found.xml"]
    status = main(["compare", "impl=rnn.torch,rnn.elman", "seq_len=16,32", *TINY, *files])
    out = " ".join(capsys.readouterr().out.split())
    assert {path.name for path in Path("found").glob("comparison.*")} == {
        f"comparison.{e}" for e in ("csv", "md", "xml", "json")
    }
    frame = pd.read_csv("found/comparison.csv")
    assert list(frame.columns)[: len(AXES) + len(ASKED)] == [*AXES, *ASKED]
    assert list(zip(frame.impl, frame.base, frame.seq_len, strict=True)) == [
        ("rnn.elman", "rnn.torch", 16),
        ("rnn.elman", "rnn.torch", 32),
    ]
    assert set(frame.verdict) == {"equivalent"}
    assert (frame.blocks >= 16).all()
    assert (frame.allocator == "steady").all()
    found = json.loads(Path("found.json").read_text())
    assert found["exit_status"] == status
    assert Path("found.md").read_text().startswith("## compare rnn.elman with rnn.torch")
    assert "compare rnn.elman with rnn.torch" in out
    logged = [json.loads(line) for line in Path("found/blocks.jsonl").read_text().splitlines()]
    assert sum(not one["control"] for one in logged) == frame.blocks.sum()
    assert any(one["control"] for one in logged)
    capsys.readouterr()
    assert main(["baseline", "found/head"]) == 0  # each side is a run


def test_it_ends_when_its_time_is_up_and_says_what_is_undecided(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    asked = [*(key for key in TINY if key != "blocks=16"), "blocks=1000", "threshold=0.001", "minutes=0.02"]
    for name in ("one.py", "copy.py"):
        Path(name).write_text(LAYER.format(products=4))
    assert main(["compare", "impl=./one.py:Layer,./copy.py:Layer", "seq_len=16", *asked]) in (0, 3)  # 3: control failed
    (row,) = pd.read_csv("found/comparison.csv").itertuples()
    assert row.verdict == "undecided"
    assert row.blocks < 1000


def test_a_working_tree_that_does_three_times_the_work_is_slower(
    repository: Path, capsys: pytest.CaptureFixture
) -> None:
    (repository / "compared_layer.py").write_text(LAYER.format(products=12))
    status = main(["compare", "ref=HEAD", "impl=compared_layer:Layer", "seq_len=32", *TINY, "--json", "found.json"])
    out = capsys.readouterr().out
    assert status == 1, out
    (row,) = pd.read_csv("found/comparison.csv").itertuples()
    assert row.flops_verdict == "more"
    assert row.flops_ratio == 3.0
    assert "base, HEAD: verification, then exact counts\n" in out
    assert "head, the working tree: verification, then exact counts\n" in out
    assert re.fullmatch(r"[01] of 1 times decided \(1 \w+\); exit status 1: got worse: .*flops\.", out.splitlines()[-1])
    if row.control == "held":
        assert row.verdict == "slower"
        assert row.ratio > 1.5
        assert row.blocks == 32  # 16, and 16 again
        assert "Where to look, head compared with base: compared_layer:Layer" in out
        (explained,) = json.loads(Path("found.json").read_text())["explanations"]
        (product,) = (one for one in explained["operations"] if one["operation"] == "aten::addmm")
        assert product["calls"] == [4, 12]
        assert product["flops"] == [4 * 2 * 32 * 16 * 16, 12 * 2 * 32 * 16 * 16]
        assert {path.name for path in Path("found").glob("trace_*")} == set(explained["chrome_traces"])
        assert "| addmm | 4 → 12 |" in Path("found/comparison.md").read_text()
    assert json.loads(Path("found.json").read_text())["properties"]["base"] == git("rev-parse", "HEAD").strip()
    assert worktrees() == 1


@pytest.mark.usefixtures("planted_blocks")
def test_an_unchanged_working_tree_passes_and_a_layer_new_in_it_is_left_out(
    repository: Path, capsys: pytest.CaptureFixture
) -> None:
    (repository / "newer_layer.py").write_text(LAYER.format(products=1))
    impls = "impl=compared_layer:Layer,newer_layer:Layer"
    status = main(["compare", "ref=main", impls, "seq_len=32", "threshold=0.5", *TINY])
    out = capsys.readouterr().out
    frame = pd.read_csv("found/comparison.csv")
    assert status == 0, out
    assert list(frame.impl) == ["compared_layer:Layer"]
    assert set(frame.verdict) == {"equivalent"}
    assert set(frame.flops_verdict) == {"equivalent"}
    assert "newer_layer:Layer: the layer does not exist at main: there is nothing to compare it with." in out
    assert worktrees() == 1


def test_a_layer_that_one_side_cannot_measure_is_no_pass_and_one_that_is_new_is_left_out(
    repository: Path, capsys: pytest.CaptureFixture
) -> None:
    (repository / "cured_layer.py").write_text("import not_installed\n" + LAYER.format(products=1))
    (repository / "broken_layer.py").write_text(LAYER.format(products=1))
    git("add", ".")
    git("commit", "-m", "more layers")
    (repository / "cured_layer.py").write_text(LAYER.format(products=1))
    (repository / "broken_layer.py").write_text("Layer = (\n")
    (repository / "compared_layer.py").write_text(RAISES.format(products=1))
    (repository / "newer_layer.py").write_text(LAYER.format(products=1))
    impls = ",".join(f"{name}_layer:Layer" for name in ("cured", "broken", "compared", "newer"))
    assert main(["compare", "ref=HEAD", f"impl={impls}", "seq_len=32", *TINY, "--json", "found.json"]) == 3
    outcomes = json.loads(Path("found.json").read_text())["outcomes"]
    found = {one["subject"].split("_")[0]: (one["verdict"], one["reason"]) for one in outcomes}
    expected = {
        "cured": ("unmeasured", "the layer cannot be imported at HEAD, so there is nothing to compare it with (Module"),
        "broken": ("unmeasured", "head: error: SyntaxError"),
        "compared": ("unmeasured", "head: error: RuntimeError: no such luck"),
        "newer": ("undecided", "the layer does not exist at HEAD: there is nothing to compare it with"),
    }
    assert found.keys() == expected.keys()
    for name, (verdict, reason) in expected.items():
        assert found[name][0] == verdict
        assert reason in found[name][1]
    assert "head: error: RuntimeError: no such luck" in " ".join(capsys.readouterr().out.split())
    rows = pd.read_csv("found/comparison.csv")
    assert {(row.verdict, row.control) for row in rows.itertuples()} == {("unmeasured", "none")}
    assert worktrees() == 1


@pytest.mark.parametrize(
    ("impl", "ref", "message"),
    [
        ("planted:Identity", "HEAD", "not of this repository: it would be the same at all commits"),
        ("compared_layer:Layer", "absent", "git knows no such commit"),
        ("compared_layer:Layer", "--help", "git knows no such commit"),
        ("absent_layer:Layer", "HEAD", "No module named 'absent_layer'"),
    ],
)
def test_what_cannot_be_held_against_another_commit_is_2(
    impl: str, ref: str, message: str, repository: Path, capsys: pytest.CaptureFixture
) -> None:
    (repository / "newer_layer.py").write_text(LAYER.format(products=1))
    assert main(["compare", f"ref={ref}", f"impl={impl}", "seq_len=32", *TINY]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert out == ""
    assert worktrees() == 1
    assert not Path("found").exists()


def test_a_misspelt_option_of_the_working_tree_is_an_error(repository: Path, capsys: pytest.CaptureFixture) -> None:
    layer = LAYER.format(products=4).replace("num_heads: int)", "num_heads: int, window: int = 8)")
    (repository / "compared_layer.py").write_text(layer)
    assert main(["compare", "ref=HEAD", "impl=compared_layer:Layer", "layer.windw=4", "seq_len=32", *TINY]) == 2
    assert capsys.readouterr().err == (
        "harness: layer.windw: compared_layer:Layer has no option 'windw'; did you mean 'window'?\n"
    )
    assert not Path("found").exists()


@pytest.mark.parametrize(
    ("most", "looks"),
    [(16, (8,)), (40, (8, 12, 18, 20)), (41, (8, 12, 18, 21)), (200, (8, 12, 18, 27, 40, 60, 90, 100))],
)
def test_more_blocks_are_looked_at_more_often(most: int, looks: tuple[int, ...]) -> None:
    from harness.extras.compare.commands import read_comparison_request

    assert read_comparison_request(["impl=rnn.torch,rnn.elman", f"blocks={most}"], None).rules.looks == looks


def test_it_takes_ten_minutes_at_most_unless_told_otherwise() -> None:
    from harness.extras.compare.commands import read_comparison_request

    assert read_comparison_request(["impl=rnn.torch,rnn.elman"], None).minutes == 10
    assert read_comparison_request(["impl=rnn.torch,rnn.elman", "minutes=inf"], None).minutes == math.inf


@pytest.mark.usefixtures("planted_blocks")
def test_an_environment_variable_reaches_the_processes_of_its_side_alone(
    elsewhere: Path, capsys: pytest.CaptureFixture
) -> None:
    products = 'int(__import__("os").environ.get("PRODUCTS", 4))'
    Path("compared_layer.py").write_text(LAYER.format(products=products).replace("return", f"return 1 / {products} *"))
    sides = ["side=threads=1", "side=threads=1 env.PRODUCTS=12"]
    others = [option for option in TINY if option != "threads=1"]
    status = main(["compare", *sides, "impl=compared_layer:Layer", "seq_len=32", *others, "--json", "found.json"])
    out, err = capsys.readouterr()
    assert status == 1, err
    (row,) = pd.read_csv("found/comparison.csv").itertuples()
    assert (row.flops_verdict, row.flops_ratio, row.threads) == ("more", 3.0, 1)
    assert row.verdict == "slower"
    assert (row.base_side, row.head_side) == ("threads=1", "threads=1 env.PRODUCTS=12")
    assert row.base_versions == row.head_versions
    assert f"Both sides run {row.base_versions}." in " ".join(out.split())
    properties = json.loads(Path("found.json").read_text())["properties"]
    assert properties["head"] == "threads=1 env.PRODUCTS=12"
    recorded = [json.loads(Path("found", side, "machine.json").read_text())["environment"] for side in ("base", "head")]
    assert ["PRODUCTS" in one for one in recorded] == [False, True]
    assert properties["outputs in float64"] == "equal"


@pytest.mark.usefixtures("planted_blocks")
def test_two_sides_of_one_axis_are_measured_in_interchangeable_processes(
    elsewhere: Path, capsys: pytest.CaptureFixture
) -> None:
    sides = ["side=seq_len=16", "side=seq_len=64"]
    assert main(["compare", *sides, "impl=rnn.elman", *TINY]) == 1, capsys.readouterr().err
    (row,) = pd.read_csv("found/comparison.csv").itertuples()
    assert (row.seq_len, row.flops_ratio, row.base_side) == (64, 4.0, "seq_len=16")
    [base] = json.loads(Path("found/blocks.jsonl").read_text().splitlines()[0])["base"].split("seq_len=")[1:]
    assert base.startswith("16 ")


def test_sides_that_come_to_the_same_case_are_an_error(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    heads = [option for option in TINY if not option.startswith("num_heads")]
    assert main(["compare", "side=h=1", "side=h=2", "impl=rnn.torch", "seq_len=16", *heads]) == 2
    assert "both sides are the same case, rnn.torch n=16 d=16" in capsys.readouterr().err
    assert not Path("found").exists()


@pytest.mark.usefixtures("planted_blocks")
def test_an_environment_whose_package_does_twice_the_work_is_slower(
    elsewhere: Path, capsys: pytest.CaptureFixture
) -> None:
    plant_environment(Path("a"), "1.0", LAYER.format(products=8))
    plant_environment(Path("copy"), "1.0", LAYER.format(products=8))
    plant_environment(Path("b"), "2.0", LAYER.format(products=16))
    command = ["compare", "impl=worked:Layer", "seq_len=32", *TINY]
    assert main([*command, "env=a,b", "control=b"]) == 2
    assert "worked-layers 2.0, and the base has python" in capsys.readouterr().err
    status = main([*command, "env=a,b", "control=copy", "--markdown", "found.md"])
    out, err = capsys.readouterr()
    assert status == 1, err
    (row,) = pd.read_csv("found/comparison.csv").itertuples()
    assert (row.flops_verdict, row.flops_ratio) == ("more", 2.0)
    assert row.verdict == "slower"
    assert row.ratio == pytest.approx(2.0, rel=0.02)
    assert (row.base_side, row.head_side) == ("python=a", "python=b")
    assert row.base_versions.endswith(", worked-layers 1.0")
    assert row.head_versions.endswith(", worked-layers 2.0")
    assert "compare worked:Layer: python=b with python=a" in out
    assert f"The head runs {row.head_versions}." in Path("found.md").read_text()
    assert "The outputs of both sides differ in float64" in Path("found.md").read_text()  # 16 sums, and 8
    of_python = [json.loads(Path("found", side, "machine.json").read_text()) for side in ("base", "head")]
    assert [machine["packages"] for machine in of_python] == [{"worked-layers": "1.0"}, {"worked-layers": "2.0"}]
    assert {machine["project"] for machine in of_python} == {str(ROOT)}


def test_a_layer_that_one_environment_lacks_is_an_error(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    plant_environment(Path("a"), "1.0", LAYER.format(products=8))
    found = main(["compare", "side=", "side=python=a", "impl=worked:Layer", "seq_len=32", *TINY])
    assert found == 2
    assert "side 'the default': impl 'worked:Layer': ModuleNotFoundError: No module named 'worked'" in (
        capsys.readouterr().err
    )


def test_ended_halfway_it_leaves_neither_worktree_nor_process(repository: Path) -> None:
    mark = f"{os.getpid()} {repository}"
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "compare", "ref=HEAD", "impl=compared_layer:Layer", "seq_len=32", *TINY],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HARNESS_TEST_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (blocks := Path("found/blocks.jsonl")).exists() or not blocks.read_text():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    said = "harness: interrupted; repeat the command with 'out=found' to continue\n"
    assert (process.returncode, err) == (130, said)
    assert worktrees() == 1
    assert [one.pid for one in psutil.process_iter() if _marked(one, mark)] == []


@pytest.mark.usefixtures("planted_blocks")
def test_interrupted_it_continues_with_the_same_command_and_once_it_has_ended_it_does_not(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    command = ["compare", "impl=rnn.torch,rnn.elman", "seq_len=16", "threshold=0.5", *TINY]
    take, taken = interleaved.take_block, []

    def interrupted(*arguments: object) -> object:
        if len(taken) == 5:
            raise KeyboardInterrupt
        taken.append(arguments)
        return take(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(interleaved, "take_block", interrupted)
        assert main(command) == 130
    out, err = capsys.readouterr()
    assert "compare rnn.elman with rnn.torch: one pair, at most 10 min of timing (minutes=10)" in out
    assert err == "harness: interrupted; repeat the command with 'out=found' to continue\n"
    before = Path("found/blocks.jsonl").read_text()
    Path("found/blocks.jsonl").write_text(before + '{"at": 17')  # a writer that was killed
    for other, words in (
        ("minutes=5", "minutes=10 before and 5 now"),
        ("seed=4", "seed=0 before and 4 now"),
        ("impl=rnn.elman,rnn.torch", "impl=rnn.torch,rnn.elman before and rnn.elman,rnn.torch now"),
    ):
        axis = other.partition("=")[0]
        assert main([*(word for word in command if not word.startswith(f"{axis}=")), other]) == 2
        assert words in capsys.readouterr().err
    assert main(command) in (0, 1)
    assert "found: 5 blocks of the interrupted comparison, " in capsys.readouterr().out
    after = Path("found/blocks.jsonl").read_text()
    assert after.startswith(before)
    rows = [json.loads(line) for line in after.splitlines()]
    assert len(rows) == len({(row["stage"], row["round"], row["control"]) for row in rows}) >= 32
    texts = [file.read_text() for file in Path("found/base/rows").iterdir()]
    facts = [json.loads(line)["purpose"] for text in texts for line in text.splitlines()]
    assert facts.count("facts") == 1
    assert main(command) == 2
    assert "out=found is a comparison that has ended: name a new directory" in capsys.readouterr().err


@pytest.mark.usefixtures("planted_blocks")
def test_with_other_code_or_another_commit_it_does_not_continue(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    command = ["compare", "ref=main", "impl=compared_layer:Layer", "seq_len=32", "threshold=0.5", *TINY]
    with monkeypatch.context() as patched:
        patched.setattr(interleaved, "take_block", interrupt)
        assert main(command) == 130
    layer, text = Path("compared_layer.py"), LAYER.format(products=4)
    layer.write_text(LAYER.format(products=5))
    assert main(command) == 2
    assert "compared_layer:Layer was changed in compared_layer.py" in capsys.readouterr().err
    layer.write_text(text)
    git("commit", "--allow-empty", "-m", "another commit")
    assert main(command) == 2
    assert "is another comparison (base=" in capsys.readouterr().err
    git("reset", "--soft", "HEAD~1")
    request = Path("found", "request.json")
    begun = request.read_text()
    for spoilt, why in (("[1]", "it is a list"), ('{"settings": {}, "code": {}}', "machine is missing")):
        request.write_text(spoilt)
        assert main(command) == 2
        assert f"request.json cannot be read ({why}" in capsys.readouterr().err
    request.write_text(begun)
    assert main(command) == 0
    assert "found: 0 blocks of the interrupted comparison, 0 s of timing" in capsys.readouterr().out
    assert worktrees() == 1


def interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


def _marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get("HARNESS_TEST_MARK") == mark
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False


def test_a_comparison_stops_when_other_code_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "yours"):
        (tmp_path / f"{name}.py").write_text(test_going_on.LAYER)
    yours = tmp_path / "yours.py"
    monkeypatch.setattr(interleaved, "take_block", saved_anew(3, yours, interleaved.take_block))
    asked = ["impl=./mine.py:Layer,./yours.py:Layer", "seq_len=16", "d_model=8", "threads=1", "blocks=16", "out=run"]
    assert main(["compare", *asked]) == 2
    assert capsys.readouterr().err == STOPPED.format(file="yours.py", impl="./yours.py:Layer")
    assert len(Path("run/blocks.jsonl").read_text().splitlines()) == 2


OTHER_TORCH = os.environ.get("HARNESS_OTHER_TORCH")


@pytest.mark.slow
@pytest.mark.skipif(not OTHER_TORCH, reason="HARNESS_OTHER_TORCH names no environment with another version of torch")
def test_two_versions_of_torch_are_compared_and_named() -> None:
    other = str((ROOT / str(OTHER_TORCH)).absolute())
    compared = [
        "compare",
        f"env={sys.prefix},{other}",
        "impl=attention.fused",
        "seq_len=64",
        "d_model=16",
        "num_heads=1",
    ]
    assert main([*compared, "threads=1", "blocks=16", "out=found", "--json", "found.json"]) in (0, 1)
    properties = json.loads(Path("found.json").read_text())["properties"]
    assert properties["base versions"] != properties["head versions"]
