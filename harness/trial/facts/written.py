"""Detects memory written past torch: by a kernel bound to Python by hand, by numpy, or by an earlier call."""

from collections.abc import Iterable

import torch

from harness.trial.facts.operations import Operation, tensors
from harness.trial.facts.storages import Storages

# Dispatched by `torch.tensor` for its numbers, and by `torch.from_numpy` for memory of another library, which cannot be
# resized.
_TAKES_IN = "aten::lift_fresh"


class Written:
    """Follows which memory the operations of a call have written, and whether any reads memory that none has written.

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
            for tensor in tensors(operation.out):
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
