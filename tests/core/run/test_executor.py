"""Whatever a trial does, it ends with an outcome and leaves no process behind."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.run import fork_client
from harness.core.run.executor import Executor

TESTS = Path(__file__).resolve().parents[2]


def planted(layer: str, n: int = 32) -> Case:
    return Case(f"planted:{layer}", n, 8, 2)


def test_a_timed_trial_brings_samples_and_what_else_happened(runner: Executor, case: Case) -> None:
    outcome = runner.run("time", case)
    assert outcome.status == "ok"
    assert all(sample > 0 for sample in outcome.values["samples_s"])
    assert outcome.wall_s > outcome.values["sampling_s"]
    assert {"minor_faults", "involuntary_switches", "cpu_s", "probe_s"} <= outcome.values.keys()


@pytest.mark.parametrize(
    ("layer", "status", "reason"),
    [
        ("Greedy", "oom", "memory"),
        ("KillsItself", "killed", "by SIGKILL"),
        ("Crashes", "error", "its process crashed: SIGSEGV"),
        ("RaisesInColour", "error", "RuntimeError: no such luck (planted.py:"),
        ("ExitsQuietly", "error", "exit status 0 and without a result"),
        ("LeavesAChild", "killed", "by SIGKILL"),
        ("RaisesInConstructor", "error", "RuntimeError: no such luck (planted.py:"),
        ("LacksAnAttribute", "error", "has no attribute 'zork' (planted.py:"),
        ("RefusesShort", "unsupported", "needs 64 tokens or more"),
        ("Absent", "error", "planted has no 'Absent'; it has "),
    ],
)
def test_a_trial_that_fails_says_how(runner: Executor, layer: str, status: str, reason: str) -> None:
    outcome = runner.run("time", planted(layer))
    assert outcome.status == status
    assert reason in outcome.reason


def test_a_trial_that_does_not_end_is_ended() -> None:
    with Executor(seed=0, trial_s=0.01, timeout_s=2, memory_limit=2**30) as impatient:
        impatient.run("machine")  # the fork server's start does not count as time of a trial
        for layer, status in (("Sleeps", "timeout"), ("ClosesEveryFile", "killed")):
            began = time.monotonic()
            outcome = impatient.run("time", planted(layer))
            assert (layer, outcome.status) == (layer, status)
            assert time.monotonic() - began < 9
            assert impatient.run("time", planted("Identity")).status == "ok"


def test_what_a_layer_prints_reaches_nobodys_screen(runner: Executor, capfd: pytest.CaptureFixture) -> None:
    assert runner.run("time", planted("Chatters")).status == "ok"
    assert capfd.readouterr() == ("", "")


def test_a_failure_leaves_no_trace_in_the_next_trial(runner: Executor, case: Case) -> None:
    assert runner.run("time", planted("KillsItself")).status == "killed"
    assert runner.run("time", case).status == "ok"


def test_the_loss_of_the_fork_server_costs_one_trial_and_not_the_sweep(case: Case) -> None:
    others = psutil.Process().children()
    with Executor(seed=0, trial_s=0.01, timeout_s=5, memory_limit=2**30) as runner:
        runner.run("time", case)
        (parent,) = set(psutil.Process().children()) - set(others)
        os.kill(parent.pid, signal.SIGKILL)
        assert runner.run("time", case).status == "killed"
        assert runner.run("time", case).status == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has supervisors")
@pytest.mark.parametrize("layer", ["StopsItsParent", "StopsItsAncestors"])
def test_a_stopped_fork_server_is_noticed_long_before_its_time_limit(
    layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_client, "_ANSWER_S", 20.0)
    with Executor(seed=0, trial_s=0.01, timeout_s=1, memory_limit=2**30) as runner:
        outcome = runner.run("time", Case(f"core.faults.layers:{layer}", 8, 8, 1))
    assert (outcome.status, outcome.reason) == ("killed", "the fork server stopped answering")
    assert outcome.wall_s < 12


def no_room(*_: object, **__: object) -> None:
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_a_system_that_starts_no_process_is_named_with_what_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", no_room)
    pattern = f"attn-*-{os.getpid()}-*"
    before = set(Path(tempfile.gettempdir()).glob(pattern))
    with Executor(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**29) as started:
        with pytest.raises(UsageError, match=r"no process could be started \(Resource .*\): see `ulimit -u`"):
            started.start()
        assert set(Path(tempfile.gettempdir()).glob(pattern)) <= before


def test_no_room_for_another_fork_server_costs_one_trial(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with Executor(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**29) as started:
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", no_room)
            outcome = started.run("probe", case)
        assert outcome.status == "killed"
        assert "no process could be started" in outcome.reason
        assert started.run("probe", case).status == "ok"


def test_a_fork_that_the_system_refuses_costs_one_trial(case: Case) -> None:
    refused = Case("refuses_a_fork:Mixes", 8, 4, 1)
    with Executor(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**30) as runner:
        outcome = runner.run("verify", refused, {"own_module": True})
        assert outcome.status == "killed"
        assert outcome.reason.startswith("no process could be started (Resource temporarily unavailable)")
        assert runner.run("verify", case).status == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="no memory limit here")
@pytest.mark.parametrize("impl", ["attention.fused", "rnn.elman"])
def test_a_memory_limit_with_no_room_for_threads_is_out_of_memory_and_named(impl: str) -> None:
    with Executor(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**24) as runner:
        outcome = runner.run("facts", Case(impl, 32, 16, 1, threads=16))
    assert outcome.status == "oom"
    assert outcome.reason.startswith("it needs more than the memory limit of 16 MiB: ")


def test_whether_results_are_kept_is_looked_at_once_a_case(runner: Executor) -> None:
    own = Case("attention.fused", seq_len=24, d_model=16, num_heads=2)
    assert [runner.run("time", own).values.get("last_call_checked") for _ in range(2)] == [True, None]


def test_what_a_trial_leaves_is_removed_before_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its temporary directory; the fork server goes on."""
    monkeypatch.chdir(tmp_path)
    with tempfile.TemporaryDirectory() as temporary:  # a short path, because sockets are created in it
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        with Executor(seed=0, trial_s=0.01, timeout_s=30, memory_limit=2**29) as runner:
            outcome = runner.run("time", Case("core.faults.layers:LeavesTemporaryFiles", 8, 8, 1))
            assert outcome.status == "ok", outcome.reason
            assert [len(list(left.iterdir())) for left in Path(temporary).iterdir()] == [0]
        assert list(Path(temporary).iterdir()) == []


