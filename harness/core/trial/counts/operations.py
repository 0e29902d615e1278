"""Observe every operation that one call dispatches, and count depth, least traffic and memory written past torch.

Limits: a kernel called past the dispatcher (Triton, or C++ bound to Python) is not seen. One that is registered with
`torch.library` is. Under observation, autograd dispatches a `detach` for each saved output, and adds out of place.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import cache, cached_property, partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..device import EagerMode, MemoryRange, memory_of, nodes_of
from .partial_reads import Cells, part_of

# These write in place, and the old content does not enter the result.
_OVERWRITES = """
    aten::copy_ aten::fill_ aten::zero_ aten::index_put_ aten::_index_put_impl_ aten::index_copy_ aten::index_fill_
    aten::scatter_ aten::uniform_ aten::normal_ aten::bernoulli_ aten::random_ aten::exponential_ aten::log_normal_
    aten::cauchy_ aten::geometric_ aten::_foreach_copy_ aten::_foreach_zero_
"""
# These use the shape of their tensor, not its content.
_SHAPED_AFTER = ("new_", "empty_like", "zeros_like", "ones_like", "full_like", "rand")
_UNWRITTEN = ("empty", "new_empty", "set_", "_efficientzerotensor")
# What each byte of such memory gets, so that a kernel past torch cannot write it unseen.
_FILLER = 0xA5


@dataclass(frozen=True)
class OperationTraits:
    """What the declaration of one operator shows. `written` holds the positions and names of arguments that it mutates.

    - `overwrites`: it does so without reading them.
    - `relabels`: it changes shape or strides in place, not content.
    - `takes_no_content`: its result depends on no tensor's content.
    - `leaves_unwritten`: its result is memory not yet written.
    - `sizes_by_data`: the sizes of its result depend on content.
    """

    name: str
    written: frozenset[int | str] = frozenset()
    overwrites: bool = False
    relabels: bool = False
    takes_no_content: bool = False
    leaves_unwritten: bool = False
    sizes_by_data: bool = False

    @cached_property
    def namespace(self) -> str:
        """`aten` for `aten::mm`; empty for an operator without a namespace."""
        return self.name.rpartition("::")[0]


@dataclass(slots=True)
class Operation:
    """One dispatched operation: its operator, its arguments, and the storages that it touched.

    It uses the content of the storages `reads`, changed `written` and created `fresh`: none of them if it is a view.
    `inputs` are the tensors that it reads, and `results` those that it writes.
    """

    func: Any
    traits: OperationTraits
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any
    inputs: list[Tensor]
    results: list[Tensor]
    reads: set[int]
    written: set[int]
    fresh: set[int]

    def arguments(self) -> dict[str, Any]:
        """Return all arguments by name, including defaults."""
        declared = self.func._schema.arguments
        defaults = {a.name: a.default_value for a in declared if a.has_default_value()}
        given = {a.name: value for a, value in zip(declared, self.args, strict=False)}
        return defaults | given | self.kwargs


@cache
def operation_traits(func: Any) -> OperationTraits:
    """Return the traits of an operator. One without a schema (a higher-order operator) is assumed to mutate nothing."""
    if not isinstance(func, OpOverload):
        return OperationTraits(func.name())
    name = func.name().partition(".")[0]
    short, is_aten = name.rpartition("::")[2], name.startswith("aten::")
    mutated = [(i, a) for i, a in enumerate(func._schema.arguments) if a.alias_info and a.alias_info.is_write]
    written = frozenset(key for i, a in mutated for key in (i, a.name))
    return OperationTraits(
        name,
        written,
        overwrites=name in _OVERWRITES.split() or (bool(mutated) and all(a.is_out for _, a in mutated)),
        relabels=torch.Tag.inplace_view in func.tags,
        takes_no_content=is_aten and (short.startswith(_SHAPED_AFTER) or func.name() == "aten::bernoulli.p"),
        leaves_unwritten=is_aten and short.startswith(_UNWRITTEN),
        sizes_by_data=torch.Tag.dynamic_output_shape in func.tags,
    )


def tensors_of(value: Any) -> list[Tensor]:
    """Return the tensors in an argument or a result: the value itself, or those in its list or tuple."""
    if isinstance(value, Tensor):
        return [value]
    if not isinstance(value, (list, tuple)):
        return []
    return [tensor for item in value for tensor in tensors_of(item)]


class Storages:
    """A unique number for each storage of an observed call, never reused. Tensors that share memory have the same one.

    A storage's Python object lives as long as its memory, so a weak reference shows when it is freed. From then on,
    another storage may have its address.
    """

    def __init__(self) -> None:
        self.is_read_outside, self.arrays = False, set[MemoryRange]()  # as by numpy; memory from outside torch
        self.left = set[int](), set[int]()  # whose numbers Python got: first fractions, then whole ones
        self.sized_by_data, self.freed = set[int](), set[int]()
        self.note_read: Callable[[Tensor], object] = lambda tensor: None  # called with what Python reads, or its size
        self.finished_node: Any = None
        self.nbytes: dict[int, int] = {}
        self.unwritten: set[int] = set()  # neither an operation nor torch's own C++ has written them yet
        self._numbers: dict[int, tuple[int, Any]] = {}  # by address, with a weak reference

    def key(self, tensor: Tensor) -> int:
        """The number of the tensor's storage, whose size `nbytes` then holds. Raises Unobservable without one."""
        if tensor.layout != torch.strided:
            raise Unobservable("a tensor is sparse or in a layout of oneDNN: no shape tells what operations cost")
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address not in self._numbers:
            number = len(self.nbytes)
            self.nbytes[number] = storage.nbytes()
            self.arrays |= memory_of([] if storage.resizable() else [storage])
            self._numbers[address] = number, weakref.ref(storage, partial(self._forget, address, number))
        return self._numbers[address][0]

    def check_unwritten(self, tensor: Tensor) -> None:
        """Note whether something past torch has written memory that no operation has."""
        if self.key(tensor) in self.unwritten and tensor.untyped_storage().data_ptr():
            content = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
            self.is_read_outside |= bool((content != _FILLER).any())

    def watch_graph(self, roots: Any, *_: Any, **__: Any) -> None:
        """Note from now on which node of autograd's graph has last computed its gradients: `finished_node`."""
        for node in nodes_of(root.grad_fn for root in tensors_of(roots)):
            if self not in node.metadata:
                node.metadata[self] = True
                node.register_hook(self._note_finished)

    def _note_finished(self, *_: Any) -> None:
        self.finished_node = torch._C._current_autograd_node()

    def _forget(self, address: int, number: int, _: object) -> None:
        del self._numbers[address]
        self.freed.add(number)


