"""Output that survives a closed reader or a full disk: a failure to print must not lose what was measured."""

import os
from collections.abc import Callable
from typing import IO, Any


class Steady:
    """A stream that goes silent where another raises OSError. All other attributes are those of the stream.

    `stream` is None if the process was started without one. `lost` is the reason why output could not be written. This
    reason is None while everything is written. It also stays None if the reader goes away, as `head` does, since no
    reader misses the output then.
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
    def buffer(self) -> "Steady":
        """The binary stream below, which goes silent too."""
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
            # Python flushes the rest of the buffer at exit, and would report the error then.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Bytes(Steady):
    """The binary stream below a text stream. If either goes silent, so does the other."""

    def __init__(self, text: Steady) -> None:
        super().__init__(None if text._stream is None else text._stream.buffer)  # type: ignore[attr-defined]
        self._text = text

    def _try(self, act: Callable[[IO[Any]], Any]) -> None:
        self._text._try(lambda stream: act(stream.buffer))  # type: ignore[attr-defined]
