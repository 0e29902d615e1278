"""What a user can get wrong: one line on stderr, exit status 2, nothing written."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.cli.commands import COMMANDS, main


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["swep"], "unknown command 'swep'; did you mean 'sweep'?"),
        (["sweep", "seqlen=1"], "did you mean 'seq_len'?"),
        (["sweep", "impl=atention.fused"], "did you mean 'attention.fused'?"),
        (["sweep", "seq_len=0"], "seq_len=0"),
        (["sweep", "--fast"], "unrecognized arguments: --fast"),
        (["sweep", "--config-dir"], "expected one argument"),
        (["sweep", "--config-dir", "absent"], "no such directory"),
        (["sweep", "out=taken"], "out=taken is a file"),
        (["sweep", "out=taken/run"], "is a file"),
        (["sweep", "out=/proc/absent"], "out=/proc/absent cannot be written to (no such file or directory): "),
        (["sweep", "wait=false"], "wait=false says how to measure elsewhere"),
        (["sweep", "device=cuda"], "torch sees no CUDA device"),
        (["sweep", "impl=absent_module:Layer"], "No module named 'absent_module'\n"),  # not where Python looked
        (["sweep", "impl=planted:Absent"], "planted has no class 'Absent'; it has "),
        (["sweep", "impl=planted:NotALayer"], "is not a class"),
        (["report"], "the following arguments are required: RUN"),
        (["report", "absent"], "absent is not a run"),
        (["list", "more"], "unrecognized arguments: more"),
        (["verify", "seq_len=abc"], "seq_len=abc"),
        (["verify", "device=cuda"], "torch sees no CUDA device"),
        (["sweep", "--dry-run", "device=cuda"], "torch sees no CUDA device"),
        (["sweep", "out=" + "a" * 300], "name too long"),
    ],
)
def test_it_gets_one_line_and_nothing_is_written(
    arguments: list[str], message: str, elsewhere: Path, capsys: pytest.CaptureFixture
) -> None:
    (elsewhere / "taken").write_text("mine")
    if "device=cuda" in arguments:
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a CUDA device here")
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert message.lower() in err.lower()
    assert err.startswith("harness: ")
    assert err.count("\n") == 1
    assert out == ""
    assert [path.name for path in elsewhere.iterdir()] == ["taken"]


def test_a_directory_that_cannot_be_written_to_is_refused(elsewhere: Path) -> None:
    """Root may write anywhere, so another user tries."""
    target = elsewhere / "readonly"
    target.mkdir(mode=0o555)
    command = [sys.executable, "-m", "harness", "sweep", f"out={target}/run"]
    if os.getuid() == 0:
        pytest.skip("root may write to any directory; tests/test_store.py covers the refusal")
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot be written to" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"python -m harness {command}" in capsys.readouterr().out


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture) -> None:
    assert main([]) == 2
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)


def test_a_dry_run_prints_the_cases_and_measures_nothing(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    arguments = ["sweep", "--dry-run", "impl=rnn.torch,attention.fused", "seq_len=8,16", "d_model=10", "num_heads=2,3"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("impl=")]) == 6
    assert len([line for line in lines if "# unsupported: d_model=10 is not divisible by num_heads=3" in line]) == 2
    assert lines[-1].startswith("6 cases, 2 of them unsupported; about ")
    assert list(elsewhere.iterdir()) == []


def test_the_composed_configuration_can_be_printed(capsys: pytest.CaptureFixture) -> None:
    assert main(["sweep", "--cfg", "-m", "seq_len=range(1,4)", "precision=strict"]) == 0
    text = capsys.readouterr().out
    assert "seq_len:\n- 1\n- 2\n- 3\n" in text
    assert "target: 0.01" in text


def test_the_list_names_every_layer_and_what_theory_claims(capsys: pytest.CaptureFixture) -> None:
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    assert "attention.fused" in text
    assert "8nd² + 4n²d" in text


def test_help_and_list_do_not_wait_for_torch() -> None:
    for arguments in (["--help"], ["list"], ["sweep", "--help"]):
        code = f"import sys; from harness.cli.commands import main; main({arguments!r})"
        if arguments[-1] == "--help":
            code = "import sys\nfrom harness.cli.commands import main\n"
            code += f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        done = subprocess.run(
            [sys.executable, "-c", f"{code}\nsys.exit(10 if 'torch' in sys.modules else 0)"], capture_output=True
        )
        assert done.returncode == 0


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "sweep", "--dry-run"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    process.stdout.close()
    time.sleep(0.1)
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


@pytest.mark.parametrize("claim", ['{"work": "2nd^x"}', '{"wrok": "2nd²"}', '{"work": "O(nd²)"}'])
def test_a_claim_that_cannot_be_read_is_told_before_anything_is_measured(
    elsewhere: Path, claim: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (elsewhere / "theirs").mkdir()
    (elsewhere / "theirs/layer.py").write_text(
        f"import torch\nclass Claims(torch.nn.Identity):\n    claims = {claim}\n"
    )
    assert main(["sweep", "impl=./theirs/layer.py:Claims", "out=run"]) == 2
    said = capsys.readouterr().err
    assert "layer.py:Claims': " in said
    assert "'work'" in said
    assert not (elsewhere / "run").exists()
