"""Counters over the operations of one call: sequential depth, least memory traffic, and memory written past torch."""

from collections.abc import Callable, Iterable

import torch

from harness.trial.metrics.operations import Operation, Storages, tensors_of

# (length, operations in it that are declared); tuples compare by length first.
_Chain = tuple[int, int]
_NOTHING: _Chain = (0, 0)


class Depth:
    """Sequential depth: the longest chain in which each operation needs the result of the one before.

    `length` is the length of the chain. Opaque kernels declare `declared` of its operations, which are not observed.

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
        self._after: dict[int, _Chain] = {}
        self._longest = _NOTHING

    @property
    def length(self) -> int:
        """Number of operations on the longest chain."""
        return self._longest[0]

    @property
    def declared(self) -> int:
        """Number of those operations that stand for the inside of an opaque kernel."""
        return self._longest[1]

    def add(self, operation: Operation) -> None:
        """Add an operation after everything that it reads."""
        if not (operation.fresh or operation.written):
            return
        chain = _NOTHING
        if operation.reads:
            length, declared = max(self._after.get(key, _NOTHING) for key in operation.reads)
            inner = self._declared_by(operation)
            chain = (length + 1, declared) if inner is None else (length + inner, declared + inner)
            self._longest = max(self._longest, chain)
        for key in operation.fresh:
            self._after[key] = chain
        for key in operation.written:
            self._after[key] = max(self._after.get(key, _NOTHING), chain)


class Traffic:
    """The least memory traffic that the call's operations can achieve, in bytes of storages.

    - Weights, inputs and outputs are transferred once.
    - An intermediate result that is materialised (new memory from an operation that is not a view) is written once. If
      anything reads it, it is read once: caches may serve all further reads.
    - A mask or a cache that the layer holds from before is read once.
    - Gradients are added in place if autograd owns the sum, so the sum is no new memory.
    """

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._made: dict[int, bool] = {}  # storage -> whether it was created in the backward pass
        self._written: set[int] = set()
        self._read: set[int] = set()
        self._sum_in: dict[int, int] = {}

    def add(self, operation: Operation) -> None:
        """Record what the operation creates, writes and reads."""
        reads = [self._root(key) for key in operation.reads]
        self._read.update(reads)
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

    def bytes(self, leaves: Iterable[torch.Tensor], outputs: Iterable[torch.Tensor]) -> int:
        """Return the bytes materialised between `leaves` (weights, inputs) and `outputs`."""
        apart = {self._root(self._storages.key(tensor)) for tensor in (*leaves, *outputs)}
        size, between = self._storages.nbytes, self._made.keys() - apart
        # Masks, caches and states that existed before and are neither weights nor inputs.
        constants = self._read - self._made.keys() - apart
        return sum(size[key] for key in constants) + sum(
            size[key] for crossing in (self._written, self._read) for key in crossing & between
        )

    def _root(self, key: int) -> int:
        while key in self._sum_in:
            key = self._sum_in[key]
        return key


# Dispatched by `torch.tensor` for its numbers, and by `torch.from_numpy` for memory of another library, which cannot be
# resized.
_TAKES_IN = "aten::lift_fresh"


class UntrackedWrites:
    """Detects memory written past torch: by a kernel bound to Python by hand, by numpy, or by an earlier call.

    It follows which memory the operations of a call have written, and whether any reads memory that none has written.
    Storages that existed before the call may have any content. Storages allocated during it start unwritten. A storage
    that no dispatched operation created and that is freed again was made outside torch during the call.
    `somebody_elses`: memory that is not torch's entered the call.
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
        if not _ignores_its_sum(operation):
            unwritten = self._unwritten.intersection(operation.reads)
            self._unwritten_was_read |= any(self._storages.nbytes[key] for key in unwritten)
        self._unwritten.difference_update(operation.written)
        self._made.update(operation.written, operation.fresh)
        if operation.traits.name == _TAKES_IN:
            for tensor in tensors_of(operation.out):
                if tensor.untyped_storage().resizable():
                    self._made.add(self._storages.key(tensor))
                else:
                    self.somebody_elses = True
        if operation.traits.leaves_unwritten:
            self._unwritten.update(operation.fresh)

    def past_torch(self, known: Iterable[torch.Tensor], outputs: Iterable[torch.Tensor]) -> bool:
        """Return whether an output, or anything an operation has read, was written past torch.

        `known` existed before.
        """
        before = {self._storages.key(tensor) for tensor in known}
        written = before | (self._made - self._unwritten)
        passing = (self._read - self._made - before) & self._storages.freed()
        given = (self._storages.key(tensor) for tensor in outputs if tensor.nbytes)
        return self._unwritten_was_read or bool(passing) or not written.issuperset(given)


def _ignores_its_sum(operation: Operation) -> bool:
    """Return whether the operation is like `baddbmm(sum, a, b, beta=0)`, which uses only the shape of `sum`."""
    return bool(operation.kwargs.get("beta", 1) == 0)
