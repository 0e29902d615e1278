"""Sequential operations: the longest chain in which each operation needs the result of the one before.

Followed per storage: an operation comes one after the deepest storage that it reads. A view adds nothing, memory
filled with a constant starts at 0, and what overwrites a slice depends on what is written and not on what was
there, so that `out[:, t] = f(x[:, t])` in a loop is no chain. An opaque kernel adds the inner depth that it declares.

It is the chain as it is run: where one tensor is used m times, autograd adds up its gradients one after the other, in m
− 1 sums. `attention.naive` so gets deeper with h in training, and not in a forward pass.

Limit: a storage is one thing. Two slices of one tensor that are changed in place each (the gates of `nn.GRU`
on the CPU) read as a chain though they need not wait for one another, so the count is from above. What
goes through Python (`item()`, then a branch on it) is not followed.
"""

from collections.abc import Callable

from harness.trial.facts.operations import Operation

# (length, of which declared); tuples compare by length first.
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
        """Operations on the longest chain."""
        return self._longest[0]

    @property
    def declared(self) -> int:
        """Those of them that stand for the inside of an opaque kernel."""
        return self._longest[1]

    def add(self, operation: Operation) -> None:
        """Put the operation behind what it reads."""
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
