"""Which GPU `device=cuda:1` is, and that no two trials run on one GPU."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.core.config.compose import compose
from harness.core.model import gpus
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import OWN_ENVIRONMENT, Case, setting_text
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome
from harness.core.run.session import Session

ROOT = Path(gpus.__file__).parents[3]


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(gpus.tempfile, "tempdir", None)
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(gpus, "_uuids", {})
    monkeypatch.setattr(gpus, "_told", set())
    yield
    for path in list(gpus._held):
        os.close(gpus._held.pop(path)[0])


@pytest.mark.parametrize(
    ("device", "variables", "entry"),
    [
        ("cuda", {}, "0"),
        ("cuda:1", {}, "1"),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "2,5"}, "2"),
        ("cuda:1", {"CUDA_VISIBLE_DEVICES": "2, 5"}, "5"),
        ("cuda:1", {"CUDA_VISIBLE_DEVICES": "GPU-aa,GPU-bb"}, "GPU-bb"),
        ("cuda:1", {"CUDA_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "6,7"}, "7"),
        ("xpu:1", {"ZE_AFFINITY_MASK": "3,4"}, "4"),
        ("mps", {}, "0"),
    ],
)
def test_a_numbered_gpu_is_one_of_those_that_the_variable_shows(
    device: str, variables: dict[str, str], entry: str
) -> None:
    assert gpus.entry_of(device, variables) == entry


def test_a_trial_sees_its_own_gpu_alone_and_its_layer_finds_it_as_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert gpus.see_only("cuda") == "cuda"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,5"
    assert gpus.see_only("cuda:1") == "cuda"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5"
    assert gpus.see_only("cpu") == "cpu"


def test_a_gpu_that_the_variable_does_not_show_is_refused() -> None:
    text = r"device=cuda:2: CUDA_VISIBLE_DEVICES=2,5 shows no such GPU: the first is device=cuda:0"
    with pytest.raises(UsageError, match=text):
        gpus.entry_of("cuda:2", {"CUDA_VISIBLE_DEVICES": "2,5"})


def test_a_gpu_with_a_number_is_a_device_with_the_settings_of_its_kind() -> None:
    config = compose(["device=cuda:1,cuda:0"])
    assert config.axes["device"] == ("cuda:1", "cuda:0")
    assert config.axes["seq_len"] == compose(["device=cuda"]).axes["seq_len"]
    assert compose(["device=gpu:1"]).axes["device"] == ("cuda:1",)
    assert "cuda:1" in setting_text(Case("x", 1, 1, 1, device="cuda:1").as_dict())
    for wrong in ("cuda:01", "cuda:x", "mps:1", "cpu:0", "cuda:"):
        with pytest.raises(UsageError, match=r"^unknown device"):
            compose([f"device={wrong}"])


@pytest.mark.parametrize(("count", "known"), [(1, "'device=cuda'"), (4, "'device=cuda:0' to 'device=cuda:3'")])
def test_a_number_beyond_the_gpus_of_the_machine_is_refused_before_anything_is_measured(count: int, known: str) -> None:
    answer = TrialOutcome("ok", None, {"devices": {"cuda": {"count": count, "names": [], "lacking": None}}})
    executor = SimpleNamespace(environments=(OWN_ENVIRONMENT,), ask=lambda purpose: answer)
    executor.within = lambda environment: executor
    session = Session(executor, compose([]).precision, 0)  # type: ignore[arg-type]
    session.check_devices(compose(["device=cuda:0"]))
    with pytest.raises(UsageError) as caught:
        session.check_devices(compose(["device=cuda:4"]))
    assert str(caught.value) == f"device=cuda:4: torch sees no such device here: type {known}"
    assert session.visible_gpus(compose(["device=cuda"])) == [str(number) for number in range(count)]
    assert session.visible_gpus(compose([])) is None


def test_a_lock_that_another_user_made_is_opened_and_not_created(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under fs.protected_regular, Linux lets nobody create what is in /tmp already and another user's."""
    path = gpus._path("cuda", "cuda", "GPU-of-all")
    path.touch()
    opened = os.open

    def protected(file: Path, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT and Path(file) == path:
            raise PermissionError(13, "Permission denied")
        return opened(file, flags, *mode)

    monkeypatch.setattr(os, "open", protected)
    with gpus.one_trial_on("cuda", {"CUDA_VISIBLE_DEVICES": "GPU-of-all"}):
        assert path in gpus._held
    path.unlink()


def test_a_gpu_is_the_same_one_by_any_number_and_in_any_order_of_the_visible_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CUDA's number 0 is the faster GPU here, which NVML and the bus number 1."""
    fast, slow, part = "GPU-b2c4", "GPU-a1b3", "MIG-c5d7"
    gpus.learn("cuda", [fast, slow], {"CUDA_VISIBLE_DEVICES": "0,1"})

    def lock_of(device: str, visible: str) -> set[Path]:
        variables = {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
        with gpus.one_trial_on(device, variables):
            return set(gpus._held)

    of_fast = lock_of("cuda", "")
    assert [path.name for path in of_fast] == [f"attn-harness-cuda-{fast}.lock"]
    for device, visible in (("cuda:1", "1,0"), ("cuda:0", "0,1"), ("cuda:1", f"{slow},{fast}"), ("cuda", fast)):
        assert lock_of(device, visible) == of_fast, (device, visible)
    for device, visible in (("cuda", "1,0"), ("cuda:1", ""), ("cuda", slow), ("cuda", part)):
        assert lock_of(device, visible) != of_fast, (device, visible)
    gpus.learn("cuda", [fast], {"CUDA_VISIBLE_DEVICES": "GPU-b2"})  # CUDA takes the beginning of a UUID
    assert lock_of("cuda", "GPU-b2") == of_fast
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert gpus.entries("cuda", 2) == [slow, fast]


# Appends `+` when a trial begins and `-` when it ends to the file of its GPU: as many as run at once are seen.
TRIALS = """
import sys, time
from pathlib import Path
from harness.core.model import gpus
for device in sys.argv[2:]:
    with gpus.one_trial_on(device):
        with Path(sys.argv[1], device).open("a") as file:
            file.write("+"); file.flush(); time.sleep(0.02); file.write("-")
"""


def started(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, *arguments], env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_never_two_trials_run_on_one_gpu_and_two_gpus_work_at_once(tmp_path: Path) -> None:
    patience = "gpus._LOOK_EVERY_S = 0.005\nfor device in"
    script = TRIALS.replace("for device in", patience)
    orders = (["cuda"] * 4, ["cuda:1"] * 4, ["cuda:0", "cuda:1"] * 2)
    (tmp_path / "seen").mkdir()
    # `cuda` and `cuda:0` are one GPU, which the trials name in two ways.
    running = [
        started(
            script.replace("device).open", "device.replace('cuda:0', 'cuda')).open"), str(tmp_path / "seen"), *order
        )
        for order in orders
    ]
    assert [one.wait(timeout=60) for one in running] == [0, 0, 0]
    assert (tmp_path / "seen" / "cuda").read_text() == "+-" * 6
    assert (tmp_path / "seen" / "cuda:1").read_text() == "+-" * 6


SHARD = """
import sys
from harness.core.model import gpus
gpus.time.sleep = lambda seconds: sys.exit("none is free")
print(gpus.take_free_gpu("cuda", ["4", "7"]), flush=True)
sys.stdin.read()
"""


def test_each_shard_gets_a_gpu_of_its_own_until_it_ends(tmp_path: Path) -> None:
    def shard() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", SHARD],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=-1,
            stdout=-1,
            stderr=-1,
            text=True,
        )

    first, second = shard(), None
    try:
        assert first.stdout.readline() == "0\n"
        second = shard()
        assert second.stdout.readline() == "1\n"
        third = shard()
        assert (third.communicate(timeout=60)[1], third.returncode) == ("none is free\n", 1)
        first.communicate()
        fourth = shard()
        assert fourth.communicate(timeout=60)[0] == "0\n"
    finally:
        for one in (first, second):
            if one is not None and one.poll() is None:
                one.communicate()


def test_an_executor_has_the_gpu_to_itself_while_a_trial_runs_and_not_between_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[int] = []

    def run(*_: Any) -> TrialOutcome:
        held.append(len(gpus._held))
        return TrialOutcome("ok")

    executor = Executor(seed=0, trial_s=0.01, timeout_s=1)
    monkeypatch.setattr(Executor, "_warm_server", lambda self, which: SimpleNamespace(run=run))
    for device in ("cuda:1", "cpu", "cuda:1"):
        executor.run("probe", Case("rnn.elman", 8, 8, 1, device=device))
    asked_which_gpus_there_are = 0
    assert held == [asked_which_gpus_there_are, 1, 0, 1]
    assert not gpus._held


@pytest.mark.parametrize(("answers", "known"), [(["killed", "killed"], False), (["killed", "ok"], True)])
def test_a_machine_trial_that_fails_tells_of_no_gpu(
    monkeypatch: pytest.MonkeyPatch, answers: list[str], known: bool
) -> None:
    seen = {"devices": {"cuda": {"uuids": ["GPU-1"]}}}

    def run(*_: Any) -> TrialOutcome:
        status = answers.pop(0)
        return TrialOutcome(status, values=seen if status == "ok" else {})

    monkeypatch.setattr(Executor, "_warm_server", lambda self, which: SimpleNamespace(run=run))
    Executor(seed=0, trial_s=0.01, timeout_s=1).ask("machine")
    assert answers == []
    assert gpus.is_learned("cuda") is known


def test_both_ways_to_measure_keep_gpus_initialised_and_have_theirs_to_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[str] = []
    held: list[int] = []

    class Turns:
        def __init__(self, server: Any, request: Any, limit_s: float, release: Any) -> None:
            held.append(len(gpus._held))
            self.release = release

    monkeypatch.setattr("harness.core.run.executor.keep_gpus_initialised", lambda: kept.append("kept"))
    answer = SimpleNamespace(run=lambda *_: TrialOutcome("ok"))
    monkeypatch.setattr(Executor, "_warm_server", lambda self, which: answer)
    executor = Executor(seed=0, trial_s=0.01, timeout_s=1)
    case = Case("rnn.elman", 8, 8, 1, device="cuda")
    executor.begin("time", replace(case, device="cpu"), {}, Turns).release()
    assert (kept, held) == ([], [0])
    executor.begin("time", case, {}, Turns).release()
    assert (kept, held) == (["kept"], [0, 1])
    executor.run("probe", case)
    assert kept == ["kept", "kept"]
    assert not gpus._held
