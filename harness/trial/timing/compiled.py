"""Whether the first call compiled something, and how long that took."""

import gc
import sys


def compile_s(first_call_s: float, warm_call_s: float) -> float:
    """Seconds of the first call that were compilation: what it took beyond a warm one, if a compiler was at work.

    Without one it is 0: a first call also starts thread pools and touches memory, and that is not compiling.
    """
    return max(0.0, first_call_s - warm_call_s) if _compiled() else 0.0


def _compiled() -> bool:
    """Whether torch.compile has made a graph, or Triton a kernel, in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and dynamo.counters["stats"]["unique_graphs"] > 0:
        return True
    triton = sys.modules.get("triton.runtime.jit")
    if triton is None:
        return False
    # `type`, since asking some of torch's objects for their `__class__` warns.
    kernels = [thing for thing in gc.get_objects() if issubclass(type(thing), triton.JITFunction)]
    # The name of a kernel's compiled versions has changed with triton 3.2.
    return any(getattr(kernel, "device_caches", None) or getattr(kernel, "cache", None) for kernel in kernels)
