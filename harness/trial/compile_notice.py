"""Word to the driver that a trial has begun to compile, so that it is given the time for that.

Of our layers it is known before, of somebody's own not until it is called. The sign is that the part of the compiler
is imported which nothing else needs; where it was imported before the fork, it is known to be needed.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NOTICE = b"compiling\n"

_NEEDED_BY_COMPILING = "torch._inductor.compile_fx"


class Notice(MetaPathFinder):
    """Finds no module; sees which are looked for, and writes `NOTICE` to the pipe once it is the compiler's."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None: others find it."""
        if fullname == _NEEDED_BY_COMPILING:
            sys.meta_path.remove(self)
            os.write(self._pipe, NOTICE)
        return None


def give_notice(pipe: int) -> None:
    """Have this process write `NOTICE` to the pipe when it begins to compile."""
    sys.meta_path.insert(0, Notice(pipe))