class Unobservable(Exception):
    """Raised if the call does something that cannot be followed."""


class Observer(EagerMode):
    """`with Observer(storages, counts): call()`. `seen` holds each operator, also of views, and its tensors' shapes.

    `inside_s` is the time of torch's own operations. Each of `counts` is called with every operation, in order.
    """

    def __init__(self, storages: Storages, counts: Iterable[Callable[[Operation], object]]) -> None:
        super().__init__()
        self.seen: list[Any] = []
        self.inside_s = 0.0
        self._storages, self._counts = storages, tuple(counts)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for kind in types:
            # nn.Parameter is also a class of its own, but does not change its operations.
            if kind.__torch_dispatch__ is not Tensor.__torch_dispatch__:
                raise Unobservable(f"its tensors are of a class of their own, {kind.__name__}, not torch.Tensor")
        kwargs, of = kwargs or {}, operation_traits(func)
        if of.namespace == "profiler":  # a mark, no operation
            return func(*args, **kwargs)
        is_whole = torch.is_inference_mode_enabled() and isinstance(func, OpOverload)  # composites are not split yet
        if is_whole and not any(one.is_nested for one in tensors_of([*args, *kwargs.values()])):
            with copy(self) as inner:
                out = func.decompose(*args, **kwargs)
            self.inside_s = inner.inside_s
            if out is not NotImplemented:
                return out
        self.seen.append((func, [tensor.shape for tensor in tensors_of(args) if not tensor.is_nested]))
        inputs, changed = self._touched(of, args, kwargs) if self._counts else ([], [])
        key = self._storages.key
        for tensor in inputs:
            self._storages.check_unwritten(tensor)
        for tensor in changed:
            key(tensor)
        before, start = len(self._storages.nbytes), perf_counter()
        out = func(*args, **kwargs)
        if of.namespace == "aten":
            self.inside_s += perf_counter() - start
        if not self._counts:
            return out
        for tensor in changed:  # `out=` may have enlarged its argument
            self._storages.nbytes[key(tensor)] = tensor.untyped_storage().nbytes()
        # A view returns a storage that it was passed: it creates nothing, and reads nothing yet.
        made = [tensor for tensor in tensors_of(out) if key(tensor) >= before]
        is_view = not changed and not made and tensors_of(out)
        if of.relabels or of.takes_no_content or is_view:
            inputs = []
        if of.relabels:
            changed = []
        results = changed if of.leaves_unwritten else [*changed, *made]
        keys = (set(map(key, tensors)) for tensors in (inputs, changed, made))
        operation = Operation(func, of, args, kwargs, out, inputs, results, *keys)
        for count in self._counts:
            count(operation)
        return out

    def _touched(self, of: OperationTraits, args: Any, kwargs: Any) -> tuple[list[Tensor], list[Tensor]]:
        """Return the tensors that are read, and those that are written."""
        arguments = [*enumerate(args), *kwargs.items()]
        # index_put_(…, accumulate=True) and scatter_(…, reduce="add") read what they write.
        adds = kwargs.get("accumulate") or kwargs.get("reduce") or ("index_put" in of.name and args[3:4] == (True,))
        unread = of.written if of.overwrites and not adds else frozenset()
        # `baddbmm(sum, a, b, beta=0)` uses only the shape of `sum`. `scatter_reduce_` may leave out what it replaces.
        if kwargs.get("beta", 1) == 0 or (kwargs.get("include_self") is False and 0 in of.written):
            unread |= {0}
        read = [value for place, value in arguments if place not in unread]
        written = of.written | {3, 4} if of.name in _NORMS and args[5:6] == (True,) else of.written
        return tensors_of(read), tensors_of([value for place, value in arguments if place in written])


