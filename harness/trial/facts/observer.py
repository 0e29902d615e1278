"""Observes every operation that one call dispatches, including the backward pass, and passes it to the counters.

Limits: a kernel called past the dispatcher (a Triton or C++ function bound to Python) is not seen. A kernel registered
with `torch.library` is seen. During observation, autograd dispatches one `detach` for each saved output, and adds
gradients out of place.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.trial.facts.operations import Operation, Traits, tensors, traits
from harness.trial.facts.storages import Storages


class Count(Protocol):
    """A quantity that is accumulated over the operations of a call."""

    def add(self, operation: Operation) -> None:
        """Take one operation into account. Operations come in the order of dispatch."""


class Unobservable(Exception):
    """Raised if the call does something that cannot be followed."""


class Observer(TorchDispatchMode):
    """`with Observer(storages, counts): call()`. `ops` is the number of operations, including views."""

    # Without this, a layer with a higher-order operator (such as flex_attention) would raise.
    supports_higher_order_operators = True

    def __init__(self, storages: Storages, counts: Iterable[Count]) -> None:
        super().__init__()
        self.ops = 0
        self._storages = storages
        self._counts = tuple(counts)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would wrap the method below to keep the compiler out, and import the compiler for that: 0.7 s in each
        # trial. `observe` disables the compiler if it is loaded.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for kind in types:
            # nn.Parameter is also a class of its own, but does not change its operations.
            if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                raise Unobservable(f"its tensors are of a class of their own, {kind.__name__}, not torch.Tensor")
        kwargs = kwargs or {}
        of = traits(func)
        reads, written = self._touched(of, args, kwargs)
        out = func(*args, **kwargs)
        self.ops += 1
        # A view returns a storage in `before`: it creates nothing, and reads nothing yet.
        before = {*reads, *written}
        made = (self._storages.key(tensor) for tensor in tensors(out))
        fresh = [key for key in dict.fromkeys(made) if key not in before]
        is_view = not written and not fresh and bool(tensors(out))
        if of.relabels or is_view:
            reads, written = [], []
        elif of.takes_no_content:
            reads = []
        if of.written:
            self._remember_size(of, args, kwargs)
        operation = Operation(func, of, args, kwargs, out, reads, written, fresh)
        for count in self._counts:
            count.add(operation)
        return out

    def _touched(self, of: Traits, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[int], list[int]]:
        """Return the storages that are read and those that are written, each once."""
        reads: dict[int, None] = {}
        written: dict[int, None] = {}
        key = self._storages.key
        overwrites = of.overwrites and not self._accumulates(args, kwargs)
        for place, value in (*enumerate(args), *kwargs.items()):
            is_written = place in of.written
            for tensor in tensors(value):
                number = key(tensor)
                if is_written:
                    written[number] = None
                if not (is_written and overwrites):
                    reads[number] = None
        return list(reads), list(written)

    @staticmethod
    def _accumulates(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        # index_put_(…, accumulate=True) and scatter_(…, reduce="add") read what they write.
        return bool(kwargs.get("accumulate") or kwargs.get("reduce") or (len(args) > 3 and args[3] is True))

    def _remember_size(self, of: Traits, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # `out=` may have enlarged its argument.
        for place, value in (*enumerate(args), *kwargs.items()):
            if place in of.written:
                for tensor in tensors(value):
                    self._storages.nbytes[self._storages.key(tensor)] = tensor.untyped_storage().nbytes()
