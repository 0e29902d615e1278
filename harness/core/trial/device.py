"""Torch's devices by one interface: which are available, how to wait for them, and their memory.

`cuda` is NVIDIA's CUDA and AMD's ROCm, which torch gives the same names. `xpu` is Intel's GPUs, and `mps` Apple's. What
the sampler needs besides is in `harness.core.trial.timing.device_contract`.
"""

import ctypes
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from harness.core.model.sweep_axes import DEVICES, MAPPED_FROM_BYTES

from . import sandbox

# The kinds of devices but the CPU.
GPUS = tuple(kind for kind in DEVICES if kind != "cpu")
# The allocator's count of the bytes that were requested, not of the blocks that served them.
_REQUESTED = "requested_bytes.all."
# How much may be resident beside torch's blocks before memory outside torch is suspected. Small blocks stay on the heap
# when freed: the project's layers reached 1.84 times a traced peak above 10 MiB, and 17 MiB more than the traced peak.
# oneDNN, BLAS and OpenMP keep packed operands and stacks for each thread. Autograd keeps up to 400 bytes per operation.
_TIMES_TRACED = 2
_SCRATCH_BYTES = 16 * 2**20
_SCRATCH_BYTES_PER_THREAD = 2 * 2**20
_BYTES_PER_OPERATION = 2**10
# How to get a torch for a device. A torch without it cannot see the device.
INSTALL = {
    "cuda": "this torch is a CPU build: install a CUDA build of torch (see pytorch.org), then the harness",
    "xpu": "this torch is not built for it: 'pip install torch --index-url https://download.pytorch.org/whl/xpu'",
    "mps": "this torch is not built for it: MPS needs macOS on Apple silicon",
}


def module_of(kind: str) -> Any:
    """Torch's module of this kind of GPU, such as `torch.cuda`."""
    return getattr(torch, kind)


def _own_event(event: Any) -> Any:
    """A subclass of torch's event with the present methods, which stay if somebody replaces those of torch's."""
    methods = ("record", "query", "synchronize", "elapsed_time")
    return type("Event", (event,), {name: getattr(event, name) for name in methods})


# A layer may replace torch's for its own use. So the harness binds these here, before any layer is imported. `WAITS`
# has functions that wait until the device has done its work. On the CPU, a call returns only when it is done.
EVENTS = {kind: _own_event(module_of(kind).Event) for kind in GPUS}
WAITS = {"cpu": lambda: None, **{kind: module_of(kind).synchronize for kind in GPUS}}


def is_rocm() -> bool:
    """Whether torch's `cuda` devices are AMD's."""
    return torch.version.hip is not None


def has_started_cuda() -> bool:
    """Whether this process has started CUDA or ROCm, which do not survive a fork.

    The caller may be Triton, CuPy, or torch when it counts GPUs. NVML survives a fork, though it may open the same
    files. So CUDA's driver itself is asked, if it is loaded: until it is started, it answers no question.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    except OSError:  # not loaded
        return torch.cuda.is_initialized()
    not_initialized = 3
    return bool(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != not_initialized)


def devices() -> dict[str, dict[str, Any]]:
    """What torch sees of each kind of GPU: the number of devices and their names, and `lacking` if there are none.

    `lacking` is what to install. It is None if torch is built for the kind, so that the device or its driver is
    missing. `uuids` identify NVIDIA's GPUs, in the same order, where torch tells them. This initialises the devices, so
    a process that is forked must not call it.
    """
    built = {
        "cuda": torch.version.cuda is not None or is_rocm(),
        "xpu": torch.xpu._is_compiled(),
        "mps": torch.backends.mps.is_built(),
    }
    seen = {}
    for kind in GPUS:
        count = module_of(kind).device_count() if module_of(kind).is_available() else 0
        names = [device_name(kind, index) for index in range(count)]
        lacking = None if count or built[kind] else INSTALL[kind]
        uuids = [cuda_uuid(index) for index in range(count)] if kind == "cuda" else []
        seen[kind] = {"count": count, "names": names, "uuids": uuids, "lacking": lacking}
    return seen


def device_name(kind: str, index: int = 0) -> str:
    """The name of a GPU, such as `NVIDIA H100`. Apple's devices have none of their own."""
    return "Apple GPU" if kind == "mps" else str(module_of(kind).get_device_name(index))


def cuda_uuid(index: int) -> str | None:
    """The UUID of a CUDA device, as CUDA_VISIBLE_DEVICES and NVML take it: `GPU-…`, or `MIG-…` for a slice of a GPU.

    None on ROCm, and in older versions of torch. `index` counts the devices that torch sees.
    """
    properties = torch.cuda.get_device_properties(index)
    uuid = str(getattr(properties, "uuid", "")).rpartition("GPU-")[2]
    if not uuid or is_rocm():
        return None
    return f"{'MIG' if ' MIG ' in f'{properties.name} ' else 'GPU'}-{uuid}"


def reference_device(device: str) -> str:
    """Where a float64 reference of a layer on this device runs: Apple's GPUs have no float64."""
    return "cpu" if device == "mps" else device