# In training they renew the statistics that they keep, which their declarations do not say.
_NORMS = ("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm")
_STEP = 1 << 32  # in one number: the length of a chain, and the declared operations as its lower half


class Depth:
    """Sequential depth: the longest chain of operations in which each needs the result of the one before.

    Chains are followed by element. An operation comes one step after the deepest element that it reads. A view adds
    nothing, and memory filled with a constant starts at 0. What is overwritten is not needed: neither
    `out[:, t] = f(x[:, t])` in a loop nor memory that is used again is a chain. A kernel adds the depth it declares.

    The chain is the one that ran: autograd adds the gradients of a tensor that is used m times in m − 1 sums.

    Python may read a number or a size that the call has computed. Any later operation may need it, or none. If the
    longest chains of both differ, the depth is unknown. Truth values are no step, nor is what lengths and masks give.
    An operation needs all of a tensor, or the rows that it chooses by number (`index`, `gather`).
    """

    def __init__(self, declared_by: Callable[[Operation], int | None], storages: Storages) -> None:
        self._declared_by, self._storages = declared_by, storages
        self._after = Cells(storages, torch.int64)
        self.longest = (0, 0)
        self._begins = 0  # the chain before any further operation
        self._waiting: Depth | None = None  # the same if all that follows needs what Python has read
        self._of_data: set[int] = set()  # computed from numbers that are not whole, which no length or mask is
        self._read_by_python: list[Tensor] = []
        self._numbers_read = 0
        storages.note_read = self._read_by_python.append

    @property
    def is_read_by_python(self) -> bool:
        """Whether Python has read what the call has computed, and the depth depends on what needs it."""
        return self._waiting is not None and self._waiting.longest != self.longest

    def add(self, operation: Operation) -> None:
        """Add an operation after everything that it reads."""
        used = tensors_of([*operation.args, *operation.kwargs.values()])
        fractions = [one for one in used if one.is_floating_point() or one.is_complex()]
        self._of_data.update(map(self._storages.key, fractions))  # so a view of them as whole numbers is of data, too
        name = operation.traits.name
        if name in ("aten::_local_scalar_dense", "aten::_pack_padded_sequence") and not isinstance(operation.out, bool):
            self._read_by_python += operation.inputs[-1:]  # the number, or the lengths
        elif name in ("aten::unbind", "aten::split"):
            dims = used[0].dim()
            # As many as there are rows, perhaps. The last dimension is that of channels, unless it is the only one.
            if operation.arguments()["dim"] % dims < max(dims - 1, 1):
                self._read_by_python += [one for one in used if self._storages.key(one) in self._storages.sized_by_data]
        while self._read_by_python:
            tensor = self._read_by_python.pop()
            is_of_data = self._storages.key(tensor) in self._of_data
            chain = (self._waiting or self)._after.highest(tensor) if is_of_data else 0
            self._numbers_read += is_of_data * tensor.numel()
            if is_of_data and self._numbers_read > 1:  # Python may compute the next one from the one before
                chain = max(chain, _STEP)
            if chain and self._waiting is None:
                self._waiting = copy(self)
                self._waiting._after = deepcopy(self._after, {id(self._storages): self._storages})
            if self._waiting is not None:
                self._waiting._begins = max(self._waiting._begins, chain)
        for depth in (self, self._waiting):
            if depth is not None and operation.results:
                depth._follow(operation, used)

    def _follow(self, operation: Operation, used: list[Tensor]) -> None:
        key, results, traits = self._storages.key, operation.results, operation.traits
        sized_by_data = self._storages.sized_by_data
        # Memory without content waits for the tensors whose sizes it has, if data chose those.
        inputs = operation.inputs or [one for one in used if key(one) in sized_by_data]
        needed = set(map(key, inputs))
        if not self._of_data.isdisjoint(needed):
            self._of_data |= operation.fresh | operation.written
        # Of indices, only truth values choose a number of elements.
        is_by_mask = any(index.dtype in (torch.bool, torch.uint8) for index in inputs[1:])
        is_by_data = traits.sizes_by_data and (is_by_mask or traits.name != "aten::index")
        if is_by_data or not sized_by_data.isdisjoint(needed):
            sized_by_data |= operation.fresh
        inner = self._declared_by(operation) if inputs else None
        step = _STEP if inner is None else inner * (_STEP + 1)
        # The tensors of a list do not wait for one another. A tensor beside the lists comes last.
        chains = len(results) if traits.name.startswith("aten::_foreach_") else 1
        beside = len(inputs) - len(inputs) % chains
        for place in range(chains):
            reads = [*inputs[place:beside:chains], *inputs[beside:]]
            deepest = (self._after.highest(tensor, partial(part_of, operation, tensor)) for tensor in reads)
            chain = max([self._begins, *deepest]) + (step if reads else 0)
            self.longest = max(self.longest, divmod(chain, _STEP))
            for tensor in results[place::chains]:
                self._after.change(chain, tensor, part_of(operation, tensor))


