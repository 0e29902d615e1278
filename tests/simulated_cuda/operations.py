"""What each dispatched operation costs on the simulated GPU, and the memory that torch's allocator hands out.

Tensors lie on the CPU, which computes their values. A product takes its FLOPs at the peak, or the time in which its
bytes cross, if that is longer. All other operations take the time of their bytes.
"""

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import torch
from core.trial.timing.cuda.simulated_gpu import Kernel
from simulated_cuda import process
from torch import Tensor
from torch._C import _len_torch_dispatch_stack
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# The host waits for the GPU to learn a number or a shape.
WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2", "unique_dim")
# Memory that is only handed out.
UNWRITTEN = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided")
# What is written without having been read.
OVERWRITING = ("copy_", "zero_", "fill_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_")
# Arrays of this size, such as those of a flush, are only as good as computed: it would take seconds.
NOT_COMPUTED_BYTES, NOT_COMPUTED_FLOPS = 2**22, 1e9


# cuBLAS takes a workspace from torch's allocator, one for each host thread and stream, and keeps it.
WORKSPACE_BYTES = 2**20


@dataclass(frozen=True)
class Traits:
    """Of an operation: its name without overload, the places of the arguments that it writes, and whether it waits.

    It is free if it launches nothing. It may draw random numbers.
    """

    name: str
    written: tuple[int | str, ...]
    overwrites: bool
    waits: bool
    is_free: bool
    draws: bool


@cache
def traits(operation: Any) -> Traits:
    """The traits of an operation by its schema."""
    schema = operation._schema
    name = schema.name.partition("::")[2]
    written: list[int | str] = []
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.append(argument.name if argument.kwarg_only else place)
    is_out = any(isinstance(one, str) for one in written)
    free = operation.is_view or name in UNWRITTEN or name in WAITING
    draws = torch.Tag.nondeterministic_seeded in operation.tags
    return Traits(name, tuple(written), is_out or name in OVERWRITING, name in WAITING, free, draws)


class Allocator:
    """The blocks that tensors made since the first use of CUDA occupy, exact to the byte."""

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = 0
        self.watched = False
        self._blocks: dict[int, tuple[StorageWeakRef, int]] = {}
        self._look_at = 256
        self._workspaces: set[tuple[bool, int]] = set()
        # Of each size, the storages that have the first block, the second, …: gone storages leave theirs free.
        self._places: dict[int, list[StorageWeakRef]] = {}
        # Of each storage that a kernel has touched, its place among those of its size.
        self._place_of: dict[int, int] = {}

    def add(self, tensor: Tensor) -> None:
        """A tensor was made. Its peak is followed while it is `watched`; else only the amount in the end matters."""
        storage = tensor.untyped_storage()
        key: int = storage._cdata
        if key in self._blocks:
            return
        may_be_peak = self.watched and self.current + storage.nbytes() > self.peak
        if may_be_peak or len(self._blocks) >= self._look_at:
            self.free()
            self._look_at = 2 * len(self._blocks) + 256
        self._blocks[key] = StorageWeakRef(storage), storage.nbytes()
        self.current += storage.nbytes()
        if self.current > process.here().settings.memory_bytes:
            self.free()
            self._check()
        self.peak = max(self.peak, self.current)

    def add_workspace(self, in_autograd: bool, stream: int) -> None:
        """A product is launched by the host's main thread, or by autograd's."""
        if (in_autograd, stream) not in self._workspaces:
            self._workspaces.add((in_autograd, stream))
            self.current += WORKSPACE_BYTES
            self.peak = max(self.peak, self.current)

    def block(self, tensor: Tensor) -> str:
        """The block that a tensor lies in. A new one gets the first block of its size that nobody has.

        The CPU's addresses would not do. Which of them are used again differs between processes.
        """
        storage = tensor.untyped_storage()
        nbytes = storage.nbytes()
        place = self._place_of.get(storage._cdata)
        if place is None:
            place = self._new_place(storage, nbytes)
        return f"{nbytes} {place}"

    def _new_place(self, storage: torch.UntypedStorage, nbytes: int) -> int:
        """The first place of this size that nobody has. A weak reference keeps its storage's address from new ones."""
        places = self._places.setdefault(nbytes, [])
        place = next((place for place, held in enumerate(places) if _is_gone(held)), len(places))
        if place == len(places):
            places.append(StorageWeakRef(storage))
        else:
            del self._place_of[places[place].cdata]
            places[place] = StorageWeakRef(storage)
        self._place_of[storage._cdata] = place
        return place

    def free(self) -> None:
        """Take the blocks back whose tensors are gone."""
        for key in [key for key, (held, _) in self._blocks.items() if _is_gone(held)]:
            self.current -= self._blocks.pop(key)[1]

    def _check(self) -> None:
        total = process.here().settings.memory_bytes
        if self.current > total:
            raise torch.OutOfMemoryError(f"CUDA out of memory. GPU 0 has a total capacity of {total / 2**30:.2f} GiB")

    def reset_peak(self) -> None:
        """Begin to watch the peak."""
        self.free()
        self.watched, self.peak = True, self.current


