"""Memory that the forward pass saves for the backward pass."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from harness.trial.facts.storages import Storages


def saved_bytes(layer: nn.Module, call: Callable[[], Any], leaves: Iterable[Tensor]) -> int:
    """Return the bytes of the storages that autograd has saved when the forward pass ends, each counted once.

    `leaves` existed before and are not counted. A tensor that a `torch.autograd.Function` keeps as its own attribute is
    not seen.
    """
    storages = Storages()
    before = {storages.key(leaf) for leaf in leaves}
    packed: set[int] = set()
    alive: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        packed.add(storages.key(tensor))
        return tensor

    def forward_has_ended(*_: object) -> None:
        # Storages saved for a graph that is already freed do not serve the backward pass.
        alive.append(sum(storages.nbytes[key] for key in packed - before - storages.freed()))

    hook = layer.register_forward_hook(forward_has_ended)
    try:
        with saved_tensors_hooks(pack, lambda tensor: tensor):
            call()
    finally:
        hook.remove()
    return alive[0]
