"""What goes wrong in compiling is a status and one line, not a number."""

import os
import tempfile
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed, FailOnRecompileLimitHit, Unsupported
from torch._inductor.exc import InvalidCxxCompiler

from harness.core.trial.compilation import CompiledAgain, NotCompiled
from harness.core.trial.trial_kinds import outcome_of_exception


def of_backend(inner: Exception) -> Exception:
    """As the compiler wraps it; its constructor differs from version to version."""
    error = BackendCompilerFailed.__new__(BackendCompilerFailed)
    RuntimeError.__init__(error, f"backend='inductor' raised:\n{type(inner).__name__}: {inner}\n\nSet TORCH_LOGS …")
    error.inner_exception = inner
    return error


def test_a_temporary_directory_without_programs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    error = of_backend(AssertionError("target: flex_attention"))
    assert "noexec" not in outcome_of_exception(error)["reason"]
    monkeypatch.setattr(tempfile, "tempdir", "/mine")
    monkeypatch.setattr(os, "statvfs", lambda place: SimpleNamespace(f_flag=os.ST_NOEXEC if place == "/mine" else 0))
    reason = outcome_of_exception(error)["reason"]
    assert reason.endswith(". /mine is mounted noexec: set TMPDIR to a directory that can hold programs")


def test_a_missing_compiler_is_unsupported_and_says_what_to_install() -> None:
    outcome = outcome_of_exception(of_backend(InvalidCxxCompiler()))
    assert outcome["status"] == "unsupported"
    assert "install g++" in outcome["reason"]


@pytest.mark.parametrize(
    "error",
    [
        NotCompiled("its calls made no compiled graph"),
        FailOnRecompileLimitHit("recompile limit reached"),
        Unsupported("Call to graph_break()\n\n  Explanation: a user's own.\n  Hint: remove it."),
        of_backend(ValueError("something else")),
    ],
)
def test_what_would_run_uncompiled_is_an_error_in_one_line(error: Exception) -> None:
    outcome = outcome_of_exception(error)
    assert outcome["status"] == "error"
    assert outcome["reason"].startswith("it was not compiled: ")
    assert "\n" not in outcome["reason"]
    assert "Hint" not in outcome["reason"]


def test_what_the_compiler_has_not_implemented_is_unsupported_in_its_own_words() -> None:
    outcome = outcome_of_exception(
        of_backend(RuntimeError("LoweringException: NotImplementedError: no float64 here\n  target: f"))
    )
    assert (outcome["status"], outcome["reason"]) == ("unsupported", "no float64 here")


@pytest.mark.parametrize("inner", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_memory_that_runs_out_while_compiling_is_oom(inner: Exception) -> None:
    assert outcome_of_exception(of_backend(inner))["status"] == "oom"


def test_a_layer_that_compiles_while_it_is_timed_has_no_time() -> None:
    outcome = outcome_of_exception(CompiledAgain("it was compiled again while it was timed, 3 times"))
    assert (outcome["status"], outcome["reason"]) == ("error", "it was compiled again while it was timed, 3 times")


def test_other_failures_are_told_as_before() -> None:
    assert outcome_of_exception(ValueError("no"))["reason"].startswith("ValueError: no")