def _is_gone(storage: StorageWeakRef) -> bool:
    return torch.UntypedStorage._expired(storage.cdata)


class Costs(TorchDispatchMode):
    """Launches a kernel on the GPU for each operation, and notes the memory of its results."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.allocator = Allocator()
        self.launched: list[Kernel] | None = None
        self.waited = False
        self.unsettled: Repeated | None = None
        # Nodes of autograd from this sequence number on belong to the call at hand, whatever its stream.
        self.since = math.inf
        self._is_free = False
        self._streams = [(0, 0)]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._is_free or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        of, gpu = traits(func), process.here().gpu
        if of.waits:
            gpu.sync()
            self.waited = True
        if of.is_free:
            out = func(*args, **kwargs)
            if of.name in UNWRITTEN:
                self.allocator.add(out)
            return out
        written = [leaf for place in of.written for leaf in _given(place, args, kwargs)]
        if written and sum(tensor.nbytes for tensor in written) > NOT_COMPUTED_BYTES:
            out = written[0] if len(written) == 1 else tuple(written)
        elif kwargs.get("out") is not None and _flops(func, of.name, args, {}, kwargs["out"]) > NOT_COMPUTED_FLOPS:
            out = kwargs["out"]
        else:
            out = func(*args, **kwargs)
        self._launch(func, of, args, kwargs, out, written)
        return out

    def note_stream(self) -> None:
        """Autograd will run the nodes made from now on, in the backward pass, on the present stream."""
        self._streams.append((torch.autograd._get_sequence_nr(), process.here().gpu.stream))

    def _stream_of(self, node: Any) -> int | None:
        """The stream of an earlier forward pass, if autograd runs a node of it."""
        made = node._sequence_nr() if node is not None else math.inf
        if made >= min(self.since, torch.autograd._get_sequence_nr()):
            return None
        return self._streams[bisect(self._streams, made, key=lambda noted: noted[0]) - 1][1]

    @contextmanager
    def for_nothing(self) -> Iterator[None]:
        """Meanwhile, operations take neither time nor memory of the GPU."""
        self._is_free = True
        try:
            yield
        finally:
            self._is_free = False

    def _launch(self, func: Any, of: Traits, args: Any, kwargs: Any, out: Any, written: list[Tensor]) -> None:
        mine = process.here()
        over = {id(tensor) for tensor in written} if of.overwrites else set()
        read = [tensor for tensor in _tensors((*args, *kwargs.values())) if id(tensor) not in over]
        known = {tensor.untyped_storage()._cdata for tensor in read}
        made = [one for one in _tensors((out,)) if not written and one.untyped_storage()._cdata not in known]
        if not made and not written:  # a view by another name
            return
        for tensor in made:
            self.allocator.add(tensor)
        flops = _flops(func, of.name, args, {name: one for name, one in kwargs.items() if name != "out"}, out)
        dtype = str((made or written)[0].dtype).removeprefix("torch.")
        peaks = mine.settings.flops_per_s
        cycles = flops / peaks.get(dtype, peaks["float64"]) * mine.gpu.clock.boost_hz
        kernel = Kernel(f"{func} {dtype}", cycles, self._traffic(read), self._traffic([*made, *written]), overlaps=True)
        node = torch._C._current_autograd_node()
        kernel.longer, kernel.draws, kernel.stream = 1 + mine.settings.slower, of.draws, self._stream_of(node)
        if flops:
            self.allocator.add_workspace(node is not None, mine.gpu.stream if kernel.stream is None else kernel.stream)
        mine.gpu.launch(kernel)
        if self.launched is not None:
            self.launched.append(kernel)

    def _traffic(self, tensors: list[Tensor]) -> dict[str, int]:
        found: dict[str, int] = {}
        for tensor in tensors:
            nbytes = min(tensor.nbytes, tensor.untyped_storage().nbytes())
            if nbytes:
                # Its place in a storage, as a buffer's halves are two arrays.
                found[f"{self.allocator.block(tensor)}+{tensor.storage_offset()}"] = nbytes
        return found


def _given(place: int | str, args: Any, kwargs: Any) -> list[Tensor]:
    value = kwargs.get(place) if isinstance(place, str) else args[place] if place < len(args) else None
    return list(_tensors((value,)))


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _flops(func: Any, name: str, args: Any, kwargs: Any, out: Any) -> float:
    if name in ("mm", "addmm", "bmm", "baddbmm"):
        factor, other = [one for one in args if isinstance(one, Tensor)][-2:]
        return 2.0 * factor.numel() * other.shape[-1]
    if name.startswith("_scaled_dot_product_flash_attention_for_cpu"):
        backward = name.endswith("backward")
        q, k, v = args[1:4] if backward else args[:3]
        causal = kwargs.get("is_causal", False) or any(one is True for one in args)
        products = 2.0 * prod(q.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])
        return products * (2.5 if backward else 1.0) * (0.5 if causal else 1.0)
    if name == "mkldnn_rnn_layer":
        x, input_weights, hidden_weights = args[:3]
        return 2.0 * prod(x.shape[:-1]) * (input_weights.numel() + hidden_weights.numel())
    count = flop_registry.get(func._overloadpacket)
    return 0.0 if count is None else float(count(*args, **kwargs, out_val=out))


class Repeated:
    """A call of a layer whose operations are computed once, and then only where somebody reads their results.

    Computing them takes a thousand times as long as simulating their kernels. So a call after the first one launches
    the kernels of the first. If its tensors have changed since, `settle` computes the results before they are read. A
    call is always computed where its memory or its operations are watched, or where its course depends on numbers.
    """

    def __init__(
        self, call: Callable[[], Any], tensors: Iterable[Tensor], leaves: Iterable[Tensor], costs: Costs
    ) -> None:
        self._call, self._tensors, self._leaves, self._costs = call, list(tensors), list(leaves), costs
        self._versions: list[int] = []
        self._kernels: list[Kernel] = []
        self._depends = False
        self._kept: Any = None
        self._gradients: list[tuple[Tensor, Tensor]] = []
        self._random: Tensor | None = None

    def __call__(self) -> Any:
        costs = self._costs
        if costs.allocator.watched or self._depends or _len_torch_dispatch_stack() > 1:
            costs.unsettled = None
            return self._call()
        if not self._kernels:
            return self._first()
        for kernel in self._kernels:
            process.here().gpu.launch(kernel)
        costs.unsettled = None  # setting a gradient reads no result of the call before
        for leaf, gradient in self._gradients:
            leaf.grad = gradient
        if self._seen() != self._versions:
            self._random, costs.unsettled = torch.get_rng_state(), self
        return self._kept

    def _first(self) -> Any:
        costs = self._costs
        costs.launched, costs.waited, costs.since = self._kernels, False, torch.autograd._get_sequence_nr()
        try:
            self._kept = self._call()
        finally:
            costs.launched, costs.since = None, math.inf
        self._depends, self._versions = costs.waited, self._seen()
        self._gradients = [(leaf, leaf.grad) for leaf in self._leaves if leaf.grad is not None]
        return self._kept

    def _seen(self) -> list[int]:
        return [tensor._version for tensor in self._tensors]

    def settle(self, read: Iterable[Any]) -> None:
        """Compute the results of the last call if they are among the tensors that are `read`."""
        results = [*_tensors((self._kept,)), *(gradient for _, gradient in self._gradients)]
        storages = {tensor.untyped_storage()._cdata for tensor in results}
        if not any(tensor.untyped_storage()._cdata in storages for tensor in _tensors(read)):
            return
        self._costs.unsettled, present = None, torch.get_rng_state()
        torch.set_rng_state(self._random)
        with self._costs.for_nothing():  # the kernels of the call were launched
            computed = self._call()
            fresh = [*_tensors((computed,)), *(leaf.grad for leaf, _ in self._gradients)]
            with torch.no_grad():
                for old, new in zip(results, fresh, strict=True):
                    old.copy_(new)
        torch.set_rng_state(present)
        for leaf, gradient in self._gradients:
            leaf.grad = gradient
        self._versions = self._seen()
