"""What the forward pass leaves alive for the backward pass."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from harness.trial.facts.storages import Storages


def saved_bytes(layer: nn.Module, call: Callable[[], Any], leaves: Iterable[Tensor]) -> int:
    """Bytes of the storages that autograd has saved when the forward pass ends, each once; `leaves` were there before.

    A tensor that a `torch.autograd.Function` keeps as its own attribute is not seen.
    """
    storages = Storages()
    before = {storages.key(leaf) for leaf in leaves}
    packed: set[int] = set()
    alive: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        packed.add(storages.key(tensor))
        return tensor

    def forward_has_ended(*_: object) -> None:
        # What was saved for a graph that is already gone is none of the backward pass's.
        alive.append(sum(storages.nbytes[key] for key in packed - before - storages.freed()))

    hook = layer.register_forward_hook(forward_has_ended)
    try:
        with saved_tensors_hooks(pack, lambda tensor: tensor):
            call()
    finally:
        hook.remove()
    return alive[0]
