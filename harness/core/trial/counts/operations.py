"""Observe every operation that one call dispatches, including the backward pass, and count by it.

The counters are sequential depth, least memory traffic, and memory written past torch.

Limits: a kernel called past the dispatcher (a Triton or C++ function bound to Python) is not seen. A kernel registered
with `torch.library` is seen. During observation, autograd dispatches one `detach` for each saved output, and adds
gradients out of place.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from .partial_reads import marks_of

# These write in place, and the old content does not enter the result.
_OVERWRITES = """
    aten::copy_ aten::fill_ aten::zero_ aten::index_put_ aten::_index_put_impl_ aten::index_copy_ aten::index_fill_
    aten::scatter_ aten::uniform_ aten::normal_ aten::bernoulli_ aten::random_ aten::exponential_ aten::log_normal_
    aten::cauchy_ aten::geometric_ aten::_foreach_copy_ aten::_foreach_zero_
"""
# These use the shape of their tensor, not its content.
_SHAPED_AFTER = ("new_", "empty_like", "zeros_like", "ones_like", "full_like", "rand")
_UNWRITTEN = ("empty", "new_empty")


@dataclass(frozen=True)
class OperationTraits:
    """What the declaration of one operator shows. `written` holds the positions and names of arguments that it mutates.

    - `overwrites`: it does so without reading them.
    - `relabels`: it changes shape or strides in place, not content.
    - `takes_no_content`: its result depends on no tensor's content.
    - `leaves_unwritten`: its result is memory not yet written.
    """

    name: str
    written: frozenset[int | str] = frozenset()
    overwrites: bool = False
    relabels: bool = False
    takes_no_content: bool = False
    leaves_unwritten: bool = False

    @property
    def namespace(self) -> str:
        """`aten` for `aten::mm`; empty for an operator without a namespace."""
        return self.name.partition("::")[0] if "::" in self.name else ""


@dataclass(slots=True)
class Operation:
    """One dispatched operation: its operator, its arguments, and the storages that it touched.

    `reads` are the storages whose content it uses. `written` are existing storages that it changed. `fresh` are
    storages that it created. All three are empty for a view.
    """

    func: Any
    traits: OperationTraits
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any
    reads: list[int]
    written: list[int]
    fresh: list[int]

    def arguments(self) -> dict[str, Any]:
        """Return all arguments by name, including defaults."""
        declared = self.func._schema.arguments
        bound = {a.name: a.default_value for a in declared if a.has_default_value()}
        bound.update({a.name: value for a, value in zip(declared, self.args, strict=False)})
        return bound | self.kwargs


@cache
def operation_traits(func: Any) -> OperationTraits:
    """Return the traits of an operator. One without a schema (a higher-order operator) is assumed to mutate nothing."""
    if not isinstance(func, OpOverload):
        return OperationTraits(func.name())
    name = func.name().partition(".")[0]
    short = name.partition("::")[2]
    arguments = list(enumerate(func._schema.arguments))
    mutated = [(i, a) for i, a in arguments if a.alias_info is not None and a.alias_info.is_write]
    written = frozenset(key for i, a in mutated for key in (i, a.name))
    return OperationTraits(
        name,
        written,
        overwrites=name in _OVERWRITES.split() or (bool(mutated) and all(a.is_out for _, a in mutated)),
        relabels=torch.Tag.inplace_view in func.tags,
        takes_no_content=name.startswith("aten::")
        and (short.startswith(_SHAPED_AFTER) or func.name() == "aten::bernoulli.p"),
        leaves_unwritten=name.startswith("aten::") and short.startswith(_UNWRITTEN),
    )


def tensors_of(value: Any) -> list[Tensor]:
    """Return the tensors in an argument or a result: the value itself, or those in its list or tuple."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [found for item in value for found in tensors_of(item)]
    return []


# The dense tensors that a sparse one consists of. It has no storage of its own.
_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
}


def _dense_parts(tensor: Tensor) -> list[Tensor]:
    names = _SPARSE_PARTS.get(tensor.layout)
    return [tensor] if names is None else [getattr(tensor, name)() for name in names]


def bytes_of(tensors: Iterable[Tensor], storages: Iterable[Any] = ()) -> int:
    """Return the size of `storages` and of the tensors' storages, each counted once.

    Tied weights and expanded buffers therefore count only for the memory that they occupy.
    """
    of_tensors = (part.untyped_storage() for tensor in tensors for part in _dense_parts(tensor))
    return sum({storage.data_ptr(): storage.nbytes() for storage in (*storages, *of_tensors)}.values())


