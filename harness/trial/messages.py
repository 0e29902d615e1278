"""What a trial writes to the driver: its answer, and a notice when it begins to compile.

The functions needed here are bound before a layer can replace them. A layer may replace `print`, `open`, `json.dumps`
or `time.perf_counter` for its own use: the harness has the originals. Other built-in functions are used everywhere,
also by modules that the harness imports. A trial in which one of these was replaced ends in an error, because its
figures could be anything.
"""

import builtins
import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from os import write
from types import ModuleType
from typing import Any

_OFTEN_REPLACED = ("print", "open", "input", "help", "exit", "quit", "breakpoint", "__import__", "__build_class__")
_BUILTINS = vars(builtins)
_ORIGINALS = dict(_BUILTINS)
_WATCHED = [name for name, original in _ORIGINALS.items() if callable(original) and name not in _OFTEN_REPLACED]
_encode = json.JSONEncoder().encode


def restore_builtins() -> str | None:
    """Restore replaced built-in functions. Return a message that names them, or None if none was replaced."""
    # This uses only a comprehension and methods, because any built-in function may have been replaced.
    names = [name for name in _WATCHED if name not in _BUILTINS or _BUILTINS[name] is not _ORIGINALS[name]]
    _BUILTINS.update(_ORIGINALS)
    return f"it replaced built-in functions of Python: {', '.join(names)}" if names else None


def send(pipe: int, answer: dict[str, Any]) -> None:
    """Write the answer as one line of JSON."""
    left = memoryview(_encode(answer).encode() + b"\n")
    while left:
        left = left[write(pipe, left) :]


NOTICE = b"compiling\n"

_NEEDED_BY_COMPILING = "torch._inductor.compile_fx"


class CompileNotice(MetaPathFinder):
    """Import hook that finds no module, and writes `NOTICE` to the pipe when the compiler is first imported.

    The driver then allows time for compilation. It knows in advance which built-in layers compile. Whether a user's own
    layer compiles is known only once the layer is called. The sign is the import of a part of the compiler that nothing
    else needs. If that part was imported before the fork, the driver already knows that the layer compiles.
    """

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
    sys.meta_path.insert(0, CompileNotice(pipe))