def uncompiled_calls() -> AbstractContextManager[Any]:
    """A context in which compiled functions run as they are written. Importing the compiler for it would take 0.7 s."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _make_tensor(kind: type[Tensor], *arguments: Any, **options: Any) -> Any:
    return torch._C.TensorBase.__new__(Tensor, *arguments, **options).as_subclass(kind)


class EagerMode(TorchDispatchMode):
    """A mode of torch's dispatcher that does not import the compiler.

    Under it, a layer may make tensors of a class of their own, such as torch's `CausalBias`, as without it.
    """

    # Without this, a layer with a higher-order operator (such as flex_attention) would raise.
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would wrap the mode's method to keep the compiler out, and import the compiler for that: 0.7 s in each
        # trial. `trace_call` disables the compiler if it is loaded.
        return False

    def __enter__(self) -> Any:
        # A mode is handed a plain tensor, of which torch's own constructor cannot make another.
        self._constructor = patch.object(Tensor, "__new__", _make_tensor)
        self._constructor.start()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._constructor.stop()
        super().__exit__(*raised)


def in_precision(tensor: Tensor, dtype: torch.dtype) -> torch.dtype:
    """The dtype in which the tensor keeps its kind at the precision of `dtype`.

    Complex numbers stay complex. Whole numbers and quantized ones, also those of 8-bit floats, keep their dtype.
    """
    if tensor.is_complex():
        return dtype.to_complex()
    return dtype if tensor.is_floating_point() and tensor.dtype.itemsize > 1 else tensor.dtype


def cast_layer(layer: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Change the layer's weights to the precision of `dtype`. Unlike `layer.to(dtype)`, this keeps their kinds."""
    return layer._apply(lambda tensor: tensor.to(in_precision(tensor, dtype)))


def to_float64(tensor: Tensor) -> Tensor:
    """A copy in float64, or complex128, on the device of references. Whole numbers, as of lengths, keep their dtype."""
    dtype = in_precision(tensor, torch.float64)
    return tensor.detach().to("cpu" if tensor.is_mps else tensor.device, dtype, copy=True)


def has_drawn(seed: int, device: str) -> bool:
    """Whether random numbers were drawn on the device since `torch.manual_seed(seed)`, which this repeats."""
    following = torch.rand((), device=device)
    torch.manual_seed(seed)
    return bool(following != torch.rand((), device=device))


def total_memory(kind: str) -> int:
    """The bytes of a GPU's memory, or of the part of the machine's that an Apple GPU may use."""
    if kind == "mps":
        return int(torch.mps.recommended_max_memory())
    return int(module_of(kind).get_device_properties(torch.device(kind)).total_memory)


def free_memory(kind: str) -> int:
    """The bytes of a GPU's memory that are free now."""
    if kind == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
    return int(module_of(kind).mem_get_info()[0])


def uncounted(kind: str) -> str | None:
    """What keeps torch's allocator from counting a GPU's memory, or None: another allocator, or none of its own."""
    if kind == "mps":
        return "torch keeps no peak of an Apple GPU's memory"
    if kind == "cuda" and torch.cuda.get_allocator_backend() != "native":
        return f"torch uses the allocator {torch.cuda.get_allocator_backend()}"
    if kind == "cuda" and os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING", "0") not in ("", "0"):
        return "PYTORCH_NO_CUDA_MEMORY_CACHING is set"
    return None


def requested_bytes(kind: str) -> int:
    """The bytes of a GPU's memory that are requested now; 0 if the device's allocator does not count them."""
    if kind in ("cpu", "mps"):
        return 0
    module_of(kind).synchronize()
    return int(module_of(kind).memory_stats()[_REQUESTED + "current"])


@contextmanager
def counted_peak(kind: str) -> Iterator[Callable[[], int]]:
    """Count the peak of the bytes requested inside the block. The function returns it afterwards.

    0 if the device's allocator keeps no peak, as `uncounted` says.
    """
    if kind in ("cpu", "mps"):
        yield lambda: 0
        return
    module = module_of(kind)
    before = requested_bytes(kind)
    module.reset_peak_memory_stats()
    peak: list[int] = []
    yield lambda: peak[0]
    module.synchronize()
    peak.append(int(module.memory_stats()[_REQUESTED + "peak"] - before))


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
    gc.collect()
    before = requested_bytes(device)
    with torch.autograd.profiler.profile(profile_memory=True) as recorded:
        with counted_peak(device) as peak:
            result = call()  # it must be alive when the peak is taken
        del result
        forget()
        gc.collect()
    events = sorted(recorded.kineto_results.events(), key=lambda event: event.start_ns())
    names = [event.name() for event in events]
    if device != "cpu":
        return Allocated(peak(), names, None, max(0, requested_bytes(device) - before))
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
    if tuple(int(part) for part in version.split(".")[:2]) < (2, 8):
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


def fill_tensors(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Write the values into the tensors in place."""
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)


# The dense tensors that a sparse one consists of. It has no storage of its own.
_ROWS, _COLUMNS = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: _ROWS,
    torch.sparse_bsr: _ROWS,
    torch.sparse_csc: _COLUMNS,
    torch.sparse_bsc: _COLUMNS,
}
# A device, and its first address and the one after the last.
MemoryRange = tuple[str, int, int]


def memory_of(tensors: Iterable[Tensor], storages: Iterable[Any] = ()) -> set[MemoryRange]:
    """Return the memory of `storages` and of the tensors' storages."""
    held, ranges = list(storages), set()
    for tensor in tensors:
        if tensor.is_mkldnn:  # it tells no address
            ranges.add((f"mkldnn {id(tensor)}", 0, tensor.nbytes))
            continue
        names = _SPARSE_PARTS.get(tensor.layout, ())
        parts = [getattr(tensor, name)() for name in names] or [tensor]
        held += [part.untyped_storage() for part in parts]
    for storage in held:
        if storage.device.type != "meta":
            ranges.add((str(storage.device), storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
    return ranges


def size_of(ranges: Iterable[MemoryRange]) -> int:
    """Return the bytes in these ranges, each byte once."""
    size, ends = 0, dict[str, int]()
    for device, start, end in sorted(ranges):
        seen = max(start, ends.get(device, 0))
        size += max(0, end - seen)
        ends[device] = max(seen, end)
    return size


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of the tensors' storages: of tied weights and expanded buffers the memory that they occupy."""
    return size_of(memory_of(tensors))
