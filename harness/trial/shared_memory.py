"""Unlink the POSIX shared memory that a trial created and left behind.

Other programs of the same user create shared memory at the same time, and may attach to it later by its name.
Therefore only names known to come from the trial are unlinked. Python's `multiprocessing.shared_memory` creates some,
in the trial or in its forked children. Torch creates others, which contain the number of the trial's process. Further
ones, created by C code, are new files that the trial still maps or holds open before its answer.
"""

import contextlib
import glob
import mmap
import os
import time
from pathlib import Path
from typing import Any

# The kernel sets file times to its last tick, which is a few milliseconds ago.
_ROUNDING_S = 0.1
_DIRECTORY = Path("/dev/shm")
# File name patterns, separated by zero bytes, in anonymous memory shared with every process forked from this one.
# Neither a full disk nor a closed descriptor keeps a trial from noting a name, and the memory cannot grow.
_noted = mmap.mmap(-1, 2**16)
# When this process began, in seconds since the epoch. Older files belong to other programs.
_BEGAN = time.time() - _ROUNDING_S


def note_trial(pid: int) -> None:
    """Note the names that torch gives to shared memory in the process `pid`."""
    _note(f"torch_{pid}_*")


def note_names() -> None:
    """Note each name that `multiprocessing.shared_memory` creates from now on, in this process or a fork of it."""
    try:
        import _posixshmem  # type: ignore[import-not-found]
    except ImportError:  # this Python was built without the module
        return
    shm_open = _posixshmem.shm_open

    def noting(path: str, flags: int, *mode: Any, **more: Any) -> int:
        descriptor: int = shm_open(path, flags, *mode, **more)
        if flags & os.O_CREAT and flags & os.O_EXCL:
            _note(glob.escape(path.lstrip("/")))
        return descriptor

    _posixshmem.shm_open = noting


def note_used(began: float) -> None:
    """Note the names of shared memory that was created since `began`, in seconds, and that this process uses."""
    own = os.getuid()
    try:
        with os.scandir(_DIRECTORY) as entries:
            new = [entry.path for entry in entries if _is_since(entry, began - _ROUNDING_S, own)]
    except OSError:  # this system has no such directory
        return
    if not new:
        return
    used = {line.split(maxsplit=5)[5] for line in _lines("/proc/self/maps") if line.count("/")}
    used.update(_links("/proc/self/fd"))
    for path in used.intersection(new):
        _note(glob.escape(os.path.basename(path)))


def unlink_noted() -> None:
    """Unlink the shared memory of the noted names that still exists, and clear the notes."""
    patterns = os.fsdecode(_noted[:].rstrip(b"\0")).split("\0")
    _noted[:] = bytes(len(_noted))
    for pattern in filter(None, patterns):
        for left in _DIRECTORY.glob(pattern):
            with contextlib.suppress(OSError):
                if left.stat().st_mtime >= _BEGAN:  # containers may share this directory but not process numbers
                    left.unlink()


def _is_since(entry: os.DirEntry[str], began: float, owner: int) -> bool:
    """Whether a file of `owner` was written or created since `began`."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # another program removed it
        return False
    return status.st_uid == owner and status.st_ctime >= began


def _lines(path: str) -> list[str]:
    return Path(path).read_text(errors="surrogateescape").splitlines()


def _links(directory: str) -> list[str]:
    """Where the links in the directory point to."""
    found = []
    for name in os.listdir(directory):
        with contextlib.suppress(OSError):  # the descriptor that lists the directory is closed by now
            found.append(os.readlink(os.path.join(directory, name)))
    return found


def _note(pattern: str) -> None:
    end = len(_noted[:].rstrip(b"\0"))
    entry = b"\0" * (end > 0) + os.fsencode(pattern)
    if end + len(entry) <= len(_noted):
        _noted[end : end + len(entry)] = entry
