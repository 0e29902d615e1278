"""Fix the C library's allocator, so that page faults are either always paid or never.

By default glibc returns a large block to the kernel when it is freed, and moves the size from which on it does so with
what it has seen. Whether a layer's n × n scores are new memory at every call, zeroed page by page, is then a matter
of its past: mallopt(3), M_MMAP_THRESHOLD.
"""

import ctypes
import resource
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from harness.trial.build import Unsupported

# From malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
# glibc's own first threshold and number of mapped blocks; a threshold set by hand no longer moves.
_FRESH_BYTES = 128 * 1024
_FRESH_BLOCKS = 65536

# A kept heap has reached its size when so many calls in a row fault no more than so often.
_SETTLED_CALLS = 6
_SETTLED_FAULTS = 16
_MOST_CALLS = 40

# `mallopt` parameters and values, in order.
_SETTINGS = {
    "default": (),
    # Nothing is mapped by itself and nothing returned: once touched, memory stays, and faults are never paid again.
    "steady": ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1)),
    # Every large block is mapped, and returned when freed: its faults are paid at every call.
    "fresh": ((_M_MMAP_MAX, _FRESH_BLOCKS), (_M_MMAP_THRESHOLD, _FRESH_BYTES), (_M_TRIM_THRESHOLD, _FRESH_BYTES)),
}


def set_allocator(name: str) -> None:
    """Make this process allocate as `name` says: `default`, `steady` or `fresh`. Raises Unsupported where
    the C library is not glibc, or does not take the setting."""
    settings = _SETTINGS[name]
    if not settings:
        return
    library = ctypes.CDLL(None)
    if sys.platform != "linux" or not hasattr(library, "gnu_get_libc_version"):
        raise Unsupported(f"allocator={name} needs glibc: measure with allocator=default")
    for parameter, value in settings:
        if not library.mallopt(parameter, value):
            raise Unsupported(f"allocator={name}: glibc refused mallopt({parameter}, {value})")


def settle(call: Callable[[], Any]) -> float:
    """Call until the heap, of which nothing is given back, no longer grows: the faults of growing are paid here.

    Returns the seconds of the first call, in which a layer is compiled.
    """
    first_call_s, quiet, calls = 0.0, 0, 0
    while quiet < _SETTLED_CALLS and calls < _MOST_CALLS:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        start = perf_counter()
        call()
        first_call_s = first_call_s or perf_counter() - start
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        quiet = quiet + 1 if faults <= _SETTLED_FAULTS else 0
        calls += 1
    return first_call_s
