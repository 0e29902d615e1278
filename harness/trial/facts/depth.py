"""Sequential depth: the longest chain in which each operation needs the result of the one before.

Chains are followed by storage. An operation comes one step after the deepest storage that it reads. A view adds
nothing, and memory filled with a constant starts at 0. Overwriting a slice depends on what is written, not on the old
content, so that `out[:, t] = f(x[:, t])` in a loop is no chain. An opaque kernel adds the inner depth that it declares.

The chain is the one that ran: if a tensor is used m times, autograd adds its gradients one after another, in m − 1
sums. `attention.naive` therefore gets deeper with h in training, but not in a forward pass.

Limits: each storage is tracked as a whole. Two slices of one tensor that are changed in place (the gates of `nn.GRU` on
the CPU) count as a chain although neither waits for the other. The count is therefore an upper bound. Dependencies
through Python (`item()`, then a branch on it) are not followed.
"""

from collections.abc import Callable

from harness.trial.facts.operations import Operation

# (length, operations in it that are declared); tuples compare by length first.
_Chain = tuple[int, int]
_NOTHING: _Chain = (0, 0)


class Depth:
    """`length` of the longest chain, and how many of its operations are `declared` by opaque kernels, not observed."""

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
