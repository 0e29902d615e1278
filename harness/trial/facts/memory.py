"""Peak memory of one call, beyond what existed before it: without weights and input, but including the output.

It is measured in two ways. `allocator_peak` is what torch's allocator handed out, exact to the byte and reproducible.
`resident_peak` is what the operating system saw the process touch, page by page. It includes buffers that libraries
allocate for themselves, and the allocator's habits.
"""

import contextlib
import ctypes
import gc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import profile

from harness.trial.build import Unsupported
from harness.trial.timing.allocator import set_allocator

# Requested bytes, not the blocks that served them: block sizes depend on what the allocator had available.
_REQUESTED = "requested_bytes.all."
# How much may be resident beside torch's blocks before memory outside torch is suspected. Small blocks stay on the heap
# when freed: the project's layers reached 1.84 times a traced peak above 10 MiB, and 17 MiB more than the traced peak.
# oneDNN, BLAS and OpenMP keep packed operands and stacks for each thread. Autograd keeps up to 400 bytes per operation.
_TIMES_TRACED = 2
_SCRATCH_BYTES = 16 * 2**20
_SCRATCH_BYTES_PER_THREAD = 2 * 2**20
_BYTES_PER_OPERATION = 2**10


def allocator_peak(call: Callable[[], Any], device: str) -> tuple[int, list[str]]:
    """Return `(peak bytes, names of the operations that ran)`. The names show which kernel was chosen."""
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        baseline = torch.cuda.memory_stats()[_REQUESTED + "current"]
    with profile(profile_memory=True) as recorded:
        kept = call()  # noqa: F841  # the output must be alive when the peak is taken
    events = recorded.kineto_results.events()
    names = [event.name() for event in events]
    if device == "cuda":
        torch.cuda.synchronize()
        return torch.cuda.memory_stats()[_REQUESTED + "peak"] - baseline, names
    changes = sorted((event.start_ns(), i) for i, event in enumerate(events) if event.name() == "[memory]")
    return peak_of_changes(events[i].nbytes() for _, i in changes), names


def peak_of_changes(changes: Iterable[int]) -> int:
    """Return the highest running sum of allocations (+) and frees (−), in bytes."""
    alive = peak = 0
    for change in changes:
        alive += change
        peak = max(peak, alive)
    return peak


def resident_peak(call: Callable[[], Any]) -> int | None:
    """Return the peak of the process's resident memory during `call`, above what was resident before.

    Return None if the operating system does not report it. The call must have run before, so that thread pools and code
    pages are not charged to it.
    """
    gc.collect()
    try:
        # Reuse of freed memory that the C library kept would be invisible, so return this memory first.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, see proc(5)
        before, _ = _status("VmRSS"), _status("VmHWM")
    except (OSError, LookupError, AttributeError):  # not Linux, not glibc, or a sandbox that hides it
        return None
    kept = call()  # noqa: F841  # as above
    return max(0, _status("VmHWM") - before)


def exceeds_traced(resident: int | None, traced: int, threads: int, operations: int) -> bool:
    """Return whether the layer allocates outside torch: its `resident` peak is far above torch's `traced` one."""
    scratch = _SCRATCH_BYTES + threads * _SCRATCH_BYTES_PER_THREAD + operations * _BYTES_PER_OPERATION
    return resident is not None and resident > _TIMES_TRACED * traced + scratch


def return_freed_blocks() -> None:
    """Make glibc return each large block to the system when it is freed, from now on.

    Call it before building the layer.

    By default, freed blocks may stay on glibc's heap. The resident peak of one layer then varied from 42 to 161 MiB,
    and torch's own blocks could not be distinguished from other memory.
    """
    with contextlib.suppress(Unsupported):  # without glibc
        set_allocator("fresh")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/self/status has no {field}")
