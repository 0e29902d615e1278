"""What a layer is known to be without importing it: pages of our layers, and the layers that a user's module holds.

Importing torch takes a second. `impls/descriptions.json` repeats what the classes of our layers allow and say.
"""

import ast
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import impls
from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_bytes

_DESCRIPTIONS = Path(impls.__path__[0], "descriptions.json")
# Attributes that describe a class or a function, and would be ignored if misspelt, each with the type of its value.
_OF_BOTH: dict[str, Any] = {
    **dict.fromkeys(("claims", "kernels", "axes"), Mapping),
    **dict.fromkeys(("has_heads", "causal", "compiled", "kinks"), bool),
    **{"family": str, "output_dtype": str, "reference": Callable | str | None, "allowed_error": float | int},
}
OF_CLASSES = _OF_BOTH | {"needs_source": bool, "input_width": int, "supports": staticmethod}
OF_FUNCTIONS = _OF_BOTH | {
    **dict.fromkeys(("supports", "prepare", "load_package"), Callable),
    **{"inputs": Mapping, "output": str, "layout": str, "lengths_as": str, "decodes": bool},
}


@dataclass(frozen=True)
class LayerSource:
    """What a class or function of ours allows and says, as its page shows it.

    - `place`: its file and line. `equation`: the first one in its docstrings, or in those of its reference.
    - `modes`, `masks`: those that it can run, the masks without a source.
    - `sizes`: the further sizes that it takes. `flags`: those of its attributes that are True.
    - `limits`: what the docstring of `supports` tells.
    """

    place: str
    equation: str
    modes: list[str]
    masks: list[str]
    sizes: list[str]
    flags: list[str]
    limits: str

    def takes(self, name: str) -> bool:
        """Whether the layer takes this size: a source for `kv_len`, or a parameter of the constructor."""
        return name in self.sizes


@cache
def _descriptions() -> dict[str, dict[str, Any]]:
    return json.loads(_DESCRIPTIONS.read_text(encoding="utf-8"))


def read_layer_source(target: str) -> LayerSource:
    """What is stored of `module:Class` or `module:function`, a layer of ours. Raises UsageError without anything."""
    module, _, name = target.partition(":")
    file = f"{module.replace('.', '/')}.py"
    if target not in _descriptions():
        raise UsageError(
            f"{_DESCRIPTIONS.name} lacks {target}: `python -m pytest tests/impls --snapshot-update` adds it"
        )
    source = (_DESCRIPTIONS.parents[1] / file).read_text(encoding="utf-8")
    above = re.split(rf"^(?:class|def) {name}\b", source, maxsplit=1, flags=re.MULTILINE)[0]
    line = above.count("\n") + 1
    return LayerSource(f"{file}:{line}", **_descriptions()[target])


def misspelt(given: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, str]:
    """The names of given attributes that are misspelt, each with the known name that it means.

    It is one letter off, or two are swapped, and the value has the known type. A value of another type is taken for the
    user's own attribute, and so is a name beside the known one.
    """
    lacking = {name: kind for name, kind in known.items() if name not in given}
    fitting = ((name, one) for name, value in given.items() for one, kind in lacking.items() if isinstance(value, kind))
    return {name: one for name, one in fitting if name not in known and name[0] != "_" and _is_one_edit(name, one)}


def _is_one_edit(one: str, other: str) -> bool:
    tails = ((one[i:], other[i:]) for i in range(len(one) + 1) if one[:i] == other[:i])
    return any(a[1:] in (b, b[1:]) or b[1:] == a or a[1::-1] + a[2:] == b for a, b in tails)


def find_layers(name: str) -> tuple[str, str, list[str]]:
    """Find the module of a user's own layer in a name without a colon, such as `their.module.Layer`.

    Return the module as it is written before the colon, the rest of the name, and the module's public classes and
    functions. The module is empty if there is none. No package is imported, since it could import torch.
    """
    if "/" in name or name.endswith(".py"):
        place = f"{'' if '/' in name else './'}{name.removesuffix('.py')}.py"
        return (place, "", _public_names(Path(place))) if Path(place).is_file() else ("", "", [])
    parts, path, file = name.split("."), None, None
    for count, part in enumerate(parts, 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), path) if part.isidentifier() else None
        if spec is None or parts[0] in sys.stdlib_module_names:
            break
        if spec.origin is not None and spec.origin.endswith(".py"):
            module, rest, file = ".".join(parts[:count]), ".".join(parts[count:]), Path(spec.origin)
        path = spec.submodule_search_locations
        if path is None:
            break
    return ("", "", []) if file is None else (module, rest, _public_names(file))


def _public_names(file: Path) -> list[str]:
    try:
        tree = ast.parse(read_bytes(file))
    except (OSError, SyntaxError, ValueError):  # nothing can be suggested; an import says what is wrong
        return []
    defined = (node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return [name for name in defined if not name.startswith("_")]
