"""The small files of a run: written whole or not at all, and read in bounded time."""

import contextlib
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

_END = ".part"
# A configuration and a description of a machine take a few kilobytes.
_LARGEST = 2**24


def write_whole(path: Path, text: str) -> None:
    """Write it beside its place, and put it there once it is whole: who reads it meanwhile finds what was there before.

    Raises OSError, of the file's own name. What is left by a writer that was killed begins with `.` and that name.
    """
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}{_END}")  # of its own: several may write the same file
    try:
        # A text may quote a path with bytes that are no UTF-8: a question mark each.
        part.write_text(text, encoding="utf-8", errors="replace")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # where none may be written, none may be removed
            part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def is_left_over(name: str, of: str) -> bool:
    """Whether a file of this name is what a writer of the file `of` has left."""
    return name.startswith(f".{of}.") and name.endswith(_END)


def read_small(path: Path) -> str:
    """Return the text of a regular file of at most 16 MiB.

    Raises OSError for anything else: opening a pipe would wait for a writer, and a device may have no end. Raises
    ValueError for bytes that are no UTF-8.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            raise OSError(errno.EINVAL, "not a small regular file", str(path))
        return file.read(_LARGEST).decode("utf-8")


def read_json(path: Path) -> Any:
    """Return what such a file of JSON holds. Raises OSError and ValueError; nesting without end is a ValueError."""
    try:
        return json.loads(read_small(path))
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error