_WRITTEN, _READ, _GIVEN, _TOUCHED = 1, 2, 4, 8
SUMS = ("aten::add", "aten::add_")


class Traffic:
    """The least memory traffic that the call's operations can achieve, in bytes.

    - Of weights, inputs, masks and caches, what the operations surely read before they overwrite it is transferred
      once, and outputs whole.
    - An intermediate result that is materialised (new memory from an operation that is not a view) is written once.
      What is surely read of it is read once: caches may serve all further reads.
    - In a backward pass, the result of an operator in `in_place` is no new memory if autograd owns the old, as it owns
      sums between two nodes of the graph.
    - In a forward pass, torch sums in place in `linear` and attention where nobody observes it. `ran_sums` are the
      names of the sums that ran, in order, if any ran in place. If the call has as many, they show which did. At most
      `copies` sums made new memory.
    - A new state of decoding is written once, as outputs are, and so is the end of what the call writes into memory
      that existed before. The rest of a result of which they are parts counts if it is read.
    """

    def __init__(self, storages: Storages, in_place: set[str], ran_sums: Iterator[str], copies: float) -> None:
        self._storages, self._in_place, self._ran_sums, self._copies = storages, in_place, ran_sums, copies
        self._crossed, self._has_sums = Cells(storages, torch.uint8), False
        self._made: dict[int, bool] = {}  # storage -> whether it was created in the backward pass
        self._sum_in: dict[int, int] = {}

    def add(self, operation: Operation) -> None:
        """Record what the operation creates, writes and reads."""
        made = self._made
        for tensor in operation.inputs:
            # Any operator outside torch that takes numbers of rows, experts or pages may choose what it reads.
            has_numbers = any(one.dtype in (torch.int32, torch.int64) for one in operation.inputs)
            if operation.traits.namespace != "aten" and has_numbers:
                break
            unless = 0 if self._storages.key(tensor) in made else _TOUCHED
            self._crossed.add(_READ, tensor, part_of(operation, tensor, surely=True), unless)
        for tensor in operation.results:
            self._crossed.add(_WRITTEN, tensor, part_of(operation, tensor, True))
            self._crossed.add(_TOUCHED, tensor, part_of(operation, tensor))
        backward = torch._C._current_graph_task_id() != -1
        name = operation.traits.name
        is_in_place = backward and name in self._in_place
        is_in_place &= name != SUMS[0] or torch._C._current_autograd_node() is self._storages.finished_node
        if name in SUMS and not backward:
            self._has_sums = True
            is_in_place = next(self._ran_sums, name) > name
        if is_in_place:
            first = self._storages.key(operation.inputs[0])
            sum_in = self._sum_in.get(first, first)
            if made.get(sum_in) in (True, backward):
                self._sum_in |= dict.fromkeys(operation.fresh, sum_in)
                return
        self._copies -= name == SUMS[0]
        made |= dict.fromkeys(operation.fresh, backward)

    def totals(self, outputs: list[Tensor], states: Iterable[Tensor]) -> tuple[int, int | None, int]:
        """Return what is read of what existed before, what the call makes and moves, and the size of `outputs`.

        `states` are what a step of decoding passes on. Elements that an expanded output repeats count once, and what
        nothing has written moves nothing. What the call moves is None if it is not known which sums ran in place.
        """
        is_unsure = self._copies < 0 or (self._has_sums and bool(list(self._ran_sums)))
        given = set(map(self._storages.key, outputs))
        for tensor in outputs:
            self._crossed.add(_GIVEN, tensor)
        output_bytes = self._sum(given, _GIVEN)
        for tensor in states:
            if (key := self._storages.key(tensor)) in self._made:
                self._crossed.add(_GIVEN, tensor)
                given.add(key)
        kept = self._storages.nbytes.keys() - self._sum_in.keys()
        before, inside = kept - self._made.keys(), kept - {self._sum_in.get(key, key) for key in given}
        again = _READ | _WRITTEN
        beside = self._sum(given - before, again) - self._sum(given - before, again | _GIVEN)
        moved = self._sum(inside, _WRITTEN) + self._sum(given, _WRITTEN | _GIVEN)
        moved += self._sum(inside - before, again) + 2 * beside
        return self._sum(before, _READ), None if is_unsure else moved, output_bytes

    def _sum(self, keys: Iterable[int], bits: int) -> int:
        return sum(self._crossed.bytes(key, bits) for key in keys)


