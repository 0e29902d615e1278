"""Observe every operation that one call dispatches, including the backward pass, and pass it to the counters.

Limits: a kernel called past the dispatcher (a Triton or C++ function bound to Python) is not seen. A kernel registered
with `torch.library` is seen. During observation, autograd dispatches one `detach` for each saved output, and adds
gradients out of place.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

# These write in place, and the old content does not enter the result.
_OVERWRITES = frozenset(
    (
        *("aten::copy_", "aten::fill_", "aten::zero_"),
        *("aten::index_put_", "aten::_index_put_impl_", "aten::index_copy_", "aten::index_fill_", "aten::scatter_"),
        *("aten::uniform_", "aten::normal_", "aten::bernoulli_", "aten::random_", "aten::exponential_"),
        *("aten::log_normal_", "aten::cauchy_", "aten::geometric_"),
    )
)
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
        overwrites=name in _OVERWRITES or (bool(mutated) and all(a.is_out for _, a in mutated)),
        relabels=torch.Tag.inplace_view in func.tags,
        takes_no_content=name.startswith("aten::") and short.startswith(_SHAPED_AFTER),
        leaves_unwritten=name.startswith("aten::") and short.startswith(_UNWRITTEN),
    )


def tensors_of(value: Any) -> list[Tensor]:
    """Return the tensors in an argument or a result: the value itself, or those in its list or tuple."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [found for item in value for found in tensors_of(item)]
    return []


class Storages:
    """A unique number for each storage of an observed call, never reused. Tensors that share memory have the same one.

    A storage's own address could be reused after it is freed. A weak reference reserves the address and still lets the
    memory go.
    """

    def __init__(self) -> None:
        self.nbytes: dict[int, int] = {}
        self._held: dict[int, StorageWeakRef] = {}

    def key(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's storage. From then on, `nbytes` holds its size."""
        storage = tensor.untyped_storage()
        key: int = storage._cdata
        if key not in self.nbytes:
            self._held[key] = StorageWeakRef(storage)
            self.nbytes[key] = storage.nbytes()
        return key

    def freed(self) -> set[int]:
        """Return the numbers of the storages whose memory has been freed."""
        return {key for key, held in self._held.items() if held.expired()}


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
        # trial. `trace_call` disables the compiler if it is loaded.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for kind in types:
            # nn.Parameter is also a class of its own, but does not change its operations.
            if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                raise Unobservable(f"its tensors are of a class of their own, {kind.__name__}, not torch.Tensor")
        kwargs = kwargs or {}
        of = operation_traits(func)
        reads, written = self._touched(of, args, kwargs)
        out = func(*args, **kwargs)
        self.ops += 1
        # A view returns a storage in `before`: it creates nothing, and reads nothing yet.
        before = {*reads, *written}
        made = (self._storages.key(tensor) for tensor in tensors_of(out))
        fresh = [key for key in dict.fromkeys(made) if key not in before]
        is_view = not written and not fresh and bool(tensors_of(out))
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

    def _touched(
        self, of: OperationTraits, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[int], list[int]]:
        """Return the storages that are read and those that are written, each once."""
        reads: dict[int, None] = {}
        written: dict[int, None] = {}
        key = self._storages.key
        overwrites = of.overwrites and not self._accumulates(args, kwargs)
        for place, value in (*enumerate(args), *kwargs.items()):
            is_written = place in of.written
            for tensor in tensors_of(value):
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

    def _remember_size(self, of: OperationTraits, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # `out=` may have enlarged its argument.
        for place, value in (*enumerate(args), *kwargs.items()):
            if place in of.written:
                for tensor in tensors_of(value):
                    self._storages.nbytes[self._storages.key(tensor)] = tensor.untyped_storage().nbytes()
