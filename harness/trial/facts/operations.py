"""What the declaration of a dispatched operation shows: what it reads, overwrites, or only relabels."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

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
class Traits:
    """Traits of one operator. `written` holds the positions and names of arguments that it mutates.

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
    traits: Traits
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
def traits(func: Any) -> Traits:
    """Return the traits of an operator. One without a schema (a higher-order operator) is assumed to mutate nothing."""
    if not isinstance(func, OpOverload):
        return Traits(func.name())
    name = func.name().partition(".")[0]
    short = name.partition("::")[2]
    arguments = list(enumerate(func._schema.arguments))
    mutated = [(i, a) for i, a in arguments if a.alias_info is not None and a.alias_info.is_write]
    written = frozenset(key for i, a in mutated for key in (i, a.name))
    return Traits(
        name,
        written,
        overwrites=name in _OVERWRITES or (bool(mutated) and all(a.is_out for _, a in mutated)),
        relabels=torch.Tag.inplace_view in func.tags,
        takes_no_content=name.startswith("aten::") and short.startswith(_SHAPED_AFTER),
        leaves_unwritten=name.startswith("aten::") and short.startswith(_UNWRITTEN),
    )


def tensors(value: Any) -> list[Tensor]:
    """Return the tensors in an argument or a result: the value itself, or those in its list or tuple."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [found for item in value for found in tensors(item)]
    return []
