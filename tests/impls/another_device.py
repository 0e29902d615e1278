"""A second device without a GPU: what a case asks of `cuda` is put on torch's device `meta`, where tensors have a
shape, a dtype and a device, and no content.

Why not FakeTensorMode, whose tensors say that they are on `cuda`: a build of torch without CUDA ends the process at the
first of them that has a gradient, for want of a device guard. `meta` has one, and a backward pass.

What is found out: an operation on tensors of two devices, a call that makes something on the CPU, and one that waits
for a number (`item`, `bool`, `nonzero`), for which `meta` has no answer. Not covered: what kernels compute, and cuDNN's
kernels of recurrent layers, in whose place ATen's loops run.
"""

from contextlib import ExitStack
from types import TracebackType
from typing import Any
from unittest import mock

import cuda_attention
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.core.trial import device

THERE = torch.device("meta")
# They are there to bring something from one device to another.
_CARRIERS = ("aten::_to_copy", "aten::copy_")


class OnTwoDevices(Exception):
    """An operation would get tensors of two devices, or a call works on the CPU."""


class AnotherDevice:
    """Inside of it there is a `cuda`. While `alone` is True all that is taken and made must be there."""

    def __init__(self) -> None:
        self._watched = _Watched()
        self._modes = ExitStack()

    def __enter__(self) -> "AnotherDevice":
        self._modes.enter_context(self._watched)
        self._modes.enter_context(_Redirected())
        # Within functions of torch that are Python themselves, the mode before sees no more calls.
        patched = mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", cuda_attention.attention)
        self._modes.enter_context(patched)
        self._modes.enter_context(mock.patch.dict(device.WAITS, {"cuda": lambda: None}))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._modes.close()

    @property
    def alone(self) -> bool:
        return self._watched.alone

    @alone.setter
    def alone(self, alone: bool) -> None:
        self._watched.alone = alone


class _Watched(TorchDispatchMode):
    alone = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = _tensors([*args, *(kwargs or {}).values()])
        # A number may be anywhere: it goes to the kernel as an argument.
        devices = {tensor.device.type for tensor in given if tensor.dim() > 0 or tensor.device == THERE}
        if len(devices) > 1 and not func.name().startswith(_CARRIERS):
            raise OnTwoDevices(f"{func.name()} gets tensors on {' and '.join(sorted(devices))}")
        if self.alone and "cpu" in devices:
            raise OnTwoDevices(f"{func.name()} takes something from the CPU within a call")
        out = func(*args, **kwargs or {})
        if self.alone and any(tensor.device != THERE for tensor in _tensors(out)):
            raise OnTwoDevices(f"{func.name()} makes something on the CPU within a call")
        return out


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


class _Redirected(TorchFunctionMode):
    """Calls of torch, `cuda` among their arguments replaced, and attention's kernels chosen as CUDA chooses them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: _redirected(value) for name, value in (kwargs or {}).items()}
        args = tuple(_redirected(value) for value in args)
        name = getattr(func, "__name__", "")
        if name in ("_fused_sdp_choice", "scaled_dot_product_attention") and args[0].device == THERE:
            return (cuda_attention.choice if name == "_fused_sdp_choice" else cuda_attention.attention)(*args, **kwargs)
        return func(*args, **kwargs)


def _redirected(value: Any) -> Any:
    return THERE if isinstance(value, str | torch.device) and str(value).startswith("cuda") else value
