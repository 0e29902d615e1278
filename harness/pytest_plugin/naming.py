"""The name under which a trial's process finds a class.

It is `module:Class` if an import in that process finds the same file, else the file's path and the class. Other
processes do not know how pytest imports test modules (`--import-mode`).
"""

import functools
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from harness.errors import UsageError


def name_of(layer: object) -> str:
    """`module:Class` or `/path/to/file.py:Class` for a class. A name (`attention.fused`, `module:Class`) stays as it
    is.

    Raises UsageError for anything but a class, and for a class that no other process could find.
    """
    if isinstance(layer, str):
        return layer
    if not isinstance(layer, type):
        raise UsageError(
            f"{_short(layer)} is not a class: give the class itself, as in scaling(MyLayer), which is built "
            "at each size as MyLayer(d_model=…, num_heads=…)"
        )
    if "<locals>" in layer.__qualname__:
        raise UsageError(
            f"{layer.__qualname__} is defined inside a function, where no other process finds it: "
            "move it to the top of its module"
        )
    module = sys.modules.get(layer.__module__)
    if module is None or _attribute(module, layer.__qualname__) is not layer:
        raise UsageError(
            f"{layer.__module__}.{layer.__qualname__} is not that class: "
            "give one that its module holds under its own name"
        )
    if _can_be_imported(module):
        return f"{module.__name__}:{layer.__qualname__}"
    if not getattr(module, "__file__", None):
        raise UsageError(
            f"{layer.__qualname__} has no file that another process could find it in: put it into a module"
        )
    return f"{Path(str(module.__file__)).absolute().as_posix()}:{layer.__qualname__}"


def _short(value: object) -> str:
    text = repr(value).split("\n")[0]
    return text if len(text) <= 60 else f"{text[:57]}…"


def _attribute(holder: object, qualname: str) -> object:
    return functools.reduce(lambda holder, name: getattr(holder, name, None), qualname.split("."), holder)


def _can_be_imported(module: ModuleType) -> bool:
    """Whether a fresh interpreter with this one's `sys.path` finds the same file under the module's name."""
    if module.__name__ == "__main__":
        return False
    spec: ModuleSpec | None = None
    path: Iterable[str] | None = None
    parts = module.__name__.split(".")
    for number in range(1, len(parts) + 1):
        spec = _found(".".join(parts[:number]), None if path is None else list(path))
        if spec is None:
            return False
        path = spec.submodule_search_locations or ()
    own, file = spec.origin if spec else None, getattr(module, "__file__", None)
    return file is None if own in (None, "built-in") else file is not None and _same(str(own), str(file))


def _found(name: str, path: list[str] | None) -> ModuleSpec | None:
    """The spec that an import would find, whether or not the module is already imported.

    pytest's own finders are skipped, because other processes do not have them.
    """
    for finder in sys.meta_path:
        if not type(finder).__module__.startswith("_pytest") and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path)
            if spec is not None:
                return spec
    return None


def _same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()
