"""The rules for layers that compile, tested without compiling any."""

from pathlib import Path

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import CompilePolicy
from harness.core.run.outcome import TrialOutcome
from impls.registry import IMPLS
from impls.registry_entry import Impl

PLAIN = Case("attention.fused", 32, 16, 2)
OURS = Case("attention.made_for_this_test", 32, 16, 2)
THEIRS = Case("their.module:Layer", 32, 16, 2)


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CompilePolicy:
    monkeypatch.setitem(IMPLS, OURS.impl, Impl(OURS.impl, "a:A", "a:R", "", compiled=True))
    return CompilePolicy(timeout_s=60, compile_timeout_s=900, cache=tmp_path / "cache")


def test_ours_are_known_by_the_registry(compiling: CompilePolicy) -> None:
    assert compiling.is_due("verify", OURS)
    assert not compiling.is_due("verify", PLAIN)


def test_somebodys_own_is_known_once_a_trial_has_shown_it(compiling: CompilePolicy) -> None:
    assert not compiling.is_due("facts", THEIRS)
    compiling.learn("verify", THEIRS, TrialOutcome("ok", values={"compiled": False}))
    assert not compiling.is_due("facts", THEIRS)
    compiling.learn("verify", THEIRS, TrialOutcome("ok", values={"compiled": True}))
    assert compiling.is_due("facts", THEIRS)


@pytest.mark.parametrize("purpose", ["describe", "probe", "machine"])
def test_what_builds_no_layer_compiles_nothing(compiling: CompilePolicy, purpose: str) -> None:
    assert not compiling.is_due(purpose, OURS)
    assert compiling.limit_s(purpose, OURS) == 60


def test_compiling_has_a_limit_of_its_own_and_a_timed_trial_what_compiling_twice_more_would_take(
    compiling: CompilePolicy,
) -> None:
    assert compiling.limit_s("time", PLAIN) == compiling.limit_s("verify", PLAIN) == 60
    assert [compiling.limit_s(purpose, OURS) for purpose in ("verify", "compile", "facts")] == [900] * 3
    assert compiling.limit_s("time", OURS) == 60
    compiling.learn("compile", OURS, TrialOutcome("ok", values={"compile_s": 17.0}))
    assert compiling.limit_s("time", OURS) == 94


def test_all_trials_of_a_case_share_a_directory_but_its_verification_which_would_warm_it(
    compiling: CompilePolicy,
) -> None:
    shared = {compiling.directory(purpose, OURS) for purpose in ("compile", "facts", "time")}
    others = {compiling.directory("verify", OURS), compiling.directory("time", PLAIN)}
    assert len(shared) == 1
    assert len(shared | others) == 3


def test_no_directory_is_made_before_something_compiles(compiling: CompilePolicy, tmp_path: Path) -> None:
    assert compiling.directory("compile", OURS) is not None
    assert list(tmp_path.iterdir()) == []


def test_without_a_directory_torch_keeps_what_it_compiles_where_it_always_does() -> None:
    assert CompilePolicy(60, 900, None).directory("time", OURS) is None
