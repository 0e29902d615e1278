"""Configure the C library's allocator, so that large blocks cause page faults either at every call or never.

By default, glibc returns a freed block to the kernel if its size exceeds a threshold. The threshold depends on earlier
blocks. So a layer's past decides whether its n × n scores are new memory at every call, zeroed page by page. See
mallopt(3), M_MMAP_THRESHOLD.
"""

import ctypes
import resource
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from harness.trial.build import Unsupported

# Parameter numbers of `mallopt` in malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
# glibc's own initial threshold and number of mapped blocks. A threshold set explicitly no longer changes.
_FRESH_BYTES = 128 * 1024
_FRESH_BLOCKS = 65536

# A heap that keeps its memory has reached its size after `_SETTLED_CALLS` calls in a row with at most `_SETTLED_FAULTS`
# page faults each. `_MOST_CALLS` bounds the calls.
_SETTLED_CALLS = 6
_SETTLED_FAULTS = 16
_MOST_CALLS = 40

# `mallopt` parameters and values, in order.
_SETTINGS = {
    "default": (),
    # No block is mapped separately and none is returned. Memory stays once touched, and causes no further faults.
    "steady": ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1)),
    # Every large block is mapped separately and returned when freed, so it causes faults at every call.
    "fresh": ((_M_MMAP_MAX, _FRESH_BLOCKS), (_M_MMAP_THRESHOLD, _FRESH_BYTES), (_M_TRIM_THRESHOLD, _FRESH_BYTES)),
}


def set_allocator(name: str) -> None:
    """Configure the allocator of this process as `default`, `steady` or `fresh`.

    Raises Unsupported if the C library is not glibc or refuses the setting.
    """
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
    """Call until a heap that keeps its memory no longer grows. The page faults of growing then occur before timing.

    Return the seconds of the first call, in which a layer is compiled.
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
