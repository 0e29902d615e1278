"""A run has one writer at a time. The lock of a killed writer never blocks the run forever."""

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.model.errors import UsageError
from harness.core.results.run_directory import LOCK, locked

HOLDS = """
import sys, time
from pathlib import Path
from harness.core.results.run_directory import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def holder(out: Path) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(out)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def left(out: Path, **fields: object) -> None:
    out.mkdir(exist_ok=True)
    (out / LOCK).write_text(json.dumps({"host": "elsewhere", "pid": 7, "since": "yesterday", "boot": "B", **fields}))


def test_the_second_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    first = holder(tmp_path)
    try:
        with pytest.raises(
            UsageError, match=rf"process {first.pid} on {platform.node()}, since .*, is measuring there"
        ):
            locked(tmp_path).__enter__()
    finally:
        end(first)


def test_within_one_process_too(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UsageError, match=f"process {os.getpid()} on"):
        locked(tmp_path).__enter__()


def test_where_nothing_can_be_written_the_directory_is_named_and_what_to_do() -> None:
    with pytest.raises(
        UsageError, match=r"out=/proc/absent cannot be written to \(No such file .*\): .*; name another"
    ):
        locked(Path("/proc/absent")).__enter__()


def test_one_whose_holder_was_killed_is_taken_over_and_says_so(tmp_path: Path) -> None:
    first = holder(tmp_path)
    end(first)
    with locked(tmp_path) as left_by:
        assert left_by is not None
        assert f"process {first.pid} on {platform.node()}" in left_by
    assert not (tmp_path / LOCK).exists()


def test_one_that_was_let_go_of_leaves_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "new") as left_by:
            assert left_by is None
        assert list((tmp_path / "new").iterdir()) == []


def test_the_lock_of_another_run_that_has_taken_its_place_meanwhile_stays(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with locked(run):
        run.rename(tmp_path / "elsewhere")
        other = locked(run)
        other.__enter__()
    assert (run / LOCK).exists()
    other.__exit__(None, None, None)
    assert list(run.iterdir()) == []


def test_where_a_run_was_renamed_meanwhile_no_other_directory_is_made_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory"), locked(tmp_path / "run", make=False):
        pass
    assert list(tmp_path.iterdir()) == []


def test_of_another_machine_nobody_here_knows_whether_it_goes_on(tmp_path: Path) -> None:
    left(tmp_path)
    with pytest.raises(UsageError, match=r"process 7 on elsewhere, .*; if it has, remove .*lock\.json"):
        locked(tmp_path).__enter__()
    (tmp_path / LOCK).unlink()
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("whose", [{"host": platform.node()}, {"boot": None}])
def test_one_of_this_machine_booted_anew_or_under_another_name_is_stale(tmp_path: Path, whose: dict) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    left(tmp_path, **({"boot": boot} if "boot" in whose else whose))
    with locked(tmp_path) as left_by:
        assert left_by is not None


@pytest.mark.parametrize("garbage", [b"", b"\x00\xff", b"[1]", b'{"host"'])
def test_a_file_that_says_nothing_holds_up_nobody(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / LOCK).write_bytes(garbage)
    with locked(tmp_path) as left_by:
        assert left_by is None
