"""Read a whole file that anybody may have written: regular files only, and never more than a bound.

A device, a pipe or a file of many gigabytes would otherwise block the process or fill its memory.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

MOST_BYTES = 64 * 2**20
# YAML takes about a hundred times its size in memory while it is parsed.
MOST_YAML_BYTES = 8 * 2**20


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file of at most `most` bytes. Raises OSError for anything else."""
    # Without O_NONBLOCK, a pipe that nobody writes to would block here.
    with os.fdopen(os.open(_regular(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"the file is larger than {most // 2**20} MiB", str(path))
    return content


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """As `read_bytes`, in UTF-8. Raises UnicodeDecodeError, a ValueError, for a file that is no text."""
    return read_bytes(path, most).decode("utf-8")


def read_json(path: Path) -> Any:
    """What a file of JSON holds. Raises OSError as `read_bytes`, and ValueError for anything but JSON."""
    try:
        return json.loads(read_text(path))
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error


def _regular(path: Path) -> Path:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path
