"""Torch's devices: their events, how to wait for them, and the precision, memory and graphs of tensors.

`cuda` is NVIDIA's CUDA and AMD's ROCm, which torch gives the same names. `xpu` is Intel's GPUs, and `mps` Apple's. A
class for each of them is in `harness.core.trial.device_kinds`.
"""

import ctypes
import gc
import os
import random
import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from operator import attrgetter
from types import FunctionType, ModuleType
from typing import Any
from unittest.mock import patch

import numpy.random
import torch
from numpy import ndarray
from torch import Tensor, UntypedStorage, nn
from torch.utils._python_dispatch import TorchDispatchMode

from harness.core.model.sweep_axes import DEVICES

# The kinds of devices but the CPU.
GPUS = DEVICES[1:]


def _own_event(event: Any) -> Any:
    """A subclass of torch's event with the present methods, which stay if somebody replaces those of torch's."""
    methods = ("record", "query", "synchronize", "elapsed_time")
    return type("Event", (event,), {name: getattr(event, name) for name in methods})


# A layer may replace torch's for its own use. So the harness binds these here, before any layer is imported. `WAITS`
# has functions that wait until the device has done its work. On the CPU, a call returns only when it is done.
EVENTS = {kind: _own_event(getattr(torch, kind).Event) for kind in GPUS}
WAITS = {"cpu": lambda: None, **{kind: getattr(torch, kind).synchronize for kind in GPUS}}


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
    return driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != not_initialized


def reference_device(device: str) -> str:
    """Where a float64 reference of a layer on this device runs: Apple's GPUs have no float64."""
    return "cpu" if device == "mps" else device


def uncompiled_calls() -> AbstractContextManager[Any]:
    """A context in which compiled functions run as they are written. Importing the compiler for it would take 0.7 s."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _make_tensor(*arguments: Any, **options: Any) -> Any:  # torch's compiler, if loaded now, compares signatures
    return torch._C.TensorBase.__new__(Tensor, *arguments[1:], **options).as_subclass(arguments[0])


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


def seed_draws(seed: int) -> None:
    """Seed all global generators: torch's, numpy's and Python's."""
    torch.manual_seed(seed)
    numpy.random.seed(seed % 2**32)
    random.seed(seed)


def has_drawn(seed: int, device: str) -> bool:
    """Whether random numbers were drawn since `seed_draws(seed)`, which this repeats; of torch's, on the device."""
    following = []
    for _ in range(2):
        following.append((torch.rand((), device=device).item(), numpy.random.random(), random.random()))
        seed_draws(seed)
    return following[0] != following[1]


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


def memory_of(things: Iterable[Any]) -> set[MemoryRange]:
    """Return the memory of the tensors, storages and numpy arrays among the things."""
    storages, ranges = [], set()
    for thing in things:
        kind = type(thing)
        if kind is UntypedStorage:
            storages.append(thing)
        elif issubclass(kind, ndarray):
            # One in bytes or in a file counts. What shares the memory of a tensor or of another array does not.
            if not (hasattr(thing.base, "__array__") or hasattr(thing.base, "__array_interface__")):
                ranges.add(("cpu", thing.ctypes.data, thing.ctypes.data + thing.nbytes))
        elif issubclass(kind, Tensor) and thing.is_mkldnn:  # it tells no address
            ranges.add((f"mkldnn {id(thing)}", 0, thing.nbytes))
        elif issubclass(kind, Tensor):
            names = _SPARSE_PARTS.get(thing.layout, ())
            parts = [getattr(thing, name)() for name in names] or [thing]
            if thing.is_quantized and thing.qscheme() != torch.per_tensor_affine:
                parts += [thing.q_per_channel_scales(), thing.q_per_channel_zero_points()]
            storages += [part.untyped_storage() for part in parts]
    for storage in storages:
        # That of a tensor which stands for others, its attributes, has no address and raises an error.
        with suppress(RuntimeError):
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


def nodes_of(ends: Iterable[Any]) -> set[Any]:
    """Return the nodes of autograd's graphs that end with these, each a tensor's `grad_fn`."""
    newest = set(ends)
    nodes: set[Any] = {None}
    while newest := newest - nodes:
        nodes |= newest
        newest = {following for node in newest for following, _ in node.next_functions}
    return nodes - {None}


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of the tensors' storages: of tied weights and expanded buffers the memory that they occupy."""
    return size_of(memory_of(tensors))


def _parts_of_script(script: Any) -> list[Any]:
    """Return what a script holds, and the constants of its methods, as the weights of a frozen one are."""
    kind, parts = getattr(script, "_concrete_type", None), gc.get_referents(script)
    if kind:  # a frozen script has none
        parts += [getattr(script, name) for name in kind.get_attributes()]
    for name in script._c._method_names():
        graph = script._c._get_method(name).inlined_graph  # without it, its nodes are gone
        parts += [node.output().toIValue() for node in graph.findAllNodes("prim::Constant", True)]
    return parts


# What a thing of these types holds. The garbage collector tells it of all others. The first type that fits counts.
_CONTENTS: dict[type, Any] = {
    Tensor: attrgetter("__dict__", "_backward_hooks", "_post_accumulate_grad_hooks"),  # without its graph
    FunctionType: attrgetter("__closure__", "__defaults__", "__kwdefaults__", "__dict__"),  # without its module's names
    torch.jit.ScriptModule: _parts_of_script,
    torch._C.ScriptList: list,
    torch._C.ScriptDict: lambda script: script.items(),
    ndarray: lambda array: [array.base, array.dtype.hasobject and array.tolist()],
    weakref.ref: lambda reference: [isinstance(reference(), type) or reference()],  # caches refer to classes so
    ContextVar: lambda variable: [*gc.get_referents(variable), variable.get(None)],
    object: gc.get_referents,
}


def things_in(value: Any, shared: Any = type | ModuleType) -> Iterator[Any]:
    """Iterate over what a state holds, outside `shared` types: in containers and objects, around functions.

    A tensor may have further ones as attributes, as a weight its scale, and around its hooks.
    """
    things = [value]
    seen = {}  # kept, as another object could get the number of a freed one
    while things:
        thing = things.pop()
        yield thing
        kind = type(thing)  # reading `__class__` of some of torch's objects raises a warning
        if id(thing) not in seen and not issubclass(kind, shared):
            seen[id(thing)] = thing
            contents = next(_CONTENTS[fitting] for fitting in _CONTENTS if issubclass(kind, fitting))
            things += reversed([*contents(thing)])


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Iterate over the tensors among `things_in`."""
    for thing in things_in(value):
        if issubclass(type(thing), Tensor):
            yield thing
