"""Which operators a call dispatches, of what, and how large what they make is."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Watch(TorchDispatchMode):
    """`names` of the operators, the `shapes` of the tensors that each was last given, the elements of the `largest`."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.shapes: dict[str, list[tuple[int, ...]]] = {}
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.names.append(func.name().partition(".")[0])
        self.shapes[self.names[-1]] = [tuple(given.shape) for given in args if isinstance(given, torch.Tensor)]
        for made in out if isinstance(out, tuple | list) else (out,):
            if isinstance(made, torch.Tensor):
                self.largest = max(self.largest, made.numel())
        return out


def watched(call: Callable[[], Any]) -> Watch:
    with Watch() as watch:
        call()
    return watch
