"""What a call leaves behind: work in threads of its own, work that goes on after it has returned, and memory.

The time of such a call is too short, and torch's counts are of the calling thread alone.

Create `OtherThreads` before the layer is built. Threads that appear later are the layer's. Those of OpenMP exist
before: after their last work they spin for a moment, which is no work of the layer. Linux only: elsewhere nothing is
detected.

Work is CPU time: that of the process without that of the threads that existed before. So threads that have ended count,
and so do those that wait for Python's lock while this module looks.
"""

import gc
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from time import clock_gettime, perf_counter, process_time, sleep  # bound before a layer may replace them
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy.random  # noqa: F401  # torch would import it, with an array of its own, in a first call
import torch
from numpy import ndarray
from torch import Tensor, UntypedStorage
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from harness.core.model.errors import UsageError

from ..call_memory import allocator_peak
from ..device import MemoryRange, memory_of, nodes_of, size_of, tensors_in, things_in
from ..result_checks import WrongResult
from ..sandbox import one_line
from ..workload import Call, Forward, Workload, train_call
from .opaque_kernels import PackedWeights
from .operations import Unobservable

_TASKS = Path("/proc/self/task")
# After a call, threads are watched for so many steps of a millisecond. Those that the call has started are watched for
# longer.
_STEP_S = 1e-3
_STEPS, _STEPS_OF_NEW = 20, 200
# Before the call, threads get so many times `_STEPS` to sleep: those of OpenBLAS, which import with scipy, spin at
# first. They sleep if they work for less than a share of the time.
_TIMES_TO_IDLE, _IDLE = 10, 0.02
# Less work than this is that of a thread which goes to sleep, or ends.
_LEAST_S = 0.2e-3
# Elements for each thread above torch's least number, so that all threads of the pool start.
_ELEMENTS = 2**16


class OtherThreads:
    """The threads of this process that did not exist when the object was created."""

    def __init__(self) -> None:
        # Starts the pool, without memory whose return would change how the C library treats that of the layer.
        torch.zeros(1).expand(torch.get_num_threads() * _ELEMENTS).sum()
        self._own = dict.fromkeys(_threads(), 0.0)  # the CPU time of each

    def running_after(self, call: Call) -> float:
        """Call, and return `threads_after`: the CPU time of other threads after the call, the larger of two shares.

        One is that of the time for which they are watched. The other is that of the call's time, without work at the
        rate at which they worked before the call, and 0 for less than `_LEAST_S`. Raises WrongResult if a result of
        the call still changes. Without other threads, this takes no time but the call's.
        """
        before, idle = self._wait_until_idle()
        began = perf_counter()
        results = call()
        returned, worked_s = perf_counter(), self._cpu_s()
        new = _threads() - self._own.keys() - before
        if not before | new:
            return 0.0
        tensors = list(tensors_in(results))
        early = [tensor.detach().clone() for tensor in tensors]
        for step in range(_STEPS_OF_NEW):
            if step >= _STEPS and not new & _threads():
                break
            sleep(_STEP_S)
        worked_s, watched_s = self._cpu_s() - worked_s, perf_counter() - returned
        pairs = zip(early, tensors, strict=True)
        if not all(torch.equal(copy.nan_to_num(), late.detach().nan_to_num()) for copy, late in pairs):
            raise WrongResult("its output changes after the call has returned: a thread of its own computes it")
        caused_s = worked_s - idle * watched_s
        return max(0.0, worked_s / watched_s, caused_s / (returned - began) if caused_s > _LEAST_S else 0.0)

    def work_during(self, call: Call) -> tuple[Any, bool]:
        """Call, and return the result and whether other threads worked meanwhile."""
        _, idle = self._wait_until_idle()
        began, worked_s = perf_counter(), self._cpu_s()  # the calling thread's time since its clock was read is in it …
        result = call()
        process_s = process_time()
        self._cpu_s()  # … and here it is not, so that this thread's work never counts
        worked_s = process_s - sum(self._own.values()) - worked_s
        return result, worked_s > 2 * idle * (perf_counter() - began)

    def _wait_until_idle(self) -> tuple[set[str], float]:
        """Return the other threads, and the share of the time for which they still work."""
        threads, idle = _threads() - self._own.keys(), 0.0
        for _ in range(_TIMES_TO_IDLE if threads else 0):
            at, worked_s = perf_counter(), self._cpu_s()
            sleep(_STEPS * _STEP_S)
            idle = (self._cpu_s() - worked_s) / (perf_counter() - at)
            if idle < _IDLE:
                break
        return threads, idle

    def _cpu_s(self) -> float:
        """The CPU time of the other threads. The kernel's clock of a thread is known by its number (clock_gettime).

        One of `_own` may end, as when the layer lowers the number of threads. Its last reading then counts.
        """
        for thread in self._own:
            with suppress(OSError):
                self._own[thread] = clock_gettime(~int(thread) << 3 | 6)
        return process_time() - sum(self._own.values())


