"""Change a workload's input between calls, so that the result of an earlier call is wrong for the next one."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

# Factors are slices of a longer row, drawn once. A slice needs no copy to the GPU; a copy would wait for its queue.
_SPARE = 4096
# Magnitudes stay within this share of the drawn ones.
_SPREAD = 0.1


class Renewal:
    """A change of the input. Calling the object multiplies rows and columns of all `tensors` by random factors.

    The factors are close to 1 or −1, and the tensors are changed in place. Every value becomes one not seen before, and
    sums, hashes and the version counter change too. An honest layer costs the same. Zeros stay, no value becomes
    denormal, and no large memory is allocated. The tensor was just written, as after a preceding layer, and uses the
    cache as before.

    A layer may change its input. Call `look` once after the first call to find out. If it does, each renewal starts
    from the first values. Otherwise the input would grow or shrink from call to call.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._first: list[Tensor] = [tensor.detach().clone() for tensor in tensors]
        self._versions = [tensor._version for tensor in tensors]
        self._draw = random.Random(0)
        draws = torch.Generator().manual_seed(0)
        self._rows = [(tensor, dim, _factors(tensor, dim, draws)) for tensor in tensors for dim in (-2, -1)]
        # The present factors of the tensors. The next renewal divides by them.
        self._applied = [torch.ones_like(row.narrow(dim, 0, tensor.shape[dim])) for tensor, dim, row in self._rows]

    def look(self) -> bool:
        """Whether the calls since the construction have changed the input. If not, drop the copies of the tensors."""
        changed = any(
            tensor._version != version or not torch.equal(tensor, first)
            for tensor, version, first in zip(self._tensors, self._versions, self._first, strict=True)
        )
        if not changed:
            self._first.clear()
        return changed

    @property
    def restores(self) -> bool:
        """Whether each renewal starts from the first values, because the layer changes its input."""
        return bool(self._first)

    def __call__(self) -> None:
        with torch.no_grad():
            for tensor, first in zip(self._tensors, self._first, strict=False):
                tensor.copy_(first)
            for number, (tensor, dim, row) in enumerate(self._rows):
                factors = row.narrow(dim, self._draw.randrange(_SPARE), tensor.shape[dim])
                tensor.mul_(factors if self._first else factors / self._applied[number])
                self._applied[number] = factors


def _factors(tensor: Tensor, dim: int, draws: torch.Generator) -> Tensor:
    """Random factors along one dimension of the tensor, `_SPARE` more than the dimension's size."""
    shape = [1] * tensor.dim()
    shape[dim] = tensor.shape[dim] + _SPARE
    signs = 2 * torch.randint(0, 2, shape, generator=draws) - 1
    return (signs * (1 - _SPREAD / 2 + _SPREAD / 2 * torch.rand(shape, generator=draws))).to(tensor)
