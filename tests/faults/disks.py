"""Disks that fill up, and directories that nobody may write to, for root as well."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1
_LIBC = ctypes.CDLL(None)  # loaded here: a child of a process with threads must not load anything


def mount(*arguments: str) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, text=True)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess([], 1, "", str(error))


@contextmanager
def mounted(place: Path, size: str) -> Iterator[subprocess.CompletedProcess]:
    """A file system of that size at `place`, and how `mount` ended: only root may do that."""
    done = mount("-t", "tmpfs", "-o", f"size={size}", "none", str(place))
    try:
        yield done
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def obey_permissions() -> None:
    """Give up root's capability to write to any directory; for `preexec_fn`."""
    if os.geteuid() == 0 and _LIBC.prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
        raise OSError("root's capability cannot be dropped here")
