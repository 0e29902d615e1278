"""`sweep --profile`: one case under a profiler, and the command that does it."""

import gzip
import json
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cli import sweep
from harness.cli.commands import main
from harness.core.model.sweep_axes import Case
from harness.core.trial import profiled_calls
from harness.core.trial.workload import Unsupported

pytestmark = pytest.mark.usefixtures("forked_servers")
ONE = ["impl=rnn.elman", "seq_len=8", "d_model=8", "threads=1"]
ON_GPU = Case("attention.fused", 1024, 512, 8, dtype="bfloat16", device="cuda")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_torchs_profiler_writes_a_chrome_trace_of_three_calls_on_the_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *ONE, "--profile", "torch"]) == 0
    command, said = capsys.readouterr().out.splitlines()
    file = Path("results/profiles/rnn.elman-n=8-d=8-h=1.json.gz")
    assert said.startswith(f"{file}: three calls of rnn.elman n=8 d=8 h=1, for chrome://tracing")
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    ranges = [event for event in events if event.get("name") == "rnn.elman n=8 d=8 h=1" and event.get("ph") == "X"]
    products = [event for event in events if event.get("name") == "aten::addmm"]
    assert len(ranges) == 1
    assert len(products) % 3 == 0
    assert "rnn.elman" in shlex.split(command)[5]


def test_several_cases_are_refused_with_the_axes_that_make_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *ONE[:1], "seq_len=8,16", "d_model=8,16", "threads=1", "--profile", "torch"]) == 2
    text = "--profile takes one case, and these are 4: give one value of seq_len, d_model"
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tool", "begins", "names"),
    [
        ("ncu", "ncu --profile-from-start off --nvtx", "Nsight Compute"),
        ("nsys", "nsys profile --capture-range=cudaProfilerApi", "Nsight Systems"),
    ],
)
def test_a_profiler_that_is_missing_is_named_with_the_command_to_type_once_it_is_installed(
    tool: str, begins: str, names: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep.shutil, "which", lambda name: None)
    assert main(["sweep", *ONE, "device=cuda", "--profile", tool]) == 2
    said = capsys.readouterr().err
    assert f"{tool} is not found: install NVIDIA {names}" in said
    assert f"then type: {begins}" in said
    assert "impl=rnn.elman seq_len=8 d_model=8" in said


def test_a_profiler_of_cuda_is_refused_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *ONE, "--profile", "ncu"]) == 2
    assert "--profile ncu needs a CUDA device: add device=cuda, or use --profile torch" in capsys.readouterr().err


def test_a_command_that_fails_is_a_failed_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], check: bool) -> Any:
        ran.append(command)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(sweep.subprocess, "run", run)
    assert main(["sweep", *ONE, "--profile", "torch"]) == 3
    assert capsys.readouterr().out.strip() == shlex.join(ran[0])


def test_the_command_measures_the_same_case_again() -> None:
    options = sweep.command_of(ON_GPU, "nsys", Path("x.nsys-rep"))
    begin = options.index("harness.core.trial.profiled_calls")
    assert options[begin + 1 : begin + 3] == ["nsys", "x.nsys-rep"]
    assert profiled_calls.case_of(options[begin + 3 :]) == ON_GPU


def pretended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens when a case is profiled, in its order."""
    seen: list[str] = []

    def note(what: str) -> Any:
        return lambda *given: seen.append(" ".join([what, *given]))

    cuda = SimpleNamespace(
        profiler=SimpleNamespace(start=note("start"), stop=note("stop")),
        nvtx=SimpleNamespace(range_push=note("push"), range_pop=note("pop")),
    )
    work = SimpleNamespace(call=note("call"), sync=lambda: None, forget=lambda: None)
    monkeypatch.setattr(profiled_calls, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(profiled_calls, "build", lambda case, seed: work)
    return seen


def test_three_calls_stand_between_start_and_stop_in_a_range_named_by_the_case(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = pretended(monkeypatch)
    profiled_calls.profile_calls(ON_GPU, "ncu", tmp_path / "x")
    begin = seen.index("start")
    name = "attention.fused n=1024 h=8 d=512 bfloat16 cuda"
    assert set(seen[:begin]) == {"call"}
    assert [sorted(one.split()) for one in seen[begin + 1 : begin + 2]] == [sorted(f"push {name}".split())]
    assert seen[begin + 2 :] == ["call", "call", "call", "pop", "stop"]


def test_a_layer_that_refuses_the_case_fails_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(case: Case, seed: int) -> None:
        raise Unsupported("it needs two heads")

    monkeypatch.setattr(profiled_calls, "build", refuse)
    assert profiled_calls.main(["torch", str(tmp_path / "x"), *ON_GPU.key.split()]) == 3
    assert capsys.readouterr().err == "unsupported: it needs two heads\n"
