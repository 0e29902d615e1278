"""A walk through fixed faults, and tests that a walk notices violations.

`benchmarks/bench_faults.py` draws random faults from the table for a given time.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from core.faults.driver import MARK
from core.faults.invariants import not_yet_done, wrong_with
from core.faults.place import ENOUGH_MEMORY, GOOD, Place
from core.faults.table import FAULTS
from core.faults.walk import walk

ROWS = [fault.name for fault in FAULTS.values() if fault.kind == "rows"]
SUMMARY = "impl,seq_len,status,reason,stop_reason,trials\n"
FUSED, ELMAN = (f"{impl},8,ok,,target,2\n" for impl in GOOD)


def test_a_run_that_is_interrupted_then_refused_then_damaged_in_every_way_is_continued_until_it_is_done(
    tmp_path: Path,
) -> None:
    walked = walk(tmp_path, [["SIGINT to the driver"], ["an edited precision", "a foreign lock.json"], ROWS])
    assert walked.wrong == []
    assert [swept.end for swept in walked.sweeps[:2]] == [130, 2]
    assert len(walked.sweeps[2].arrived) > len(ROWS) / 2


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A finished run, made without a sweep."""
    place = Place(tmp_path, random.Random(0), [], ENOUGH_MEMORY)
    (place.run / "rows").mkdir(parents=True)
    (place.run / "rows" / "0001-a-1.jsonl").write_text("{}\n")
    (place.run / "summary.csv").write_text(SUMMARY + FUSED + ELMAN)
    place.before.update(place.rows())
    return place


def test_a_run_that_is_done_has_nothing_wrong(place: Place) -> None:
    assert wrong_with(place, 0, "", (0, 3)) == not_yet_done(place) == []


@pytest.mark.parametrize(
    ("status", "said", "summary", "wrong"),
    [
        (1, "", FUSED + ELMAN, "it ended with 1 and not with 0, 3"),
        (0, "Traceback (most recent call last):\n", FUSED + ELMAN, "a traceback"),
        (0, "a warning\n", FUSED + ELMAN, "a line on stderr is not the harness's"),
        (2, "", FUSED + ELMAN, "it refused in 0 lines"),
        (2, "harness: no\nharness: no\n", FUSED + ELMAN, "it refused in 2 lines"),
        (0, "", FUSED, "rnn.elman has no row in summary.csv"),
        (0, "", FUSED + FUSED + ELMAN, "attention.fused is there 2 times"),
        (0, "", FUSED + "rnn.elman,8,ok,,interrupted,1\n", "it ended with 0, and rnn.elman is not finished"),
        (0, "", FUSED + "rnn.elman,8,error,it raised,,\n", "it ended with 0, and rnn.elman is not finished"),
        (3, "", FUSED + "rnn.elman,8,error,,,\n", "rnn.elman is error without a reason"),
        (3, "", FUSED + ELMAN, "it ended with 3, and every case is finished"),
    ],
)
def test_what_a_sweep_must_not_say_or_leave_is_noticed(
    status: int, said: str, summary: str, wrong: str, place: Place
) -> None:
    (place.run / "summary.csv").write_text(SUMMARY + summary)
    found = wrong_with(place, status, said, (0, 3))
    assert any(wrong in one for one in found), found


@pytest.mark.parametrize("directory", ["cwd", "tmp", "shm"])
def test_a_file_outside_of_out_is_noticed(directory: str, place: Place) -> None:
    left = getattr(place, directory) / "left"
    left.touch()
    assert wrong_with(place, 0, "", (0, 3)) == [f"files outside of out: {left}"]
    left.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may lay a directory over /dev/shm")
def test_shared_memory_of_a_sweep_lies_in_its_place(place: Place) -> None:
    command = [sys.executable, "-c", "open('/dev/shm/left', 'w')"]
    subprocess.run(command, check=True, preexec_fn=place._prepare)
    if [path.name for path in place.shm.iterdir()] != ["left"]:
        Path("/dev/shm/left").unlink()
        pytest.skip("no directory can be laid over /dev/shm here")
    assert place.left_behind() == [str(place.shm / "left")]


def test_rows_that_were_changed_or_lost_are_noticed(place: Place) -> None:
    (place.run / "rows" / "0001-a-1.jsonl").write_text("{}")
    assert wrong_with(place, 0, "", (0, 3)) == ["0001-a-1.jsonl is not what it was"]


def test_a_process_that_remains_is_noticed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.faults.invariants._SOON_S", 0.1)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={MARK: place.mark}):
        assert any("a process remains" in wrong for wrong in wrong_with(place, 0, "", (0, 3)))


@pytest.mark.parametrize("line", ["rnn.elman,8,ok,,interrupted,1\n", "rnn.elman,8,ok,,target,1\n", ""])
def test_a_case_without_all_its_rounds_is_not_done(line: str, place: Place) -> None:
    (place.run / "summary.csv").write_text(SUMMARY + FUSED + line)
    assert len(not_yet_done(place)) == 1
