"""An interleaved trial warms up, times a turn on request and ends. Whatever it does, it leaves nothing behind."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import psutil
import pytest
from core.run.misbehaving import FLAG

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.run.fork_client import ForkServerLost
from harness.core.run.outcome import TrialOutcome
from harness.core.trial.sandbox import NOTICE
from harness.extras.compare.turn_trial import TurnTrial, TurnTrialFailed, begin_turns

TURN_S = 0.002


@pytest.fixture(scope="module")
def flag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flag") / "now"


@pytest.fixture(scope="module")
def impatient(flag: Path) -> Iterator[Executor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FLAG, str(flag))
        with Executor(seed=0, trial_s=0.01, timeout_s=4, memory_limit=2**29) as runner:
            yield runner


@pytest.fixture(autouse=True)
def well(flag: Path) -> Iterator[None]:
    flag.unlink(missing_ok=True)
    before = set(os.listdir("/proc/self/fd")), _trials()
    yield
    assert set(os.listdir("/proc/self/fd")) - before[0] <= _of_fork_servers()
    assert _trials() == 0


def _of_fork_servers() -> set[str]:
    """Descriptors of sockets, which exist as long as a runner. Pipes belong to a trial."""
    return {name for name in os.listdir("/proc/self/fd") if _target(name).startswith("socket:")}


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:  # the descriptor of the listing itself
        return "socket:"


def _trials() -> int:
    """The number of trials that run under this process."""
    return sum(len(parent.children()) for parent in _fork_servers())


def _fork_servers() -> list[psutil.Process]:
    """The fork servers: children of supervisors. Other children of this process, such as a browser, are left out."""
    supervisors = [child for child in psutil.Process().children() if "fork_server.serve" in " ".join(child.cmdline())]
    return [parent for supervisor in supervisors for parent in supervisor.children()]


def misbehaving(layer: str) -> Case:
    return Case(f"core.run.misbehaving:{layer}", 32, 16, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are watched on Linux only")
@pytest.mark.parametrize(("layer", "least", "most"), [("WorksOn", 0.25, inf), ("HasAnIdleThread", 0.0, 0.05)])
def test_its_outcome_has_the_work_of_threads_after_a_call(
    impatient: Executor, layer: str, least: float, most: float
) -> None:
    trial = begin_turns(impatient, Case(f"core.trial.late:{layer}", 32, 8, 1), TURN_S)
    trial.wait_until_warm()
    trial.turn()
    assert least <= trial.end().values["threads_after"] <= most


def test_it_is_warmed_takes_turns_and_ends(impatient: Executor, case: Case) -> None:
    trial = begin_turns(impatient, case, TURN_S)
    assert trial.wait_until_warm() > 0
    for place, anew in ((0, True), (0, False), (1, True), (300, False)):
        turn = trial.turn(place, anew)
        assert 0 < turn.min_s <= turn.mean_s
    outcome = trial.end()
    assert (outcome.status, outcome.values["turns"]) == ("ok", 4)
    assert trial.end().status == "error"  # the trial has ended already
    trial.abandon()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_no_thread_of_it_runs_between_its_turns(impatient: Executor) -> None:
    trial = begin_turns(impatient, replace(misbehaving("Good"), threads=2), TURN_S)
    trial.wait_until_warm()
    process = next(parent for parent in _fork_servers() if parent.children()).children()[0]
    for _ in range(3):
        assert process.status() == psutil.STATUS_STOPPED
        before = process.cpu_times()
        time.sleep(0.03)
        assert process.cpu_times() == before
        trial.turn()
    assert trial.end().status == "ok"


@pytest.mark.parametrize(
    ("layer", "status", "reason"),
    [
        ("Raises", "error", "no such luck"),
        ("KillsItself", "killed", "by SIGKILL"),
        ("Sleeps", "timeout", "no result after 4 s"),
    ],
)
def test_what_goes_wrong_during_a_turn_is_told(
    layer: str, status: str, reason: str, impatient: Executor, flag: Path
) -> None:
    trial = begin_turns(impatient, misbehaving(layer), TURN_S)
    trial.wait_until_warm()
    trial.turn()
    flag.touch()
    with pytest.raises(TurnTrialFailed) as failed:
        trial.turn()
    assert failed.value.outcome.status == status
    assert reason in str(failed.value)
    trial.abandon()
    flag.unlink()
    assert impatient.run("time", misbehaving("Good")).status == "ok"


def test_what_goes_wrong_before_the_first_turn_is_told(impatient: Executor, flag: Path) -> None:
    flag.touch()
    with pytest.raises(TurnTrialFailed, match="no such luck"):
        begin_turns(impatient, misbehaving("Raises"), TURN_S).wait_until_warm()


def test_one_that_died_between_turns_says_so_at_the_next(impatient: Executor, case: Case) -> None:
    trial = begin_turns(impatient, case, TURN_S)
    trial.wait_until_warm()
    (parent,) = (one for one in _fork_servers() if one.children())
    parent.children()[0].kill()
    with pytest.raises(TurnTrialFailed, match="by SIGKILL"):
        trial.turn()


def test_one_that_nobody_ended_does_not_hold_up_the_next(impatient: Executor, case: Case) -> None:
    forgotten = begin_turns(impatient, case, TURN_S)
    forgotten.wait_until_warm()
    assert impatient.run("time", case).status == "ok"
    with pytest.raises(TurnTrialFailed):
        forgotten.turn()


def test_abandoned_it_is_gone_at_once_whatever_it_does(impatient: Executor, case: Case, flag: Path) -> None:
    warm = begin_turns(impatient, case, TURN_S)
    warm.wait_until_warm()
    warm.abandon()
    assert _trials() == 0
    flag.touch()
    asleep = begin_turns(impatient, misbehaving("Sleeps"), TURN_S)
    asleep.abandon()
    asleep.abandon()
    assert _trials() == 0


def test_the_loss_of_the_fork_server_is_told(flag: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FLAG, str(flag))
    with Executor(seed=0, trial_s=0.01, timeout_s=5, memory_limit=2**29) as runner:
        trial = begin_turns(runner, misbehaving("KillsItsParentToo"), TURN_S)
        trial.wait_until_warm()
        flag.touch()
        with pytest.raises(TurnTrialFailed, match="the fork server ended"):
            trial.turn()
        with pytest.raises(TurnTrialFailed, match="the fork server ended"):
            begin_turns(runner, misbehaving("Good"), TURN_S)


class Parent:
    """A fake fork server with answers from the test."""

    trial = 4711

    def __init__(self, *said: bytes, error: BaseException | None = None) -> None:
        self.said, self.error = list(said), error

    def begin(self, request: dict[str, Any], ask: int) -> int:
        if self.error is not None:
            raise self.error
        return os.open(os.devnull, os.O_RDONLY)

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def read(self, pipe: int, deadline: float) -> bytes | None:
        return self.said.pop(0)

    def end(self, sent: bytes | None, timeout_s: float) -> TrialOutcome:
        return TrialOutcome("ok", values={"sent": sent})


@pytest.mark.parametrize("join", [lambda *said: said, lambda *said: (b"".join(said),)])
def test_word_that_it_compiles_is_no_answer_whenever_it_is_read(join: Callable[..., tuple[bytes, ...]]) -> None:
    warm = json.dumps({"call_s": 0.25}).encode() + b"\n"
    trial = TurnTrial(Parent(*join(NOTICE, warm), b"{}\n"), {}, 1.0)  # type: ignore[arg-type]
    assert trial.wait_until_warm() == 0.25
    trial.end()


@pytest.mark.parametrize("error", [ForkServerLost(), KeyboardInterrupt()])
def test_one_that_cannot_begin_leaves_no_descriptor(error: BaseException) -> None:
    with pytest.raises(type(error)):
        TurnTrial(Parent(error=error), {}, 1.0)  # type: ignore[arg-type]
