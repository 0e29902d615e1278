"""What a GPU and its libraries say when they cannot go on, as a status."""

import pytest

from harness.core.trial import sandbox, trial_kinds
from harness.core.trial.trial_kinds import outcome_of_exception

# As Triton words it.
TOO_LARGE = (
    "out of resource: shared memory, Required: 163840, Hardware limit: 101376. "
    "Reducing block sizes or `num_stages` may help."
)


class OutOfResources(Exception):
    """Triton's, which is no RuntimeError."""


class InductorError(RuntimeError):
    """That of torch's compiler around it."""


InductorError.__module__ = "torch._inductor.exc"


@pytest.mark.parametrize(
    "said",
    [
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 14.75 GiB",
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "Triton Error [CUDA]: out of memory",
    ],
)
def test_every_library_of_a_gpu_runs_out_of_memory_in_words_of_its_own(said: str) -> None:
    assert outcome_of_exception(RuntimeError(said)) == {"status": "oom", "reason": said}


@pytest.mark.parametrize(
    "error",
    [
        OutOfResources(TOO_LARGE),
        RuntimeError(f"No valid triton configs. OutOfResources: {TOO_LARGE}"),
        InductorError(f"RuntimeError: No valid triton configs. OutOfMemoryError: {TOO_LARGE}"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_kernel_too_large_for_the_gpu_is_unsupported_and_no_lack_of_memory(error: Exception) -> None:
    outcome = outcome_of_exception(error)
    assert outcome["status"] == "unsupported"
    assert TOO_LARGE in outcome["reason"]


@pytest.mark.parametrize(
    "said",
    [
        "No available kernel. Aborting execution.",
        "\"logcumsumexp_cuda\" not implemented for 'Half'",
        "Could not run 'aten::_flash_attention_forward' with arguments from the 'CPU' backend.",
    ],
)
def test_a_kernel_that_is_not_there_is_unsupported(said: str) -> None:
    assert outcome_of_exception(RuntimeError(said)) == {"status": "unsupported", "reason": said}


def test_an_illegal_access_is_an_error() -> None:
    assert (
        outcome_of_exception(RuntimeError("CUDA error: an illegal memory access was encountered"))["status"] == "error"
    )


@pytest.mark.parametrize(("purpose", "limit"), [("machine", None), ("probe", 2**20)])
def test_what_asks_for_a_gpu_has_room_for_a_cuda_context(
    monkeypatch: pytest.MonkeyPatch, purpose: str, limit: int | None
) -> None:
    limits: list[int | None] = []
    monkeypatch.setattr(sandbox, "enter_sandbox", lambda limit, temporary: limits.append(limit))
    monkeypatch.setattr(trial_kinds, "_measure", lambda request: {})
    trial_kinds.run_trial({"purpose": purpose, "memory_limit": 2**20})
    assert limits == [limit]
