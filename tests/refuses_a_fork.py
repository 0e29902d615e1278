"""Once imported by the fork server, the system starts no process at the next attempt, as under `ulimit -u`."""

import errno
import os

from planted_compiled import Mixes

__all__ = ["Mixes"]

_fork = os.fork


def _refused() -> int:
    os.fork = _fork
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


os.fork = _refused
