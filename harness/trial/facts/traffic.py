"""The least memory traffic that the call's operations can achieve.

- Weights, inputs and outputs are transferred once.
- An intermediate result that is materialised (new memory from an operation that is not a view) is written once. If
  anything reads it, it is read once: caches may serve all further reads.
- A mask or a cache that the layer holds from before is read once.
- Gradients are added in place if autograd owns the sum, so the sum is no new memory.
"""

from collections.abc import Iterable

import torch

from harness.trial.facts.operations import Operation
from harness.trial.facts.storages import Storages


class Traffic:
    """Follows what is created, written and read. Bytes are those of storages."""

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
