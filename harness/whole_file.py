"""Write files atomically: a reader finds either the old content or the complete new one."""

import contextlib
import os
from pathlib import Path

_END = ".part"


def write_whole(path: Path, text: str) -> None:
    """Write `text` to a temporary file in the same directory, then rename it to `path`.

    Raises OSError with the file name of `path`. A killed writer leaves a temporary file whose name begins with `.` and
    the name of `path`.
    """
    # With the process id in its name, several processes can write the same file.
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}{_END}")
    try:
        # A text may quote a path with bytes that are not UTF-8. Each of them becomes a question mark.
        part.write_text(text, encoding="utf-8", errors="replace")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # a directory that forbids writing also forbids removing
            part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def is_left_over(name: str, of: str) -> bool:
    """Whether `name` is a temporary file left by a killed writer of the file `of`."""
    return name.startswith(f".{of}.") and name.endswith(_END)
