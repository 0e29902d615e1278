"""A command line that makes no sense: one line on stderr, exit status 2, and nothing written."""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attention_run import make_run
from cli.known_runs import SIZES, cases, write
from cli.test_baseline import run_of
from core.results.test_benchmarks import benchmark
from rows import row
from screens.text_file import without_paths
from study.check.baselines import usual_baseline
from syrupy import SnapshotAssertion

from harness.cli.commands import COMMANDS, main
from harness.core.model.sweep_axes import Case
from harness.core.trial.device_kinds import TorchDevice
from harness.study.check.baseline import write_baseline

pytestmark = pytest.mark.usefixtures("forked_servers")
LAYERS = "from pathlib import Path\nclass Good: ...\nclass Other(Good): ...\nclass _Hidden: ...\ndef function(): ...\n"
DIGITS = "0" * 400
LETTERS = "a" * 300

# What an earlier sweep's config.yaml was edited to, and what is typed now.
EDITS = {
    "other-axis": ("", "", "seq_len=8,32"),
    "other-length": ("- 256", "- 16", ""),
    "no-number": ("min_rounds: 3", "min_rounds: few", ""),
    "no-value": ("min_rounds: 3", "", ""),
    "no-finite-value": ("max_rounds: 10", "max_rounds: .nan", ""),
    "no-key": ("seed: 0", "sed: 0", ""),
    "no-precision": ("precision:", "precision: null\nelse:", ""),
    "too-deep": ("seed: 0", f"seed: {'[' * 3000}", ""),
    "holds-itself": ("seed: 0", "seed: &a [*a]", ""),
    "no-text": ("", "\x00", ""),
}
# Commands that may be absent.
OF_EXTRAS = ("attention-map", "gradient-reach", "compare", "calibrate")
MISUSE = {
    "sweep": [
        *("swep", "sweep seqlen=1", "sweep impl=atention.fused", "sweep seq_len=0", "sweep --fast", "sweep größe=1"),
        *("sweep --config-dir", "sweep --config-dir absent", "sweep out=taken", "sweep out=taken/run", "sweep out="),
        *("sweep out=/proc/absent", "sweep wait=false", "sweep retry=tiemout", "sweep retry=ok", "sweep grow=seqlen"),
        *("sweep grow=threads", "sweep impl=absent_module:Layer", "sweep impl=./mine.py:Nope"),
        *("sweep impl=./claims.py:Exponent", "sweep impl=./claims.py:Name", "verify impl=./claims.py:Refers"),
        *("sweep causal=true", "sweep impl=mine.Good", "sweep impl=mine", "sweep impl=sdpa"),
        *("sweep impl=./claims.py:Order", f"sweep out={LETTERS}", "sweep 'a\nb=1'"),
        *("sweep points=3", "sweep 'points=[{}]'", "sweep 'points=[{seq_len:512},{batch_size:3}]'"),
        *("sweep 'points=[{seq_ln:512}]'", "sweep 'points=[{impl:a}]'", "sweep 'points=[{seq_len:[1,2]}]'"),
        *("sweep 'points=[{seq_len:0}]'", "sweep 'points=[{seq_len:512,batch_size:32}]' seq_len=64"),
        "sweep 'points=[{seq_len:512,batch_size:32}]' grow=seq_len",
        *("sweep scale=cpu", "sweep scale=cpu paper=null", "sweep paper=flashattention1 scale=cp"),
        *("sweep paper=flashatention1", "sweep 'paper={name: 3}'", "sweep paper=mingru2024 shape=gpt2"),
        *(
            "sweep paper=flashattention2 scale=cpu grow=batch_size",
            "verify seq_len=abc",
            "list more",
            "list 'zzz.*'",
            "list mine:Layer",
            "list rnn more",
            "help swep",
        ),
    ],
    "another-sweep": [f"sweep out={name} {keys}".rstrip() for name, (_, _, keys) in EDITS.items()],
    "stored-runs": [
        *("report", "report absent", "report layers.json", "report layers.json -o layers.json"),
        *("report layers.json -o run", "report x.json -o new", "status absent", "baseline absent"),
        *("baseline run -o absent/b.json", "baseline run -o run", "baseline failed -o new.json"),
    ],
    "predict": [
        *("predict sizes impl=rnn.torh seq_len=64 d_model=64 num_heads=2", "predict sizes seq_len=64 d_model=64"),
        "predict sizes impl=rnn.torch seq_len=64 d_model=64 num_heads=3",
        "predict sizes impl=rnn.torch seq_len=0 d_model=64 num_heads=2",
        *("predict sizes seqlen=64", "predict sizes seq_len=64 d_model=64 num_heads=2 batch_size=4"),
        *("predict sizes seq_len=64 d_model=64 num_heads=2 mode=train", "predict sizes seq_len=64 seq_len=65"),
        *("predict sizes 64", "predict absent seq_len=64", "predict x.json", "predict own seq_len=512 num_heads=8"),
    ],
    "recommend": [
        *("recommend sizes", "recommend sizes seq_len=128,", "recommend sizes seq_len=128 num_heads=4"),
        *("recommend sizes seqlen=128", "recommend sizes seq_len", "recommend sizes seq_len=1 seq_len=2"),
        *(
            f"recommend sizes {wrong} d_model=256 num_heads=4"
            for wrong in ("seq_len=abc", "seq_len=0", f"seq_len=1{DIGITS}")
        ),
        *(
            f"recommend sizes seq_len=128 d_model=256 {wrong}"
            for wrong in (
                *("", "num_heads=3", "num_heads=4 memory=much", "num_heads=4 memory=1KiB", "num_heads=4 mode=train"),
                *("num_heads=4 dtype=float16", "num_heads=4 batch_size=2"),
            )
        ),
        *("recommend several seq_len=128 d_model=256 num_heads=4", "recommend absent seq_len=128"),
        "recommend several seq_len=128 d_model=256 num_heads=4 dtype=bfloat16",
        *("recommend empty seq_len=128 d_model=256 num_heads=4", "recommend own seq_len=512 num_heads=8"),
    ],
    "attention-map": [
        *("attention-map", "attention-map ''", "attention-map ' \t '", f"attention-map '{'word ' * 129}'"),
        *("attention-map impl=attention.naive 'the cat'", "attention-map the cat", "attention-map 'the cat' heads=2"),
        *(
            f"attention-map 'the cat' {wrong}"
            for wrong in (
                *("mask=padding", "num_heads=0", "d_model=64.0", "d_model=10 num_heads=3", "seed=-1"),
                *("impl=atention.naive", "out=taken", "out=", "out=."),
            )
        ),
    ],
    "gradient-reach": [
        *("gradient-reach impl=rnn.elmann", "gradient-reach impl=", "gradient-reach impl=rnn.elman seeds=0"),
        *("gradient-reach impl=rnn.elman seq_len=x", "gradient-reach impl=rnn.elman seq=3"),
        *("gradient-reach impl=rnn.elman rnn.elman", "gradient-reach impl=rnn.elman out=taken"),
        "gradient-reach impl=attention.packed d_model=9 num_heads=2",
    ],
    "check": [
        *(
            f"check b.json {wrong}"
            for wrong in (
                *("seq_len=7", "impl=rnn.ellman", "'impl=glob(conv.*)'", "'impl=conv.*'", "impl=rnn.torch num_heads=2"),
                *("seq_len=64 seq_len=128", "shape=gpt2", "sed=1", "seq_len", "out=b.json"),
                *("--junit absent/x.xml", "--exat"),
            )
        ),
        *("check taken", "check x.json", "check newer.json", "check short.json", "check absent.json"),
    ],
    "compare": [
        *("compare", "compare impl=rnn.torch", "compare impl=rnn.torch,rnn.elman,conv.conv1d"),
        *("compare impl=rnn.torch impl=rnn.elman", "compare impl=rnn.torch,rnn.ellman"),
        *(
            f"compare impl=rnn.torch,rnn.elman {wrong}"
            for wrong in (
                *("threshold=0", "threshold=1", "threshold=nan", "threshold=x", "blocks=3", "blocks=8.5"),
                *("blocks=nan", "blocks=inf", "minutes=0", "minutes=nan", "blocks", "sed=1", "out=taken", "out=kept"),
                "--json absent/x.json",
            )
        ),
        *(f"compare impl=rnn.torch {wrong}" for wrong in ("side= side=", "side=thread=1 side=", "env=kept,absent")),
        *("compare ref=", "compare ref=main ref=HEAD", "compare ref=main", "compare impl=rnn.torch,./mine.py:Absent"),
    ],
    "calibrate": [
        *("calibrate threads=1,2", "calibrate dtype=float32,bfloat16", "calibrate out=taken"),
        *("calibrate precision=exact", "calibrate impl=attention.fused threads=1 num_heads=3"),
        *("calibrate impl=./mine.py:Absent", "calibrate --out taken", "calibrate -o taken/c.json"),
        "calibrate --out .",
    ],
    "without-a-gpu": [
        *("sweep device=cuda", "sweep --dry-run device=cuda", "verify device=cuda", "sweep paper=mingru2024"),
    ],
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user's directory with layers, runs and files, some of them of no use to any command."""
    here = tmp_path_factory.mktemp("project")
    (here / "taken").write_text("mine")
    (here / "mine.py").write_text(LAYERS)
    claims = {"Exponent": '{"work": "2nd^x"}', "Name": '{"wrok": "2nd²"}', "Order": '{"work": "O(nd²)"}'}
    classes = [f"class {name}(torch.nn.Identity):\n    claims = {claim}\n" for name, claim in claims.items()]
    classes += ["class Refers(torch.nn.Identity):\n    reference = 'attention.nive'\n"]
    (here / "claims.py").write_text("".join(["import torch\n", *classes]))
    (here / "kept" / "base").mkdir(parents=True)
    (here / "kept" / "base" / "config.yaml").write_text("mine")
    make_run(here / "run")
    write(here / "sizes", cases())
    write(here / "several", [*cases(), *cases(dtype="bfloat16"), *cases(dtype="bfloat16", batch_size=2)])
    write(here / "own", [Case("their:Attention", n, 64, 1) for n in SIZES])
    failed = [row(Case("rnn.torch", n, 32, 1), "verify", status="oom", reason="no memory") for n in SIZES]
    run_of(here / "failed", failed)
    write(here / "empty", [])
    (here / "layers.json").write_text(json.dumps({"benchmarks": [benchmark()], "version": "5.3.1"}))
    (here / "x.json").write_text('{"benchmarks": [')
    (here / "newer.json").write_text('{"schema": 99}')
    (here / "short.json").write_text('{"schema": 1}')
    write_baseline(usual_baseline(), here / "b.json")
    for name, (old, new, _) in EDITS.items():
        config = make_run(here / name) / "config.yaml"
        assert old in config.read_text()
        config.write_text(config.read_text().replace(old, new, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setattr(sys, "path", list(sys.path))
        patch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        yield here


def files(directory: Path) -> list[Path]:
    """All files but the modules that Python has compiled, and their directory."""
    return sorted(path for path in directory.rglob("*") if "__pycache__" not in path.parts)


@pytest.mark.parametrize("command", [name for name in MISUSE if name in COMMANDS or name not in OF_EXTRAS])
def test_a_mistake_gets_one_line(
    command: str, project: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    if command == "without-a-gpu" and Path("/dev/nvidia0").exists():
        pytest.skip("there may be a CUDA device here")
    assert mistakes(MISUSE[command], project, capsys) == snapshot


def mistakes(lines: list[str], here: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Each line that is typed, with what it prints. It must be one line on stderr, and nothing may be written."""
    before = files(here)
    table = []
    for typed in lines:
        status = main(shlex.split(typed))
        out, err = capsys.readouterr()
        assert (status, out, err.count("\n"), err[:9]) == (2, "", 1, "harness: "), typed
        table.append(f"$ {_short(typed)}\n  {_short(without_paths(err.removeprefix('harness: '), here))}")
    assert files(here) == before
    return "\n".join([*table, ""])


def _short(text: str) -> str:
    """The text without what git says, what torch is here, and how many names a list leaves out.

    Arguments that are long on purpose get an ellipsis.
    """
    text = re.sub("fatal: .*", "GIT'S MESSAGE", text)
    text = re.sub(r"and \d+ more", "and N more", text.replace(f"; {TorchDevice.install}", ""))
    for long in (DIGITS, LETTERS, "word " * 129):
        text = text.replace(long, f"{long[:8]}…")
    return text.rstrip("\n").replace("\n", "\\n")
