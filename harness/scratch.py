"""Temporary directories for trials, below the system's temporary directory."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

# Short: a layer may make sockets below, whose path has 107 characters at most.
_PREFIX = "attn-"


def make() -> Path:
    """Make a new directory, named for this process. Remove those of processes that ended without removing theirs.

    The name tells the PID namespace as well, as containers may share a directory and not their process numbers.
    """
    ours = f"{_PREFIX}{_pid_namespace():x}-"
    for left in Path(tempfile.gettempdir()).glob(f"{ours}*-*"):
        number = left.name.removeprefix(ours).partition("-")[0]
        if number.isdigit() and not _is_running(int(number)):
            remove(left)
    return Path(tempfile.mkdtemp(prefix=f"{ours}{os.getpid()}-"))


def remove(directory: Path) -> None:
    """Remove the directory and its content as far as possible, even where a layer has withdrawn its own permissions."""
    for at, names, _ in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(at, name), 0o700, follow_symlinks=os.chmod not in os.supports_follow_symlinks)
    shutil.rmtree(directory, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        pass
    return True


def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino & 0xFFFFF
    except OSError:  # not on Linux
        return 0
