"""What a layer's source says of it: its equation, its attributes, and what its methods take. Imports no torch.

The source of the class and of its base classes is parsed, which takes milliseconds. Importing torch takes a second.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.core.model.file_io import read_bytes

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
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
_RETURNS = re.compile(r"Return (why|None\b).*?(\.\s+|\.?$)", re.DOTALL)


@dataclass(frozen=True)
class LayerSource:
    """A class in the source: its place, its equation if a docstring has one, and its methods' parameters.

    `flags` are the class attributes that are True. `limits` is what the docstring of `supports` tells. A function
    counts as the methods of a layer that can do the same: one of q, k and v decodes, and attends to a source.
    """

    place: str
    equation: str
    parameters: dict[str, tuple[str, ...]]
    flags: frozenset[str]
    limits: str

    @property
    def modes(self) -> list[str]:
        """The modes that its methods allow."""
        if "decodes" in self.flags:
            return ["decode"]
        decodes = {"start", "step"} <= self.parameters.keys()
        return ["forward", "train", "backward", *(["decode"] if decodes else [])]

    @property
    def masks(self) -> list[str]:
        """The masks that its methods allow, without a source."""
        takes, causal = self.parameters.get("forward", ()), "causal" in self.flags
        hides = causal or "attn_mask" in takes or "decodes" in self.flags
        found = ["none"]
        found += ["causal"] if hides or "is_causal" in takes else []
        return found + (["padding"] if hides or "cu_seqlens" in takes else [])

    def takes(self, name: str) -> bool:
        """Whether the layer takes this size: a source for `kv_len`, or a parameter of the constructor."""
        if name == "kv_len":
            return "source" in self.parameters.get("forward", ())
        return name in self.parameters.get("__init__", ())


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


def read_layer_source(target: str) -> LayerSource:
    """The source of `module:Class` or `module:function`, a layer of ours."""
    module, _, name = target.partition(":")
    if name in _module(module).functions:
        return _function_source(_module(module), name)
    # A class that several bases share comes after all of them, as in Python's order of method resolution.
    chain = list(dict.fromkeys(reversed(list(_classes(module, name)))))[::-1]
    methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    flags: dict[str, Any] = {}
    for one in chain:
        for node in _module(one[0]).classes[one[1]].body:
            if isinstance(node, _FUNCTIONS):
                methods.setdefault(node.name, node)
            for attribute, value in _assigned(node):
                flags.setdefault(attribute, value)
    docstrings = [ast.get_docstring(_module(place).classes[one]) or "" for place, one in chain]
    docstrings.insert(1, _module(module).docstring)
    return LayerSource(
        place=f"{_module(module).file}:{_module(module).classes[name].lineno}",
        equation=next(filter(None, map(equation_of, docstrings)), ""),
        parameters={name: _parameters(method) for name, method in methods.items()},
        flags=frozenset(name for name, value in flags.items() if value is True),
        limits=_limits(methods, flags, module),
    )


def _function_source(module: "_Module", name: str) -> LayerSource:
    """The source of a function. Statements such as `name.decodes = True` below it describe it."""
    function, stated = module.functions[name], module.attributes.get(name, {})
    docstrings = ast.get_docstring(function) or "", module.docstring
    supports, taken = stated.get("supports"), _parameters(function)
    if "attention_mask" in taken:  # a function that models of transformers call is made one of q, k and v
        taken = ("q", "k", "v", "attn_mask")
    is_over_heads = taken[:3] == ("q", "k", "v") and "cu_seqlens" not in taken and "inputs" not in stated
    has_groups = "inputs" not in stated or " g " in ast.unparse(stated["inputs"])
    methods = {"supports": module.functions[supports.id]} if isinstance(supports, ast.Name) else {}
    return LayerSource(
        place=f"{module.file}:{function.lineno}",
        equation=next(filter(None, map(equation_of, docstrings)), ""),
        parameters={"forward": taken, "__init__": ("num_kv_heads",) * has_groups}
        | ({"forward": (*taken, "source"), "start": (), "step": ()} if is_over_heads else {}),
        flags=frozenset(one for one, value in stated.items() if getattr(value, "value", None) is True),
        limits=_limits(methods, {}, module.file),
    )


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


@dataclass(frozen=True)
class _Module:
    file: str
    docstring: str
    classes: dict[str, ast.ClassDef]
    functions: dict[str, ast.FunctionDef]
    # What statements such as `function.supports = …` assign, by the function's name.
    attributes: dict[str, dict[str, ast.expr]]
    # The module that each imported name comes from.
    imported: dict[str, str]


@cache
def _module(name: str) -> _Module:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    return _Module(
        file="/".join(Path(spec.origin).parts[-len(name.split(".")) :]),
        docstring=ast.get_docstring(tree) or "",
        classes={node.name: node for node in tree.body if isinstance(node, ast.ClassDef)},
        functions={node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)},
        attributes=_attributes(tree),
        imported={
            alias.name: node.module
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        },
    )


def _attributes(tree: ast.Module) -> dict[str, dict[str, ast.expr]]:
    found: dict[str, dict[str, ast.expr]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    found.setdefault(target.value.id, {})[target.attr] = node.value
    return found


def _classes(module: str, name: str) -> Iterator[tuple[str, str]]:
    """The class and its base classes among our own, as (module, name), each before its bases."""
    found = _module(module)
    if name not in found.classes:
        place = found.imported.get(name, "")
        if place.startswith("impls."):
            yield from _classes(place, name)
        return
    yield module, name
    for base in found.classes[name].bases:
        if isinstance(base, ast.Name):
            yield from _classes(module, base.id)


def _assigned(node: ast.stmt) -> Iterator[tuple[str, Any]]:
    """The names that a statement of a class body assigns: `causal = True`, or a method of another class."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    for target in targets:
        if isinstance(target, ast.Name) and value is not None:
            yield target.id, value.value if isinstance(value, ast.Constant) else value


def _parameters(method: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    return tuple(one.arg for one in (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs))


def equation_of(docstring: str) -> str:
    """The first indented paragraph of a docstring."""
    blocks = [block for block in re.split(r"\n\s*\n", docstring) if block.startswith("    ")]
    return inspect.cleandoc(blocks[0]) if blocks else ""


def _limits(methods: dict[str, Any], flags: dict[str, Any], module: str) -> str:
    """The docstring of `supports`, without the sentence that says what it returns."""
    method, taken = methods.get("supports"), flags.get("supports")
    if isinstance(taken, ast.Call) and isinstance(taken.args[0], ast.Attribute):  # staticmethod(Other.supports)
        other = taken.args[0].value
        if isinstance(other, ast.Name):
            return next((read_layer_source(":".join(one)).limits for one in _classes(module, other.id)), "")
    text = " ".join((ast.get_docstring(method) or "").split()) if method else ""
    return _RETURNS.sub("", text, count=1)
