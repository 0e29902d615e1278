"""Output that outlives its reader and its disk: what a command measures must not be lost to what it says of it."""

import os
from collections.abc import Callable
from typing import IO, Any


class Steady:
    """A stream that falls silent where another raises OSError; all else of it is the stream's own.

    `stream` is None where the process was started without one. `lost` is why something could not be written: None as
    long as all was, and where the reader has gone away, as `head` does, since nothing is lost to anybody then.
    """

    def __init__(self, stream: IO[Any] | None) -> None:
        self._stream = stream
        self._silent = stream is None
        self.lost: str | None = None

    def write(self, text: Any) -> int:
        """Write it, or not; its length, as if it had been."""
        self._try(lambda stream: stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Have all written that was said."""
        self._try(lambda stream: stream.flush())

    @property
    def buffer(self) -> "Steady":
        """The same of bytes."""
        return _Bytes(self)

    def _try(self, act: Callable[[IO[Any]], Any]) -> None:
        if self._silent or self._stream is None:
            return
        try:
            act(self._stream)
        except OSError as error:
            self._silent = True
            if not isinstance(error, BrokenPipeError):
                self.lost = error.strerror or str(error)
            # Python flushes at exit what is left in the buffer, and would complain of it there.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Bytes(Steady):
    """What lies under a text stream; where it falls silent, so does that."""

    def __init__(self, text: Steady) -> None:
        super().__init__(None if text._stream is None else text._stream.buffer)  # type: ignore[attr-defined]
        self._text = text

    def _try(self, act: Callable[[IO[Any]], Any]) -> None:
        self._text._try(lambda stream: act(stream.buffer))  # type: ignore[attr-defined]
