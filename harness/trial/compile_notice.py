"""Tells the driver that a trial has begun to compile, so that the driver allows time for it.

For built-in layers, this is known in advance. For a user's own layer, it is known only once the layer is called. The
sign is the import of a part of the compiler that nothing else needs. If that part was imported before the fork, the
driver already knows that it is needed.
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
    """Import hook that finds no module, and writes `NOTICE` to the pipe when the compiler is first imported."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None, so that other finders find the module."""
        if fullname == _NEEDED_BY_COMPILING:
            sys.meta_path.remove(self)
            os.write(self._pipe, NOTICE)
        return None


def give_notice(pipe: int) -> None:
    """Make this process write `NOTICE` to the pipe when it begins to compile."""
    sys.meta_path.insert(0, Notice(pipe))
