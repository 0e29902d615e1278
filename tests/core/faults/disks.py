"""Small disks, and processes without write permission, even for root."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
_LIBC = ctypes.CDLL(None)  # loaded now, because a forked child of a process with threads must not load libraries


def mount(*arguments: str) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, text=True)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess([], 1, "", str(error))


@contextmanager
def mounted(place: Path, size: str) -> Iterator[subprocess.CompletedProcess]:
    """Mount a file system of that size at `place`, and yield the result of `mount`. It fails unless run as root."""
    done = mount("-t", "tmpfs", "-o", f"size={size}", "none", str(place))
    try:
        yield done
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def give_shared_memory(directory: bytes) -> None:
    """Mount the directory over /dev/shm for this process and its children. For `preexec_fn`.

    Only root may do this. For other users nothing changes, and the directory stays empty.
    """
    if _LIBC.unshare(_CLONE_NEWNS) == 0:
        _LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
        _LIBC.mount(directory, b"/dev/shm", None, _MS_BIND, None)


def obey_permissions() -> None:
    """Drop root's capability to write to any directory. For `preexec_fn`. Raises OSError if that fails."""
    if os.geteuid() == 0 and _LIBC.prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
        raise OSError("root's capability cannot be dropped here")
