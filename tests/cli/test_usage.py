"""The command line as a whole. Mistakes and their messages are in tests/screens/test_misuse.py."""

import gc
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.cli import commands
from harness.cli.commands import INTERRUPTED, main


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == printed


def test_a_dry_run_prints_the_grid_as_a_table_of_axes_and_writes_nothing(
    elsewhere: Path, capsys: pytest.CaptureFixture
) -> None:
    arguments = ["sweep", "--dry-run", "impl=rnn.torch,attention.fused", "seq_len=8,16", "d_model=10", "num_heads=2,3"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "seq_len (n)    8, 16" in said
    refused = " ".join(said.split())
    assert "unsupported: attention.fused n=8 d=10 h=3" in refused
    assert "d_model=10 is not divisible by num_heads=3" in refused
    assert "6 cases, 2 unsupported. Expected time: " in said
    assert "impl=" not in said
    assert list(elsewhere.iterdir()) == []


def test_a_dry_run_tells_layers_without_heads_and_points_from_a_whole_grid(capsys: pytest.CaptureFixture) -> None:
    assert (
        main(["sweep", "impl=rnn.torch,attention.fused", "seq_len=8", "head_dim=4", "num_heads=2,4", "--dry-run"]) == 0
    )
    printed = capsys.readouterr().out
    assert "2, 4; layers without heads: 1" in printed
    assert "Not all combinations" in printed, "each number of heads has its own width"
    assert main(["sweep", "impl=attention.fused", "seq_len=8,16", "d_model=8", "num_heads=2,4", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "without heads" not in printed
    assert "Not all combinations" not in printed


def test_a_verbose_dry_run_lists_each_case_on_a_line_to_paste(capsys: pytest.CaptureFixture) -> None:
    assert (
        main(["sweep", "--dry-run", "-v", "impl=attention.fused", "seq_len=8,16", "d_model=10", "num_heads=2,3"]) == 0
    )
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("impl=")]
    assert len(lines) == 4
    assert sum("# unsupported: d_model=10 is not divisible by num_heads=3" in line for line in lines) == 2


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


@pytest.mark.parametrize(("then", "ends"), [("", True), ("while True: pass", False)])
def test_an_interrupt_waits_until_an_import_ends_and_not_for_one_that_never_does(
    then: str, ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """CPython turns an exception in `__set_name__` into a RuntimeError, which would end the command with status 1."""
    lines = ["import os, signal", "class Name:", "    def __set_name__(self, owner, name):"]
    lines += ["        os.kill(os.getpid(), signal.SIGTERM)", "class Owner:", "    name = Name()", then, "ended = True"]
    (tmp_path / "interrupted.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "interrupted", raising=False)
    monkeypatch.setattr(commands, "_TIMES", 40 if ends else 2)
    monkeypatch.setattr(commands, "_find_own_layers", lambda: importlib.import_module("interrupted"))
    gc.disable()  # Python ignores an exception in a callback of the collector, as hypothesis has one
    try:
        assert main(["list"]) == INTERRUPTED
    finally:
        gc.enable()
    assert capsys.readouterr().err == "harness: interrupted\n"
    assert ("interrupted" in sys.modules) == ends
