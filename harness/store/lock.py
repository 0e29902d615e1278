"""Allow one writer of a run at a time. A file in the directory names the holder, and the kernel holds the lock.

The kernel releases a lock when its process ends, for whatever reason. A file without a lock is therefore stale, unless
another machine wrote it. The kernel of this machine does not see the locks of others.
"""

import contextlib
import errno
import fcntl
import json
import os
import platform
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.errors import UsageError

NAME = "lock.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
# Errors of file systems without locks. The content of the file is then the only evidence.
_NO_LOCKS = (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK)


class Lock:
    """Context manager that holds the run at `out`. With `make` it creates the directory if necessary.

    Entering raises UsageError if another process holds the run, or if the directory is not writable. After entering,
    `left_by` names a holder that ended without releasing the run.
    """

    def __init__(self, out: Path, make: bool = True) -> None:
        self._out, self._path, self._make = out, out / NAME, make
        self._file = -1
        self.left_by: str | None = None

    def __enter__(self) -> "Lock":
        try:
            if self._make:
                self._out.mkdir(parents=True, exist_ok=True)
            while not self._taken():
                pass
        except OSError as error:
            raise UsageError(
                f"out={self._out} cannot be written to ({error.strerror}): nothing was measured; "
                "name another directory, or have this one written to"
            ) from error
        try:
            self._take_over()
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Remove the file, then release the lock. A process that opened the old file then sees that the file is
        # gone, and creates a new one.
        try:
            if os.path.samestat(self._path.stat(), os.fstat(self._file)):  # another directory may have this name by now
                self._path.unlink()
        except OSError:  # the directory became read-only, or was removed
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)  # an empty file names no holder, so none will be reported
        os.close(self._file)

    def _taken(self) -> bool:
        """Try to lock the file. Return False if the file was removed or replaced meanwhile: try again."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _hold(self._file)
            mine = os.stat(self._path).st_ino == os.fstat(self._file).st_ino
        except FileNotFoundError:  # the previous holder has just removed the file
            mine = False
        except BlockingIOError as error:
            holder = _read(self._file)
            os.close(self._file)
            raise UsageError(f"out={self._out}: {_told(holder)} is measuring there: wait for it, or end it") from error
        except BaseException:
            os.close(self._file)
            raise
        if not mine:
            os.close(self._file)
        return mine

    def _take_over(self) -> None:
        holder = _read(self._file)
        if holder:
            if not _of_this_machine(holder):
                raise UsageError(
                    f"out={self._out}: {_told(holder)} is measuring there, or has ended without a word; "
                    f"if it has, remove {self._path}"
                )
            self.left_by = _told(holder)
        me = {"host": platform.node(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S"), "boot": _boot()}
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(me).encode() + b"\n", 0)


def holder(out: Path) -> tuple[str | None, bool | None]:
    """The process named in the lock file, and whether it still holds the run.

    The process is None without a lock file. The second value is None if only another machine could tell.
    """
    try:
        file = os.open(out / NAME, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe of that name would block
    except FileNotFoundError:
        return None, False
    try:
        said = _read(file)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _told(said), True
        return _told(said), False if not said or _of_this_machine(said) else None
    finally:
        os.close(file)


def _hold(file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _read(file: int) -> dict[str, Any]:
    """The description that the holder wrote of itself; empty if the file holds none."""
    try:
        said = json.loads(os.pread(file, 4096, 0))
    except (ValueError, RecursionError, OSError):  # OSError: a pipe cannot be read at an offset
        return {}
    return said if isinstance(said, dict) else {}


def _told(holder: dict[str, Any]) -> str:
    if not holder:
        return "another process"
    return f"process {holder.get('pid')} on {holder.get('host')}, since {holder.get('since')},"


def _of_this_machine(holder: dict[str, Any]) -> bool:
    """Whether the holder ran on this machine: the same boot id, or, after a reboot, the same host name."""
    return holder.get("boot") == _boot() or holder.get("host") == platform.node()


def _boot() -> str | None:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return None
