"""Temporary directories for trials, below the system's temporary directory."""

import contextlib
import os
import platform
import shutil
import tempfile
import zlib
from pathlib import Path

# Short, because a layer may create sockets in the directory: their path has at most 107 characters.
_PREFIX = "attn-"


def make() -> Path:
    """Make a new directory named after this process. Remove those left by processes that have ended.

    The name also identifies the host and the PID namespace. Several hosts or namespaces may share the parent directory,
    and each numbers its processes independently.
    """
    ours = f"{_PREFIX}{zlib.crc32(f'{platform.node()} {_pid_namespace()}'.encode()) & 0xFFFFF:x}-"
    for left in Path(tempfile.gettempdir()).glob(f"{ours}*-*"):
        number = left.name.removeprefix(ours).partition("-")[0]
        if number.isdigit() and not _is_running(int(number)):
            remove(left)
    return Path(tempfile.mkdtemp(prefix=f"{ours}{os.getpid()}-"))


def remove(directory: Path) -> None:
    """Remove the directory with its content as far as possible, even if a layer has removed its own permissions."""
    with contextlib.suppress(RecursionError):  # a layer may nest a thousand directories
        for at, names, _ in os.walk(directory):
            for path in (os.path.join(at, name) for name in names):
                if not os.path.islink(path):  # a link may lead out of the directory
                    with contextlib.suppress(OSError):
                        os.chmod(path, 0o700)
        shutil.rmtree(directory, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process
        pass
    return True


def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # not on Linux
        return 0
