"""Trials of layers that really compile. Compiled code is reused, and compiling within a sample is an error."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from compilers import needs_cxx

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

pytestmark = pytest.mark.usefixtures("forked_servers")
LIMITS = {"seed": 0, "trial_s": 0.01, "timeout_s": 60, "memory_limit": 2**30}


def planted(layer: str, mode: str = "forward") -> Case:
    return Case(f"planted_compiled:{layer}", 32, 16, 1, mode=mode)


@pytest.fixture(scope="module", autouse=True)
def _vector_instructions_need_no_probing() -> Iterator[None]:
    """Skip torch's probing of vector instructions. It takes ten seconds of every first compilation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "1")
        yield


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run") / "compile-cache"


@pytest.fixture(scope="module")
def compiling(cache: Path) -> Iterator[Executor]:
    with Executor(**LIMITS, compile_cache=cache) as runner:
        yield runner


def sleepers() -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "4714"]]


@needs_cxx
def test_what_is_compiled_once_is_loaded_by_the_trials_after(compiling: Executor, cache: Path) -> None:
    case = planted("SaysSo")
    assert compiling.run("describe", case).values["compiled"]
    outcome = compiling.run("compile", case)
    assert outcome.status == "ok", outcome.reason
    assert (outcome.values["graphs"], outcome.values["graph_breaks"], outcome.values["compiled_anew"]) == (1, 0, 1)
    assert outcome.values["compile_s"] > 0
    assert list(cache.rglob("*.so"))
    outcome = compiling.run("time", case)
    assert outcome.status == "ok", outcome.reason
    assert outcome.values["compiled_anew"] == 0


@needs_cxx
def test_a_backward_pass_alone_is_gone_through_again_and_again(compiling: Executor) -> None:
    outcome = compiling.run("facts", planted("SaysSo", "backward"))
    assert outcome.status == "ok", outcome.reason


def test_a_layer_that_does_not_say_that_it_compiles_is_found_out(compiling: Executor) -> None:
    assert not compiling.run("describe", planted("CompilesInSilence")).values["compiled"]
    assert compiling.run("verify", planted("CompilesInSilence")).values["compiled"]


def test_what_compiles_while_it_is_timed_has_no_time(compiling: Executor) -> None:
    outcome = compiling.run("time", planted("SettlesForAWhile"))
    assert outcome.status == "error"
    assert "it was compiled again while it was timed" in outcome.reason


@pytest.mark.parametrize(
    ("layer", "purposes", "reason"),
    [
        ("LeavesTheGraph", ["verify"], "graph_break"),
        ("BreaksInALoop", ["verify"], "its calls made no compiled graph"),
        ("SaysSoAndDoesNot", ["verify"], "its calls made no compiled graph"),
        ("NeverSettles", ["verify", "compile"], "FailOnRecompileLimitHit"),
    ],
)
def test_what_would_run_uncompiled_is_an_error(
    compiling: Executor, layer: str, purposes: list[str], reason: str
) -> None:
    outcomes = [compiling.run(purpose, planted(layer)) for purpose in purposes]
    assert [outcome.status for outcome in outcomes] == ["ok"] * (len(purposes) - 1) + ["error"]
    assert outcomes[-1].reason.startswith("it was not compiled: ")
    assert reason in outcomes[-1].reason


def test_a_switched_off_compiler_does_not_pass_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    with Executor(**LIMITS) as runner:
        outcome = runner.run("verify", planted("CompilesInSilence"))
        assert runner.run("verify", planted("Mixes")).status == "ok"
    assert outcome.status == "error"
    assert outcome.reason == "it was not compiled: TORCHDYNAMO_DISABLE=1 switches the compiler off"


def test_without_a_cxx_compiler_a_case_is_unsupported_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    with Executor(**LIMITS, compile_cache=tmp_path) as runner:
        outcome = runner.run("verify", planted("SaysSo"))
    assert outcome.status == "unsupported"
    assert "install g++" in outcome.reason


def test_layers_that_do_not_compile_leave_no_cache(tmp_path: Path) -> None:
    with Executor(**LIMITS, compile_cache=tmp_path / "cache") as runner:
        for purpose in ("verify", "facts", "time"):
            outcome = runner.run(purpose, planted("Mixes"))
            assert (outcome.status, outcome.values.get("compiled", False)) == ("ok", False)
            assert outcome.values.get("compile_s", 0.0) == 0.0
    assert not (tmp_path / "cache").exists()


@needs_cxx
def test_compiling_has_its_own_time_and_no_compiler_goes_on_after_it(tmp_path: Path) -> None:
    with Executor(**{**LIMITS, "timeout_s": 8}, compile_timeout_s=0.1, compile_cache=tmp_path) as runner:
        outcome = runner.run("verify", planted("CompilesForEver"))
        assert (outcome.status, outcome.reason) == ("timeout", "no result after 8.1 s")
        assert runner.run("verify", planted("Mixes")).status == "ok"
    assert sleepers() == []
