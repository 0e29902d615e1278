"""The memory of one call: what torch's allocator hands out, and what the operating system sees of it."""

import ctypes
import gc
import os
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch

from harness.core.model.sweep_axes import MAPPED_FROM_BYTES

from . import device_kinds, sandbox

# How much may be resident beside torch's blocks before memory outside torch is suspected. Small blocks stay on the heap
# when freed: the project's layers reached 1.84 times a traced peak above 10 MiB, and 17 MiB more than the traced peak.
# oneDNN, BLAS and OpenMP keep packed operands and stacks for each thread. Autograd keeps up to 400 bytes per operation.
_TIMES_TRACED = 2
_SCRATCH_BYTES = 16 * 2**20
_SCRATCH_BYTES_PER_THREAD = 2 * 2**20
_BYTES_PER_OPERATION = 2**10


class Allocated(NamedTuple):
    """What torch's allocator has handed out in one call, exact to the byte.

    `peak` is the most at a time. `operations` are the names of the operations that ran, in order: they show which
    kernel was chosen. `blocks` has the number of blocks of each size in bytes, None on a GPU. `kept_bytes` have not
    come back once the call's results and gradients are freed.
    """

    peak: int
    operations: list[str]
    blocks: Counter[int] | None
    kept_bytes: int


def allocator_peak(call: Callable[[], Any], device: str, forget: Callable[[], None] = lambda: None) -> Allocated:
    """Call once, and return what torch's allocator has handed out. `forget` frees the gradients.

    On a CPU, memory that is freed counts if it was handed out under the profiler, by this call or an earlier one.
    """
    kind = device_kinds.DEVICES[device]
    gc.collect()
    with torch.autograd.profiler.profile(profile_memory=True) as recorded:
        before = kind.start_peak()
        result = call()  # it must be alive when the peak is taken
        peak = kind.requested_bytes("peak") - before
        del result
        forget()
        gc.collect()
    events = sorted(recorded.kineto_results.events(), key=lambda event: event.start_ns())
    names = []
    ends = dict[str, int]()
    for event in events:
        name = event.name()
        if event.start_ns() >= ends.get(name, 0):  # `add_` of a number calls itself with a tensor
            names.append(name)
            ends[name] = event.end_ns()
    if device != "cpu":
        return Allocated(peak, names, None, max(0, kind.requested_bytes() - before))
    sizes = [event.nbytes() for event in events if event.name() == "[memory]"]
    return Allocated(peak_of_changes(sizes), names, Counter(size for size in sizes if size > 0), max(0, sum(sizes)))


def peak_of_changes(changes: Iterable[int]) -> int:
    """Return the highest running sum of allocations (+) and frees (−), in bytes."""
    return max(accumulate(changes, initial=0))


def leave_out_workspaces(version: str) -> None:
    """Keep cuBLASLt from taking a workspace of 1 MiB out of torch's allocator at each call of a linear layer.

    It would be the peak of every small case. Call this before the first product. Since torch 2.8 the workspace is made
    once, before the call whose peak is taken.
    """
    if tuple(map(int, version.split(".")[:2])) < (2, 8):
        os.environ.setdefault("CUBLASLT_WORKSPACE_SIZE", "0")


def mapped_bytes(blocks: Counter[int], allocator: str) -> int:
    """Return the bytes of a call's blocks that the C library maps anew at every call. Each of their pages faults.

    With the allocator `default`, these are blocks of 32 MiB and more. With `fresh`, they are blocks of 128 KiB and
    more, and with `steady` none. Blocks below this size may cause page faults too: that depends on the heap.
    """
    least = MAPPED_FROM_BYTES[allocator]
    return sum(size * number for size, number in blocks.items() if least is not None and size >= least)


def resident_peak(call: Callable[[], Any]) -> int | None:
    """Return the peak of the process's resident memory during `call`, above what was resident before.

    It is what the operating system saw the process touch, page by page. It includes buffers that libraries allocate for
    themselves, and the allocator's habits.

    Return None if the operating system does not report it. The call must have run before, so that thread pools and code
    pages are not charged to it.
    """
    gc.collect()
    try:
        # Reuse of freed memory that the C library kept would be invisible, so return this memory first.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, see proc(5)
        before, _ = sandbox.status_bytes("VmRSS"), sandbox.status_bytes("VmHWM")
    except (OSError, LookupError, AttributeError):  # not Linux, not glibc, or a sandbox that hides it
        return None
    kept = call()  # noqa: F841  # as above
    return max(0, sandbox.status_bytes("VmHWM") - before)


def exceeds_traced(resident: int | None, traced: int, threads: int, operations: int) -> bool:
    """Return whether the layer allocates outside torch: its `resident` peak is far above torch's `traced` one."""
    scratch = _SCRATCH_BYTES + threads * _SCRATCH_BYTES_PER_THREAD + operations * _BYTES_PER_OPERATION
    return resident is not None and resident > _TIMES_TRACED * traced + scratch