def test_no_process_is_left_when_the_runner_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other processes on the machine may belong to the harness too. Those of this test inherit a mark.
    monkeypatch.setenv("HARNESS_TEST_MARK", mark := f"{os.getpid()}")
    with Executor(seed=0, trial_s=0.01, timeout_s=1, memory_limit=2**30) as runner:
        runner.run("time", planted("LeavesAChild"))
    assert [p for p in psutil.process_iter() if p.pid != os.getpid() and marked(p, mark)] == []


def marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get("HARNESS_TEST_MARK") == mark
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False


def sleepers() -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "4713"]]


def test_not_even_a_daemon_outlives_its_trial(runner: Executor) -> None:
    assert runner.run("time", planted("StartsADaemon")).status == "ok"
    assert sleepers() == []


def test_what_runs_when_the_runner_ends_ends_with_it() -> None:
    with Executor(seed=0, trial_s=0.01, timeout_s=0.5, memory_limit=2**29) as runner:
        assert runner.run("time", planted("StartsADaemonAndSleeps")).status == "timeout"
    assert sleepers() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_however_the_driver_ends_nothing_of_a_trial_goes_on(number: signal.Signals) -> None:
    code = (
        "from harness.core.run.executor import Executor; from harness.core.model.sweep_axes import Case\n"
        "with Executor(seed=0, trial_s=0.01, timeout_s=60, memory_limit=2**29) as runner:\n"
        "    runner.run('time', Case('planted:StartsADaemonAndSleeps', 32, 8, 2))\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(TESTS)})
    assert becomes_true(lambda: sleepers() != [])
    driver.send_signal(number)
    driver.wait()
    assert becomes_true(lambda: sleepers() == [])


def becomes_true(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_twin_knows_what_is_learnt_of_layers_and_shares_no_process(runner: Executor, case: Case) -> None:
    runner.run("machine")
    twin = runner.twin()
    try:
        twin.run("machine")
        assert twin._servers["default", False, ""] is not runner._servers["default", False, ""]
        assert twin.compiling is runner.compiling
    finally:
        twin.drop()
    assert runner.run("machine").status == "ok"


def test_somebodys_layer_is_described_by_looking_at_it(runner: Executor) -> None:
    found = runner.run("describe", planted("NoHeads")).values
    assert (found["family"], found["has_heads"]) == ("mixers", False)
    found = runner.run("describe", planted("Identity")).values
    assert (found["family"], found["has_heads"]) == ("own", True)


def test_equal_seeds_give_equal_work(runner: Executor, case: Case) -> None:
    first, second = (runner.run("verify", case).values["output_error"] for _ in range(2))
    assert first == second


def test_layers_of_two_directories_are_found_from_one_fork_server(tmp_path: Path, runner: Executor) -> None:
    found = []
    for name in ("first", "second"):
        place = tmp_path / name
        place.mkdir()
        (place / "searched_layer.py").write_text("from torch import nn\n\n\nclass Layer(nn.Identity):\n    pass\n")
        described = runner.searching([str(place), *sys.path], tmp_path / "cache").run(
            "describe", Case("searched_layer:Layer", 1, 1, 1)
        )
        found.append(described.values["file"])
    assert found == [str(tmp_path / name / "searched_layer.py") for name in ("first", "second")]
    assert runner.run("describe", Case("searched_layer:Layer", 1, 1, 1)).status == "error"
