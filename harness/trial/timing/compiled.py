"""Count what was compiled in this process, time it, and finish compilation before anything is timed."""

import gc
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

# A layer that compiles something new in this many calls in a row never stops compiling.
_MOST_CALLS = 8


def compile_s(first_call_s: float, warm_call_s: float) -> float:
    """Seconds that the first call spent on compilation: its excess over a warm call.

    If the compiled code was on disk, this is the time to load it. Without compiled code the result is 0: a first call
    also starts thread pools and touches memory, which is not compilation.
    """
    return max(0.0, first_call_s - warm_call_s) if compilations() > 0 else 0.0


def at_hand() -> bool:
    """Whether a compiler is imported in this process. If not, nothing was compiled, and no search is needed."""
    return any(name in sys.modules for name in ("torch._dynamo.utils", "triton.runtime.jit"))


def load(call: Callable[[], Any], sync: Callable[[], None]) -> float:
    """Call until a call compiles nothing new, at most `_MOST_CALLS` times. Return the first call's seconds."""
    first_call_s = 0.0
    for number in range(_MOST_CALLS):
        before, begin = compilations(), perf_counter()
        call()
        sync()
        if number == 0:
            first_call_s = perf_counter() - begin
        if compilations() == before:
            break
    return first_call_s


def compilations() -> int:
    """How many graphs torch.compile has made or loaded in this process, plus the number of Triton's kernels."""
    return graphs() + triton_kernels()


def asked_for() -> int:
    """How many functions torch.compile was given, whether it compiled them or not."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else dynamo.counters["frames"]["total"]


def graphs() -> int:
    """How many graphs torch.compile has made, or loaded from disk."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else dynamo.counters["stats"]["unique_graphs"]


def triton_kernels() -> int:
    """How many kernels Triton has compiled, for torch's compiler or for a user's own code. Each version counts."""
    triton = sys.modules.get("triton.runtime.jit")
    if triton is None:
        return 0
    # `type` is used because reading `__class__` of some of torch's objects raises a warning.
    kernels = [thing for thing in gc.get_objects() if issubclass(type(thing), triton.JITFunction)]
    return sum(_versions(kernel) for kernel in kernels)


def compiled_anew() -> int:
    """How many graphs were compiled in this process instead of loaded from disk."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    told = {} if dynamo is None else dynamo.counters["inductor"]
    return sum(told.get(f"fxgraph_cache_{how}", 0) for how in ("miss", "bypass"))


def _versions(kernel: Any) -> int:
    """How many versions of a Triton kernel are compiled. Versions differ in device, types and constants."""
    # Triton 3.2 changed the attribute's name and its values: the versions of a device, alone or first in a tuple.
    by_device = getattr(kernel, "device_caches", None) or getattr(kernel, "cache", None) or {}
    versions = (held[0] if isinstance(held, tuple) else held for held in by_device.values())
    return sum(len(held) if isinstance(held, dict) else 1 for held in versions)
