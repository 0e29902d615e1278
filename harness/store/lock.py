"""One writer of a run at a time: who has it is told by a file in its directory, and held by the kernel.

The kernel lets go of a lock when its process ends, however that ends. So a file that nobody holds is stale, unless it
was left by another machine, of which this one's kernel knows nothing.
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
# What file systems say that have no such locks; what the file tells is all there is then.
_NO_LOCKS = (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK)


class Lock:
    """Holds the run at `out`, whose directory it makes if need be. A context manager.

    Entering raises UsageError where another process has it, or nothing can be written; `left_by` then tells of one that
    ended without letting go.
    """

    def __init__(self, out: Path) -> None:
        self._out, self._path = out, out / NAME
        self._file = -1
        self.left_by: str | None = None

    def __enter__(self) -> "Lock":
        try:
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
        # First the name, then the lock: whoever waits for neither finds a file that is gone, and makes its own.
        try:
            if os.path.samestat(self._path.stat(), os.fstat(self._file)):  # a new directory may have this name by now
                self._path.unlink()
        except OSError:  # a directory that has become read-only, or has gone
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)  # nobody is left who has not come to an end
        os.close(self._file)

    def _taken(self) -> bool:
        """Whether the lock is held now, of the file that bears the name; False to try again."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _hold(self._file)
            mine = os.stat(self._path).st_ino == os.fstat(self._file).st_ino
        except FileNotFoundError:  # its holder has just let go of it
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
    """Who has the run, or had it and did not let go, and whether it still has; None where that cannot be known here."""
    try:
        file = os.open(out / NAME, os.O_RDONLY | os.O_NONBLOCK)  # a pipe of that name would block
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
    """What the holder has said of itself; nothing where it did not come to that."""
    try:
        said = json.loads(os.pread(file, 4096, 0))
    except (ValueError, RecursionError, OSError):  # such as a pipe, which has no place to read from
        return {}
    return said if isinstance(said, dict) else {}


def _told(holder: dict[str, Any]) -> str:
    if not holder:
        return "another process"
    return f"process {holder.get('pid')} on {holder.get('host')}, since {holder.get('since')},"


def _of_this_machine(holder: dict[str, Any]) -> bool:
    """Whether this kernel would know of the holder: by its boot, or, booted anew since then, by its name."""
    return holder.get("boot") == _boot() or holder.get("host") == platform.node()


def _boot() -> str | None:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return None
