"""Read a whole file from an untrusted source: regular files only, up to a maximum size.

A device, a pipe or a file of many gigabytes could block the process or fill its memory.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

MOST_BYTES = 64 * 2**20
# Parsing YAML takes about a hundred times the file's size in memory.
MOST_YAML_BYTES = 8 * 2**20


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Content of a regular file of at most `most` bytes. Raises OSError for anything else."""
    # Without O_NONBLOCK, opening a pipe without a writer would block here.
    with os.fdopen(os.open(_regular(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        content = file.read(most + 1)
    if content is None:  # nothing to read yet: a stream that the kernel presents as a file
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if len(content) > most:
        raise OSError(errno.EFBIG, f"the file is larger than {most // 2**20} MiB", str(path))
    return content


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Text of a UTF-8 file, with the limits of `read_bytes`.

    Raises UnicodeDecodeError (a ValueError) if the content is not UTF-8, and OSError like `read_bytes`.
    """
    return read_bytes(path, most).decode("utf-8")


def read_json(path: Path) -> Any:
    """Parsed content of a JSON file. Raises OSError like `read_bytes`, and ValueError if the content is not JSON."""
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
