"""POSIX shared memory that a trial made and did not unlink: noted by name, and unlinked after the trial.

Other programs of the same user make shared memory at the same time, and may attach to it later by its name. So only
names known to come from the trial are unlinked: those that Python's `multiprocessing.shared_memory` created in the
trial or in its forked children, and torch's, which begin with the number of the trial's process.
"""

import contextlib
import glob
import mmap
import os
import time
from pathlib import Path
from typing import Any

# File times are those of the kernel's last tick, a few milliseconds ago.
_ROUNDING_S = 0.1
_DIRECTORY = Path("/dev/shm")
# File name patterns, each ended by a zero byte. Anonymous and shared with every process forked from this one: neither
# a full disk nor a closed descriptor stops a trial from noting, and a layer cannot fill it beyond its size.
_noted = mmap.mmap(-1, 2**16)
# When this process began, in seconds since the epoch: what is older belongs to others.
_BEGAN = time.time() - _ROUNDING_S


def note_trial(pid: int) -> None:
    """Note the names that torch gives shared memory in the process `pid`."""
    _note(f"torch_{pid}_*")


def note_names() -> None:
    """Note from now on every name that `multiprocessing.shared_memory` creates in this process or a fork of it."""
    try:
        import _posixshmem  # type: ignore[import-not-found]
    except ImportError:  # a Python built without it
        return
    shm_open = _posixshmem.shm_open

    def noting(path: str, flags: int, *mode: Any, **more: Any) -> int:
        descriptor: int = shm_open(path, flags, *mode, **more)
        if flags & os.O_CREAT and flags & os.O_EXCL:
            _note(glob.escape(path.lstrip("/")))
        return descriptor

    _posixshmem.shm_open = noting


def unlink_noted() -> None:
    """Unlink what is left of the noted names, and forget them."""
    patterns = os.fsdecode(_noted[:].rstrip(b"\0")).split("\0")
    _noted[:] = bytes(len(_noted))
    for pattern in filter(None, patterns):
        for left in _DIRECTORY.glob(pattern):
            with contextlib.suppress(OSError):
                if left.stat().st_mtime >= _BEGAN:  # containers may share this directory, and not process numbers
                    left.unlink()


def _note(pattern: str) -> None:
    end = len(_noted[:].rstrip(b"\0"))
    entry = b"\0" * (end > 0) + os.fsencode(pattern)
    if end + len(entry) <= len(_noted):
        _noted[end : end + len(entry)] = entry
