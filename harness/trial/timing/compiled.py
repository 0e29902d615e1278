"""What was compiled in this process, how long that took, and that it is over before anything is timed."""

import gc
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

# A layer that compiles something new in so many calls in a row does so for ever.
_MOST_CALLS = 8


def compile_s(first_call_s: float, warm_call_s: float) -> float:
    """Seconds of the first call that were compilation: what it took beyond a warm one, if a compiler was at work.

    Where it was kept on disk, that is loading it. Without a compiler it is 0: a first call also starts thread pools and
    touches memory, and that is not compiling.
    """
    return max(0.0, first_call_s - warm_call_s) if compilations() > 0 else 0.0


def at_hand() -> bool:
    """Whether a compiler is in this process at all; else nothing was compiled, and nothing is to be looked for."""
    return any(name in sys.modules for name in ("torch._dynamo.utils", "triton.runtime.jit"))


def load(call: Callable[[], Any], sync: Callable[[], None]) -> float:
    """Call until a call compiles nothing more, and calls are what they are from then on. The first call's seconds."""
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
    """How many graphs torch.compile has made, or loaded from disk, and how many kernels Triton, in this process."""
    return graphs() + triton_kernels()


def asked_for() -> int:
    """How many functions torch.compile was given to look at, whatever came of it."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else dynamo.counters["frames"]["total"]


def graphs() -> int:
    """How many graphs torch.compile has made or loaded."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else dynamo.counters["stats"]["unique_graphs"]


def triton_kernels() -> int:
    """How many kernels Triton has, for torch's compiler or for somebody's own code."""
    triton = sys.modules.get("triton.runtime.jit")
    if triton is None:
        return 0
    # `type`, since asking some of torch's objects for their `__class__` warns.
    kernels = [thing for thing in gc.get_objects() if issubclass(type(thing), triton.JITFunction)]
    return sum(_versions(kernel) for kernel in kernels)


def compiled_anew() -> int:
    """How many of the graphs were compiled in this process, and not loaded from disk."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    told = {} if dynamo is None else dynamo.counters["inductor"]
    return sum(told.get(f"fxgraph_cache_{how}", 0) for how in ("miss", "bypass"))


def _versions(kernel: Any) -> int:
    """How many versions of a Triton kernel are compiled: by device, each for other types and constants."""
    # The name has changed with triton 3.2, and what it holds of each device: the versions, alone or with other things.
    by_device = getattr(kernel, "device_caches", None) or getattr(kernel, "cache", None) or {}
    versions = (held[0] if isinstance(held, tuple) else held for held in by_device.values())
    return sum(len(held) if isinstance(held, dict) else 1 for held in versions)
