"""What `.ci/cuda` says of its parts, with a Python that only prints what a part's command would."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.bench_do_bench import is_far_off

from harness.config import SweepConfig
from harness.config.compose import compose

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "cuda"
PARTS = re.findall(r"^#   ([a-z]+)  ", SCRIPT.read_text(), re.MULTILINE)
PAPERS = sorted(file.stem for file in (SCRIPT.parents[1] / "conf" / "paper").glob("*.yaml"))
SKIPPED = "SKIPPED [1] tests/bench/bench_do_bench.py:50: could not import 'triton.testing'\n1 skipped in 0.04s"


def ended(tmp_path: Path, *parts: str, says: str, status: int = 0, rehearse: str = "1") -> tuple[int, str, list[str]]:
    """The exit status of the script, its last line, and the parts that a second call would not run."""
    python = tmp_path / "python"
    names = "\n".join(line.split()[0] for line in says.splitlines() if line.startswith("tests/"))
    collect = f"case \"$*\" in *--collect-only*) cat << 'END'\n{names}\nEND\nexit 0;; esac"
    python.write_text(f"#!/bin/sh\n{collect}\ncat << 'END'\n{says}\nEND\nexit {status}\n")
    python.chmod(0o755)
    variables = {"PYTHON": str(python), "HARNESS_CUDA_RUNS": str(tmp_path / "runs"), "HARNESS_CUDA_REHEARSE": rehearse}
    done = subprocess.run([SCRIPT, *parts], env={**os.environ, **variables}, capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout.splitlines()[-1], [path.stem for path in (tmp_path / "runs").glob("*.done")]


def test_a_part_whose_tests_pass_is_done(tmp_path: Path) -> None:
    status, last, done = ended(tmp_path, "clock", says="1 passed in 2.00s")
    assert (status, done) == (0, ["clock"])
    assert last.endswith("left: nothing")


def test_a_part_that_tells_of_no_test_is_left(tmp_path: Path) -> None:
    assert ended(tmp_path, "clock", says="")[1].endswith("left: clock (skipped: no test has run)")


@pytest.mark.parametrize("rehearse", ["1", ""])
def test_a_part_whose_tests_are_all_skipped_is_left_with_the_reason(tmp_path: Path, rehearse: str) -> None:
    status, last, done = ended(tmp_path, "clock", says=SKIPPED, rehearse=rehearse)
    assert (status, done) == (1, [])
    assert last.endswith("left: clock (skipped: could not import 'triton.testing')")


SKIPPED_TEST = f"tests/test_b.py::test_two SKIPPED (no GPU) [100%]\n{SKIPPED}"


def test_tests_that_are_all_skipped_are_left_at_every_call(tmp_path: Path) -> None:
    for _ in range(2):
        status, last, done = ended(tmp_path, "tests", says=SKIPPED_TEST, rehearse="")
        assert (status, done) == (1, [])
        assert last.endswith("left: tests (skipped: could not import 'triton.testing')")


def test_an_interrupted_part_runs_the_skipped_tests_again_and_not_those_that_passed(tmp_path: Path) -> None:
    passed = "tests/test_a.py::test_one PASSED [50%]"
    assert ended(tmp_path, "tests", says=f"{passed}\n{SKIPPED_TEST}", status=1, rehearse="")[0] == 1
    assert (tmp_path / "runs" / "tests.passed").read_text().split() == ["tests/test_a.py::test_one"]
    assert ended(tmp_path, "tests", says=f"{passed}\n{SKIPPED_TEST}", rehearse="")[::2] == (0, ["tests"])
    command = (tmp_path / "runs" / "tests.command").read_text()
    assert command.strip().endswith("-m cuda tests/test_b.py::test_two")


def test_tests_that_passed_before_a_kill_are_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "tests.txt").write_text("tests/test_a.py::test_one PASSED [50%]\n")
    ended(tmp_path, "tests", says=SKIPPED_TEST, rehearse="")
    command = (tmp_path / "runs" / "tests.command").read_text()
    assert command.strip().endswith("-m cuda tests/test_b.py::test_two")


@pytest.mark.parametrize(
    ("ratio", "ours_s", "by", "is_host_bound", "far_off"),
    [
        (1.005, 1e-3, "held", False, False),
        (0.333, 1e-3, "held", False, True),
        (1.02, 1e-3, "held", False, True),
        (1.02, 20e-6, "held", False, False),
        (1.02, 1e-3, "graph", False, False),
        (1.02, 1e-3, "held", True, False),
    ],
)
def test_a_clock_that_differs_from_do_bench_fails(
    ratio: float, ours_s: float, by: str, is_host_bound: bool, far_off: bool
) -> None:
    assert is_far_off(ratio, ours_s, by, is_host_bound) == far_off


def test_a_rehearsal_goes_through_every_part_and_leaves_none(tmp_path: Path) -> None:
    status, last, done = ended(tmp_path, says="tests/test_a.py::test_one PASSED [100%]\n1 passed in 2.00s")
    assert (status, sorted(done)) == (0, sorted(PARTS))
    assert last.endswith("left: nothing")


@pytest.mark.parametrize(("rehearse", "alike"), [("1", "1"), ("", "3")])
def test_the_gate_has_one_planted_slow_down_in_a_rehearsal_too(tmp_path: Path, rehearse: str, alike: str) -> None:
    ended(tmp_path, "gate", says="1 passed in 9.00s", rehearse=rehearse)
    command = (tmp_path / "runs" / "gate.command").read_text()
    variables = dict(re.findall(r"HARNESS_BENCH_(\w+)=(\S+)", command))  # the last value of each counts
    assert (variables["ALIKE"], variables["PLANTED"]) == (alike, "1")


def sweeps(runs: Path) -> dict[str, SweepConfig]:
    """What each sweep in a directory of runs is to measure, by its command."""
    commands = {file.stem: file.read_text().split() for file in runs.glob("*.command")}
    settings = {name: [word for word in words if re.match("[a-z_.]+=", word)] for name, words in commands.items()}
    return {name: compose(words, for_sweep=True) for name, words in settings.items()}


def test_every_paper_is_measured_on_the_gpu_as_published(tmp_path: Path) -> None:
    ended(tmp_path, "first", "papers", says="done", rehearse="")
    found = sweeps(tmp_path / "runs")
    assert sorted(found) == PAPERS
    for name, sweep in found.items():
        published = compose([f"paper={name}"], for_sweep=True)
        assert sweep.axes["device"] == ("cuda",)
        assert (sweep.axes, sweep.points) == (published.axes, published.points)


def test_every_paper_is_rehearsed_at_a_small_size(tmp_path: Path) -> None:
    ended(tmp_path, "first", "papers", says="done")
    found = sweeps(tmp_path / "runs")
    assert sorted(found) == PAPERS
    for sweep in found.values():
        assert [sweep.axes[name] for name in ("device", "seq_len", "d_model")] == [("cuda",), (16,), (16,)]


def test_the_ladder_has_sizes_that_keep_a_gpu_busy_but_for_a_rehearsal(tmp_path: Path) -> None:
    for rehearse in ("", "1"):
        ended(tmp_path, "ladder", says="done", rehearse=rehearse)
        (tmp_path / "runs" / "ladder.done").unlink()
        axes = sweeps(tmp_path / "runs")["ladder"].axes
        sizes = [list(axes[name]) for name in ("seq_len", "d_model", "batch_size")]
        assert sizes == ([[16, 32], [16], [1]] if rehearse else [[512, 1024, 2048, 4096, 8192], [1024], [4]])


@pytest.mark.parametrize(("rehearse", "expected"), [("", (0, ["default"])), ("1", (1, []))])
def test_a_sweep_with_a_case_that_has_no_time_is_done_but_in_a_rehearsal(
    tmp_path: Path, rehearse: str, expected: tuple[int, list[str]]
) -> None:
    assert ended(tmp_path, "default", says="out of memory", status=3, rehearse=rehearse)[::2] == expected


def test_a_run_without_its_report_is_not_published(tmp_path: Path) -> None:
    (tmp_path / "runs" / "default").mkdir(parents=True)
    (tmp_path / "runs" / "default" / "summary.csv").touch()
    status, last, _ = ended(tmp_path, "publish", says="some-gpu")
    assert status == 1
    assert last.endswith("left: publish")


def test_a_part_that_fails_is_left_and_is_the_exit_status(tmp_path: Path) -> None:
    status, last, done = ended(tmp_path, "clock", "peaks", says="no GPU", status=1)
    assert (status, done) == (1, [])
    assert last.endswith("left: clock, peaks")


def test_what_does_not_fit_into_the_limit_is_left_and_said_so(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 20\n")
    python.chmod(0o755)
    variables = {"PYTHON": str(python), "HARNESS_CUDA_RUNS": str(tmp_path / "runs"), "HARNESS_CUDA_LIMIT_S": "1"}
    done = subprocess.run(
        [SCRIPT, "record", "peaks", "ladder"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=15,
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].endswith("left: record, peaks, ladder")
    assert re.findall(r"exit status (\d+)$", done.stdout, re.MULTILINE) == ["124", "124", "1"]
    assert not list((tmp_path / "runs").glob("*.done"))


def test_parts_run_in_the_order_of_worth_that_the_script_describes(tmp_path: Path) -> None:
    variables = {**os.environ, "HARNESS_CUDA_RUNS": str(tmp_path)}
    refused = subprocess.run([SCRIPT, "nonsense"], env=variables, capture_output=True, text=True, timeout=15)
    assert PARTS[:3] == ["record", "clock", "peaks"]
    assert refused.stderr.strip().endswith(f"there are: {' '.join(PARTS)}")


def test_a_process_closes_the_origin_of_its_fork_servers_at_its_exit() -> None:
    code = "from forked_servers import Origin\norigin = Origin('pass')\norigin.start()"
    tests = str(Path(__file__).parent)
    command = [sys.executable, "-X", "dev", "-c", code]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": tests}, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
