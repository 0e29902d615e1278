"""Write a file so that readers find either all of it or what was there before."""

import contextlib
import os
from pathlib import Path

_END = ".part"


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