def _threads() -> set[str]:
    return set(os.listdir(_TASKS)) if _TASKS.is_dir() else set()


class Reachable(NamedTuple):
    """The bytes of what Python can reach, and the number of parts of graphs and objects whose size is not told."""

    size: int
    untold: int


# What has memory itself, or tensors that have no Python object.
_HOLDERS = torch.jit.ScriptModule, torch._C.ScriptList, torch._C.ScriptDict, torch.ScriptObject, ndarray, UntypedStorage


def reachable() -> Reachable:
    """Measure what Python can reach: tensors, storages, numpy arrays, and what graphs and scripts keep."""
    gc.collect()
    objects = _reachable()
    # Tensors of classes that dispatch their operations themselves may have no memory of their own.
    plain = Tensor.__torch_dispatch__
    tensors = [thing for thing in objects if getattr(type(thing), "__torch_dispatch__", None) is plain]
    tensors += [t.grad for t in tensors if (t.is_leaf or t.retains_grad) and t.grad is not None]
    holders = [thing for thing in objects if issubclass(type(thing), _HOLDERS)]
    nodes = [thing for thing in objects if hasattr(type(thing), "next_functions")]
    saved = [part for part in _saved_by_graphs([*nodes, *(t.grad_fn for t in tensors)]) if part is not None]
    # As a hook has packed it: unpacking a checkpoint would compute it again.
    parts = [getattr(part, "data", None) for part in saved]
    inside = [*things_in([holders, parts])]
    packed = PackedWeights(inside).objects
    untold = sum(not hasattr(part, "data") for part in saved) + len(packed)
    return Reachable(size_of(memory_of([*tensors, *inside])), untold)


def _reachable() -> list[Any]:
    """Return what the garbage collector tracks, and the arrays, scripts and containers in it, which it does not."""
    objects = newest = gc.get_objects()
    while newest:
        held = gc.get_referents(*newest)
        newest = [thing for thing in held if type(thing) in (dict, tuple, *_HOLDERS) and not gc.is_tracked(thing)]
        objects = [*objects, *newest]
    return objects


def _arrays(objects: Iterable[Any]) -> list[Any]:
    """Return the numpy arrays among objects, and what they are views of, which the collector does not see."""
    arrays = [thing for thing in objects if issubclass(type(thing), ndarray)]
    return arrays + [array.base for array in arrays]


def _saved_by_graphs(ends: Iterable[Any]) -> list[Any]:
    """Return what the graphs of these nodes keep. Most of it has no Python object until somebody asks."""
    saved = []
    for node in nodes_of(ends):
        for name in dir(node):
            with suppress(RuntimeError):  # a Function whose backward pass has freed them
                saved += tree_leaves(getattr(node, name)) if name.startswith("_raw_saved_") else []
    return saved


def memory_of_layer(work: Workload) -> tuple[set[MemoryRange], set[MemoryRange]]:
    """Return the memory of parameters and buffers, and of other tensors and arrays of the layer and its classes."""
    registered = [*work.layer.parameters(), *work.layer.buffers()]
    others = memory_of(things_in(work.layer, ModuleType)) - memory_of([*registered, *work.inputs, *work.constants])
    return memory_of(registered), others


# A list that the first calls fill, such as a ring of the last results, is full after this many more. A layer that keeps
# memory at every eighth call, or more often, has then done so, and does so again in as many more calls.
FILLING_CALLS = 8
_FILLING_S = 2.0  # calls that keep nothing are watched no longer


def kept_by_further_calls(work: Workload, first: Reachable) -> tuple[int, bool, Reachable]:
    """Return the bytes that each of eight calls keeps on average, whether they keep unlike amounts, and `first`.

    The last is what was reachable after the first call, here with memory that a later call makes once and that stays.
    `untold` is that of the last call. Raises Unobservable if eight calls that keep nothing take too long.
    """
    ends = perf_counter() + _FILLING_S
    for _ in range(FILLING_CALLS):
        if perf_counter() > ends and reachable() <= first:
            raise Unobservable(f"{FILLING_CALLS} calls take too long to be watched")
        work.call()
        work.forget()
    readings = [reachable()]
    while readings[0] > first and len(readings) <= FILLING_CALLS:
        work.call()
        work.forget()
        readings.append(reachable())
    kept = readings[-1].size - readings[0].size
    if kept <= 0:
        return 0, False, readings[-1]
    amounts = {after.size - before.size for before, after in pairwise(readings)}
    return kept // FILLING_CALLS, len(amounts) > 1, first._replace(untold=readings[-1].untold)