class UntrackedWrites:
    """Detects memory written past torch: by a kernel bound to Python by hand, numpy, Python, or an earlier call.

    It follows what operations have written, and whether any reads memory that only something past torch has. What
    existed before may have any content. A new storage that no operation created, and that is freed, is foreign.
    Python may compute if a tensor of several numbers follows on fractions, or on whole numbers of the call, that left.
    """

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._made, self._read = set[int](), set[int]()

    def add(self, operation: Operation) -> None:
        """Record what the operation reads and writes."""
        self._read |= operation.reads
        self._storages.unwritten -= operation.written
        self._made |= operation.written | operation.fresh
        out = operation.out
        left = self._storages.left
        if operation.traits.name == "aten::_local_scalar_dense" and not isinstance(out, bool):
            left[isinstance(out, int)].update(operation.reads)
        elif operation.traits.name == "aten::lift_fresh":  # for the numbers of `torch.tensor`, and of `from_numpy`
            self._storages.is_read_outside |= out.numel() > 1 and bool(left[0] or self._made & left[1])
            if out.untyped_storage().resizable():
                self._made.add(self._storages.key(out))
        if operation.traits.leaves_unwritten:
            self._storages.unwritten |= operation.fresh
            if operation.fresh and "empty" in operation.traits.name:
                out.untyped_storage().fill_(_FILLER)

    def past_torch(self, known: Iterable[Tensor], outputs: Iterable[Tensor]) -> bool:
        """Return whether an output, or what an operation has read, was written past torch. `known` existed before."""
        before = {self._storages.key(tensor) for tensor in known}
        written = before | (self._made - self._storages.unwritten)
        passing = (self._read - self._made - before) & self._storages.freed
        given = (self._storages.key(tensor) for tensor in outputs if tensor.nbytes)
        return self._storages.is_read_outside or bool(passing) or not written.issuperset(given)
