"""The argument parser of all commands, and output that survives a closed reader or a full disk."""

import argparse
import os
from collections.abc import Callable
from typing import IO, Any, NoReturn

from harness.errors import UsageError


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` of flags and `key=value` in any order, with errors of one line.

    It raises UsageError instead of printing its usage and exiting.
    """

    def __init__(self, command: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=f"python -m harness {command}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


class SafeStream:
    """A stream that goes silent where another raises OSError: a failure to print must not lose what was measured.

    All other attributes are those of `stream`, which is None if the process was started without one. `lost` is the
    reason why output could not be written. This reason is None while everything is written. It also stays None if the
    reader goes away, as `head` does, since no reader misses the output then.
    """

    def __init__(self, stream: IO[Any] | None) -> None:
        self._stream = stream
        self._silent = stream is None
        self.lost: str | None = None

    def write(self, text: Any) -> int:
        """Write `text` if possible. Returns the length of `text` in either case."""
        self._try(lambda stream: stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write out everything that is buffered, if possible."""
        self._try(lambda stream: stream.flush())

    @property
    def buffer(self) -> "SafeStream":
        """The binary stream below, which goes silent too."""
        return _SafeBytes(self)

    def _try(self, act: Callable[[IO[Any]], Any]) -> None:
        if self._silent or self._stream is None:
            return
        try:
            act(self._stream)
        except OSError as error:
            self._silent = True
            if not isinstance(error, BrokenPipeError):
                self.lost = error.strerror or str(error)
            # Python flushes the rest of the buffer at exit, and would report the error then.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _SafeBytes(SafeStream):
    """The binary stream below a text stream. If either goes silent, so does the other."""

    def __init__(self, text: SafeStream) -> None:
        super().__init__(None if text._stream is None else text._stream.buffer)  # type: ignore[attr-defined]
        self._text = text

    def _try(self, act: Callable[[IO[Any]], Any]) -> None:
        self._text._try(lambda stream: act(stream.buffer))  # type: ignore[attr-defined]
