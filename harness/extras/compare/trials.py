"""The trials of `compare` and `explain`: interleaved samples, and one traced call.

A traced call tells what each operation does, the tensors alive at the peak, and a profiler's shares of the time.
Operations and tensors are exact. They come from one observed call without a profiler. Another call runs under torch's
profiler, which slows it down unevenly: its shares are estimates.
"""

import gzip
import os
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

import torch

from harness.core.model.sweep_axes import Case, device_kind
from harness.core.trial import compilation, layer_protocol
from harness.core.trial.call_memory import allocator_peak
from harness.core.trial.counts.after_call import told
from harness.core.trial.counts.collect import hidden_part, observe_call
from harness.core.trial.counts.flops import Flops
from harness.core.trial.counts.operations import Operation, Storages, UntrackedWrites, tensors_of
from harness.core.trial.sandbox import Answer
from harness.core.trial.timing.timed_trial import take_turns
from harness.core.trial.workload import Unsupported, Workload, build


class LiveStorages(Storages):
    """Storages of an observed call, and when each was created and freed."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, tuple[str, str, str]] = {}
        self._size = Counter[int]()
        self._changes: list[tuple[int, int]] = []

    def add(self, operation: Operation) -> None:
        """Record the storages that the operation creates or enlarges."""
        for tensor in tensors_of(operation.out):
            number = self.key(tensor)
            if number in operation.fresh:
                shape = "×".join(map(str, tensor.shape)) or "scalar"
                dtype = str(tensor.dtype).removeprefix("torch.")
                self._made.setdefault(number, (operation.traits.name, shape, dtype))
        for number in (operation.fresh | operation.written) & self._made.keys():
            self._resize(number, self.nbytes[number])

    def _resize(self, number: int, size: int) -> None:
        if size != self._size[number]:
            self._changes.append((number, size - self._size[number]))
            self._size[number] = size

    def _forget(self, address: int, number: int, _: object) -> None:
        super()._forget(address, number, _)
        self._resize(number, 0)

    def at_peak(self) -> list[list[Any]]:
        """Return the tensors alive at the first peak, in groups of equal ones, the largest group first.

        A group has the operation that created its tensors, their shape and dtype, their number, and their bytes.
        """
        sums = list(accumulate(change for _, change in self._changes))
        alive = Counter[int]()
        for number, change in self._changes[: sums.index(max(sums)) + 1] if sums else ():
            alive[number] += change
        sizes: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        for number, size in alive.items():
            if size:
                sizes[self._made[number]].append(size)
        rows = [[*group, len(of_group), sum(of_group)] for group, of_group in sizes.items()]
        return sorted(rows, key=lambda row: (-row[-1], row))


@dataclass
class _Total:
    calls: int = 0
    flops: int | None = 0
    nbytes: int = 0
    places: Counter[str] = field(default_factory=Counter)


class OperationTotals:
    """Calls, FLOPs and bytes of each operation, by its name, and the lines of the layer that called it.

    FLOPs are None for an operation without a formula.
    """

    def __init__(self, storages: Storages, flops: Flops) -> None:
        self._storages, self._flops = storages, flops
        self._totals: dict[str, _Total] = defaultdict(_Total)

    def add(self, operation: Operation) -> None:
        """Count one operation."""
        total = self._totals[operation.traits.name]
        work = self._flops.add(operation)
        total.calls += 1
        total.flops = None if work is None or total.flops is None else total.flops + work.flops
        total.nbytes += self._moved(operation)
        total.places[_place()] += 1

    def rows(self) -> list[list[Any]]:
        """Return name, calls, FLOPs, bytes and the calls at each place, of each operation in the order of names."""
        return [
            [name, total.calls, total.flops, total.nbytes, sorted(map(list, total.places.items()))]
            for name, total in sorted(self._totals.items())
        ]

    def _moved(self, operation: Operation) -> int:
        """Return the bytes that the operation reads and writes: those of a slice, not of the whole storage."""
        moved: dict[tuple[Any, ...], int] = {}
        if not operation.results:  # a view, or a look at shapes
            return 0
        for is_written, tensors in enumerate((operation.inputs, operation.results)):
            for tensor in tensors:
                number = self._storages.key(tensor)
                part = (is_written, number, tensor.storage_offset(), tensor.shape, tensor.stride())
                # An expanded tensor repeats its storage.
                moved[part] = min(tensor.nbytes, self._storages.nbytes[number])
        return sum(moved.values())


def _place() -> str:
    """Return the layer's innermost line that is running, as `file.py:12`; `backward` if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if layer_protocol.is_of_a_layer(frame.f_code.co_filename):
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return "backward"