class Storages:
    """A unique number for each storage of an observed call, never reused. Tensors that share memory have the same one.

    A storage's own address could be reused after it is freed. A weak reference reserves the address and still lets the
    memory go.
    """

    def __init__(self) -> None:
        self.is_read_outside = False
        self.left = set[int](), set[int]()  # whose numbers Python got: first fractions, then whole ones
        self.nbytes: dict[int, int] = {}
        self.filled: set[int] = set()  # torch's own C++ has written them past its dispatcher
        self._held: dict[int, StorageWeakRef] = {}

    def key(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's storage. From then on, `nbytes` holds its size.

        Raises Unobservable for a sparse tensor.
        """
        if tensor.layout != torch.strided:
            raise Unobservable("a tensor is sparse, and the cost of its operations depends on its values")
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.nbytes:
            self._held[key] = StorageWeakRef(storage)
            self.nbytes[key] = storage.nbytes()
        return key

    def freed(self) -> set[int]:
        """Return the numbers of the storages whose memory has been freed."""
        return {key for key, held in self._held.items() if held.expired()}


class Unobservable(Exception):
    """Raised if the call does something that cannot be followed."""


class Observer(TorchDispatchMode):
    """`with Observer(storages, counts): call()`. `seen` holds each operator, also of views, and its tensors' shapes.

    `inside_s` is the time of torch's own operations. Each of `counts` is called with every operation, in the order of
    dispatch.
    """

    # Without this, a layer with a higher-order operator (such as flex_attention) would raise.
    supports_higher_order_operators = True

    def __init__(self, storages: Storages, counts: Iterable[Callable[[Operation], object]]) -> None:
        super().__init__()
        self.seen: list[Any] = []
        self.inside_s = 0.0
        self._storages = storages
        self._counts = tuple(counts)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would wrap the method below to keep the compiler out, and import the compiler for that: 0.7 s in each
        # trial. `trace_call` disables the compiler if it is loaded.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for kind in types:
            # nn.Parameter is also a class of its own, but does not change its operations.
            if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                raise Unobservable(f"its tensors are of a class of their own, {kind.__name__}, not torch.Tensor")
        kwargs = kwargs or {}
        of = operation_traits(func)
        if of.namespace == "profiler":  # a mark, no operation
            return func(*args, **kwargs)
        reads, changed = self._touched(of, args, kwargs)
        start = perf_counter()
        out = func(*args, **kwargs)
        if of.namespace == "aten":
            self.inside_s += perf_counter() - start
        self.seen.append((func, [tensor.shape for tensor in tensors_of(args) if not tensor.is_nested]))
        for tensor in changed.values():  # `out=` may have enlarged its argument
            self._storages.nbytes[self._storages.key(tensor)] = tensor.untyped_storage().nbytes()
        written = list(changed)
        # A view returns a storage in `before`: it creates nothing, and reads nothing yet.
        before = {*reads, *written}
        made = (self._storages.key(tensor) for tensor in tensors_of(out))
        fresh = [key for key in dict.fromkeys(made) if key not in before]
        is_view = not written and not fresh and bool(tensors_of(out))
        if of.relabels or is_view:
            reads, written = [], []
        elif of.takes_no_content:
            reads = []
        operation = Operation(func, of, args, kwargs, out, reads, written, fresh)
        for count in self._counts:
            count(operation)
        return out

    def _touched(
        self, of: OperationTraits, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[int], dict[int, Tensor]]:
        """Return the storages that are read, and those that are written with a tensor of each."""
        reads: dict[int, None] = {}
        written: dict[int, Tensor] = {}
        key = self._storages.key
        overwrites = of.overwrites and not self.accumulates(of, args, kwargs)
        # `baddbmm(sum, a, b, beta=0)` uses only the shape of `sum`.
        unread = 0 if kwargs.get("beta", 1) == 0 else None
        for place, value in (*enumerate(args), *kwargs.items()):
            is_written = place in of.written
            for tensor in tensors_of(value):
                number = key(tensor)
                if is_written:
                    written[number] = tensor
                if not (is_written and overwrites) and place != unread:
                    reads[number] = None
        return list(reads), written

    @staticmethod
    def accumulates(of: OperationTraits, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether an operation with these arguments reads what it overwrites."""
        # index_put_(…, accumulate=True) and scatter_(…, reduce="add") read what they write.
        adds = "index_put" in of.name and len(args) > 3 and args[3]
        return bool(kwargs.get("accumulate") or kwargs.get("reduce") or adds)


class Chain(NamedTuple):
    """A chain of operations: its `length`, and how many of them opaque kernels declare and nothing observes.

    Chains compare by length first.
    """

    length: int = 0
    declared: int = 0


class Depth:
    """Sequential depth: `longest` is the longest chain in which each operation needs the result of the one before.

    Chains are followed by storage. An operation comes one step after the deepest storage that it reads. A view adds
    nothing, and memory filled with a constant starts at 0. Overwriting a slice depends on what is written, not on the
    old content, so that `out[:, t] = f(x[:, t])` in a loop is no chain. An opaque kernel adds the inner depth that it
    declares.

    The chain is the one that ran: if a tensor is used m times, autograd adds its gradients one after another, in m − 1
    sums. `attention.naive` therefore gets deeper with h in training, but not in a forward pass.

    Limits: each storage is tracked as a whole. Two slices of one tensor that are changed in place (the gates of
    `nn.GRU` on the CPU) count as a chain although neither waits for the other. The count is therefore an upper bound.
    Dependencies through Python (`item()`, then a branch on it) are not followed.
    """

    def __init__(self, declared_by: Callable[[Operation], int | None]) -> None:
        self._declared_by = declared_by
        self._after: dict[int, Chain] = {}
        self.longest = Chain()

    def add(self, operation: Operation) -> None:
        """Add an operation after everything that it reads."""
        if not (operation.fresh or operation.written):
            return
        chain = Chain()
        if operation.reads:
            before = max(self._after.get(key, chain) for key in operation.reads)
            inner = self._declared_by(operation)
            step, declared = (1, 0) if inner is None else (inner, inner)
            chain = Chain(before.length + step, before.declared + declared)
            self.longest = max(self.longest, chain)
        for key in operation.fresh:
            self._after[key] = chain
        for key in operation.written:
            self._after[key] = max(self._after.get(key, chain), chain)


_IS_DENSE = torch.ops.aten.is_non_overlapping_and_dense.default


class ReadParts:
    """How many bytes of each storage the operations surely read. What several of them read counts once."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._whole: set[int] = set()
        self._places: dict[int, dict[int, Tensor]] = {}  # storage -> size of an element -> which ones were read

    def add(self, operation: Operation, tensor: Tensor) -> None:
        """Record that the operation reads what it needs of `tensor`, one of its arguments."""
        key, size = self._storages.key(tensor), tensor.element_size()
        if key in self._whole or _selects_unknown(operation):
            return
        arguments = operation.arguments() if operation.traits.namespace == "aten" else {}
        mark = marks_of(operation.traits.name, arguments, tensor)
        if mark is None and _IS_DENSE(tensor) and tensor.nbytes == self._storages.nbytes[key]:
            self._whole.add(key)
            return
        elements = self._storages.nbytes[key] // size
        places = self._places.setdefault(key, {}).setdefault(size, torch.zeros(elements, dtype=torch.bool))
        shape = [1 if stride == 0 else length for length, stride in zip(tensor.shape, tensor.stride(), strict=True)]
        part = places.as_strided(shape, tensor.stride(), tensor.storage_offset())
        if mark is None:
            part.fill_(True)
        elif part.shape == tensor.shape:
            mark(part, **arguments)

    def bytes(self, key: int) -> int:
        """The bytes of this storage that were read."""
        if key in self._whole:
            return self._storages.nbytes[key]
        return max((size * int(places.sum()) for size, places in self._places.get(key, {}).items()), default=0)


def _selects_unknown(operation: Operation) -> bool:
    """Any operator outside torch that takes numbers of rows, experts or pages may choose what it reads."""
    if operation.traits.namespace == "aten":
        return False
    tensors = tensors_of([*operation.args, *operation.kwargs.values()])
    return any(tensor.dtype in (torch.int32, torch.int64) for tensor in tensors)


class Traffic:
    """The least memory traffic that the call's operations can achieve, in bytes of storages.

    - Of weights, inputs, masks and caches, what the operations surely read is transferred once, and outputs whole.
    - An intermediate result that is materialised (new memory from an operation that is not a view) is written once. If
      anything reads it, it is read once: caches may serve all further reads.
    - Gradients are added in place if autograd owns the sum, so the sum is no new memory.
    """

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._parts = ReadParts(storages)
        self._made: dict[int, bool] = {}  # storage -> whether it was created in the backward pass
        self._written: set[int] = set()
        self._read: set[int] = set()
        self._sum_in: dict[int, int] = {}

    def add(self, operation: Operation) -> None:
        """Record what the operation creates, writes and reads."""
        reads = [self._root(key) for key in operation.reads]
        self._read.update(reads)
        for tensor in tensors_of([*operation.args, *operation.kwargs.values()]):
            key = self._storages.key(tensor)
            if key in operation.reads and self._root(key) not in self._made:
                self._parts.add(operation, tensor)
        self._written.update(self._root(key) for key in operation.written)
        if not operation.fresh:
            return
        backward = torch._C._current_graph_task_id() != -1
        if backward and operation.traits.name == "aten::add" and self._made.get(reads[0], False):
            self._sum_in.update((key, reads[0]) for key in operation.fresh)
            return
        for key in operation.fresh:
            self._made[key] = backward
            if not operation.traits.leaves_unwritten:
                self._written.add(key)

    def read_bytes(self) -> int:
        """Return the bytes that are read of what existed before."""
        return sum(self._parts.bytes(key) for key in self._read - self._made.keys())

    def made_bytes(self, outputs: Iterable[torch.Tensor]) -> int:
        """Return the bytes of intermediates, which are made and are no `outputs`, that are transferred."""
        size = self._storages.nbytes
        between = self._made.keys() - {self._root(self._storages.key(tensor)) for tensor in outputs}
        return sum(size[key] for crossing in (self._written, self._read) for key in crossing & between)

    def _root(self, key: int) -> int:
        while key in self._sum_in:
            key = self._sum_in[key]
        return key


# Dispatched by `torch.tensor` for its numbers, and by `torch.from_numpy` for memory that cannot be resized.
_TAKES_IN, _LEAVES = "aten::lift_fresh", "aten::_local_scalar_dense"


class UntrackedWrites:
    """Detects memory written past torch: by a kernel bound to Python by hand, numpy, Python, or an earlier call.

    It follows which memory operations have written, and whether any reads memory that none has written. What existed
    before may have any content. A new storage that no operation created, and that is freed again, was made outside.
    Python computes with a fraction that the call has computed. It may do so if a tensor of several numbers follows on
    numbers that left, unless they are whole and existed before. `somebody_elses`: memory not of torch entered the call.
    """

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._made: set[int] = set()
        self._read: set[int] = set()
        self._unwritten: set[int] = set()
        self._unwritten_was_read = False
        self.somebody_elses = False

    def add(self, operation: Operation) -> None:
        """Record what the operation reads and writes."""
        self._read.update(operation.reads)
        # An operator of a library may write all of an argument that it declares as changed.
        new = operation.written if operation.traits.namespace != "aten" else ()
        unwritten = self._unwritten.intersection(operation.reads).difference(new) - self._storages.filled
        self._unwritten_was_read |= any(self._storages.nbytes[key] for key in unwritten)
        self._unwritten.difference_update(operation.written)
        self._made.update(operation.written, operation.fresh)
        out, left = operation.out, self._storages.left
        if operation.traits.name == _LEAVES and not isinstance(out, bool):
            left[isinstance(out, int)].update(operation.reads)
        elif operation.traits.name == _TAKES_IN:
            self._unwritten_was_read |= out.numel() > 1 and bool(left[0] or self._made & left[1])
            if out.untyped_storage().resizable():
                self._made.add(self._storages.key(out))
            else:
                self.somebody_elses = True
        if operation.traits.leaves_unwritten:
            self._unwritten.update(operation.fresh)

    def past_torch(self, known: Iterable[torch.Tensor], outputs: Iterable[torch.Tensor]) -> bool:
        """Return whether an output, or what an operation has read, was written past torch. `known` existed before."""
        before = {self._storages.key(tensor) for tensor in known}
        written = before | (self._made - self._unwritten) | self._storages.filled
        passing = (self._read - self._made - before) & self._storages.freed()
        given = (self._storages.key(tensor) for tensor in outputs if tensor.nbytes)
        passing |= self._made & self._storages.left[0]
        left = self._storages.is_read_outside or self._unwritten_was_read
        return left or bool(passing) or not written.issuperset(given)