# Parts of what a hook returns. Without a tensor among them, a number may stand for one that is kept elsewhere.
_BESIDE_TENSORS = (Tensor, int, float, torch.dtype, torch.device, type(None))


def saved_bytes(forward: Forward, gradient: Tensor, device: str, forget: Callable[[], None]) -> int:
    """Return the bytes that the graph of a forward pass keeps until its backward pass, on a kind of device.

    So they include what a `torch.autograd.Function` or a hook keeps as its own attribute, and the output only if it is
    saved. `forget` frees the gradients of the leaves.

    Raises Unobservable if a hook of the layer saves anything but tensors, such as a file's name: what it stands for may
    be kept elsewhere. It also does if calls keep unlike amounts of memory.
    """
    graph = []
    replaced = set[type]()

    def note(saved: Any) -> Any:
        parts = tree_leaves(saved)
        replaced.update(type(part) for part in parts if not isinstance(part, _BESIDE_TENSORS))
        if not any(isinstance(part, Tensor) for part in parts):
            replaced.add(type(saved))
        return saved

    autograd = torch._C._autograd  # calls to save hooks go through it, whatever wraps them
    push = autograd._push_saved_tensors_default_hooks

    def push_noting(pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        push(lambda tensor: note(pack(tensor)), unpack)

    with patch.object(autograd, "_push_saved_tensors_default_hooks", push_noting):
        with_graph = []
        train = train_call(forward, [], gradient)
        arrays = {size_of(memory_of(_arrays(_reachable())))}
        for _ in range(3):  # the first one may free memory of a call that the profiler has not seen
            allocator_peak(train, device, forget)  # the layer may keep a graph, which then holds nothing that is saved
            with_graph.append(allocator_peak(lambda: graph.append(forward().grad_fn), device).kept_bytes)
            arrays.add(size_of(memory_of(_arrays(_reachable()))))
            graph.clear()
        # Only a backward pass frees what a hook saves as it is, and it may itself keep memory.
        afterwards = {allocator_peak(train, device, forget).kept_bytes for _ in range(2)}
        left = afterwards | {allocator_peak(forward, device).kept_bytes}
        earlier, later = (_kept_of_saved(forward, gradient, forget) for _ in range(2))
    # A checkpoint's placeholder stands for nothing: it computes what was saved again.
    names = sorted(kind.__name__ for kind in replaced if kind.__module__ != "torch.utils.checkpoint")
    if names:
        raise Unobservable(f"its hooks save {', '.join(names)} in place of tensors")
    if len(arrays) > 1:
        raise Unobservable("its graph keeps arrays of numpy")
    if len({*with_graph[1:]}) + len(afterwards) > 2 or (len(left) > 1 and min(left) > 0):
        raise Unobservable("its calls keep unlike amounts of memory")
    # What the last call has made, its graph saved and its layer keeps was not freed with the graph.
    return with_graph[2] - min(left) + size_of(_alive(later) - _alive(earlier))


_Kept = list[tuple[set[MemoryRange], StorageWeakRef]]


def _alive(kept: _Kept) -> set[MemoryRange]:
    return set().union(*(memory for memory, storage in kept if not storage.expired()))


def _kept_of_saved(forward: Forward, gradient: Tensor, forget: Callable[[], None]) -> _Kept:
    """Return the memory of dense tensors that a forward pass saves and its backward pass may free, with what tells."""
    y = forward()
    parts = [getattr(part, "data", None) for part in _saved_by_graphs([y.grad_fn])]
    dense = (tensor for tensor in tensors_in(parts) if tensor.layout == torch.strided)
    kept = [(memory_of([tensor]), StorageWeakRef(tensor.untyped_storage())) for tensor in dense]
    y.backward(gradient)
    del y, parts
    forget()
    gc.collect()
    return kept


def told(take: Call, what: str, unknown: list[str]) -> Any:
    """Return `take()`, or None if the layer fails under observation; `unknown` then gets one more line."""
    try:
        return take()
    except (UsageError, MemoryError):
        raise
    except Unobservable as error:
        reason = str(error)
    except torch.OutOfMemoryError:
        # Of a GPU. A layer runs uncompiled under observation, and may then need far more memory than its calls.
        torch.cuda.empty_cache()
        reason = "out of memory while the layer was watched, where it runs uncompiled"
    except Exception as error:
        # The layer has run before, so only its observation fails. All other facts remain valid.
        reason = f"the layer does not run under watch: {type(error).__name__}: {one_line(error)}"
    unknown.append(f"{what}: {reason}")
    return None