def observed_operations(work: Workload, unknown: list[str], ran: Iterable[str]) -> dict[str, Any]:
    """Return `operations`, and `tensors` at the peak. No profiler runs.

    `unknown` gets reasons why a count is missing. `ran` is as for `Flops`.
    """
    storages = LiveStorages()
    flops = Flops(getattr(type(work.layer), "kernels", None), ran)
    totals, written = OperationTotals(storages, flops), UntrackedWrites(storages)
    seen = observe_call(work, storages, (totals.add, written.add, storages.add))
    unknown += [f"FLOPs of {name}: it has no formula; the layer's `kernels` may give one" for name in flops.unknown]
    if compilation.graphs() > 0:
        unknown.append("operations: the layer is compiled, and runs uncompiled while its operations are observed")
    elif hidden := hidden_part(flops, written.past_torch(seen.known, seen.outputs)):
        unknown.append(f"operations: {hidden}")
    return {"operations": totals.rows(), "tensors": storages.at_peak()}


# Calls to profile: a single one may be disturbed. One long call is enough.
_MOST_PROFILED, _ENOUGH_S = 3, 1.0
# Devices whose kernels torch's profiler records.
PROFILED = ("cuda", "xpu")


def profiled_shares(work: Workload, device: str, chrome: Path) -> list[list[Any]]:
    """Profile up to three calls, and write a Chrome trace of the fastest to `chrome`, compressed.

    Return each operation's share of that call's self time: the time of the CPU's operations, or of the GPU's kernels.
    """
    best_s, used_s = float("inf"), 0.0
    for _ in range(_MOST_PROFILED):
        work.forget()
        began = perf_counter()
        with torch.autograd.profiler.profile(use_device=device if device in PROFILED else None) as recorded:
            called = perf_counter()
            kept = work.call()  # noqa: F841  # freeing it is not a part of the call
            work.sync()
            took_s = perf_counter() - called
        used_s += perf_counter() - began
        if took_s < best_s:
            best_s, best = took_s, recorded
        if used_s > _ENOUGH_S:
            break
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch, "trace.json")
        best.export_chrome_trace(str(plain))
        with plain.open("rb") as source, gzip.open(chrome, "wb", compresslevel=6) as packed:
            shutil.copyfileobj(source, packed)
    column = "self_device_time_total" if device in PROFILED else "self_cpu_time_total"
    times = {event.key: getattr(event, column) for event in best.key_averages()}
    total = sum(times.values())
    shares = [[name, round(time / total, 6)] for name, time in times.items() if total]
    return sorted([row for row in shares if row[1]], key=lambda row: (-row[1], row[0]))


def trace_trial(case: Case, seed: int, chrome: str) -> Answer:
    """Return what one call of the case does, operation by operation. Write a Chrome trace of another to `chrome`.

    | key | meaning |
    | --- | --- |
    | `operations` | name, calls, FLOPs (None if unknown), bytes read and written, and places, of each operation |
    | `tensors` | operation, shape, dtype, number and bytes of the tensors alive at the peak |
    | `shares` | name and share of the time of each operation: estimates from one profiled call |
    | `unknown` | one line for each reason why an exact part is missing or incomplete |
    """
    work = build(case, seed)
    work.call()  # the first call loads pools, caches and code
    work.sync()
    work.forget()
    ran = allocator_peak(work.call, device_kind(case.device), work.forget).operations
    unknown: list[str] = []
    exact = told(lambda: observed_operations(work, unknown, ran), "operations", unknown)
    work.forget()
    shares = profiled_shares(work, device_kind(case.device), Path(chrome))
    return {**(exact or {"operations": [], "tensors": []}), "unknown": unknown, "shares": shares}


def turns_trial(case: Case, *arguments: Any) -> Answer:
    """Take interleaved samples. Raises Unsupported where every launch waits, as a timed trial's device does."""
    if case.device == "cuda" and os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        raise Unsupported("CUDA_LAUNCH_BLOCKING makes every launch wait for the GPU: 'unset CUDA_LAUNCH_BLOCKING'")
    return take_turns(case, *arguments)
