"""Problem files in other shapes, each translated into a module in the shape of KernelBench.

A template makes the module, which imports the file. The command reads the integers of the module and runs nothing. What
lies beside a file, such as sizes and declared formulas, is read here too.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pydantic
import yaml

from harness.core.model.errors import UsageError, did_you_mean
from harness.core.model.file_io import read_bytes, read_json, read_text
from harness.core.model.file_validation import OpenModel, checked

from .formats import place_of
from .sizes import assigned, names_in


class Declared(OpenModel):
    """What a problem declares: formulas for a call in a precision, and the shapes to measure."""

    precision: str = ""
    flops_formula: str = ""
    bytes_formula: str = ""
    SHAPES: list[dict[str, pydantic.PositiveInt]] = pydantic.Field(default_factory=list)


@dataclass(frozen=True)
class Translation:
    """A template with its values, and what the file declares. Without a template, the file itself is the module."""

    template: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    declared: Declared = field(default_factory=Declared)


def module_tree(path: Path) -> ast.Module:
    """The syntax tree of the module of a problem file. Raises UsageError if it cannot be read, or is not Python."""
    translation = translated(path)
    file, part = place_of(path)
    return _rendered(translation, file, part) if translation.template else parsed(path)


def _rendered(translation: Translation, file: Path, part: str) -> ast.Module:
    """The module that the template makes. Raises TemplateError or SyntaxError for values that do not fit."""
    template = _templates().get_template(translation.template)
    return ast.parse(template.render(file=str(file.absolute()), part=part, **translation.values))


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("harness.extras.problems"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file. Raises UsageError if it cannot be read, or is not Python."""
    try:
        return ast.parse(read_bytes(path), str(path))
    except Exception as error:  # also of memory or recursion: the file may hold anything
        raise UsageError(f"{path} cannot be read as Python: {error}") from error


def translated(path: Path) -> Translation:
    """The translation of a problem file, which may be `FILE:PART`. Raises UsageError for a file that cannot be read."""
    file, part = place_of(path)
    try:
        translations = (reader(file, part) for reader in _READERS)
        return next(filter(None, translations), Translation())
    except UsageError:
        raise
    except Exception as error:  # of any kind: the files may hold anything
        raise UsageError(f"{file}: correct it or the files beside it: {' '.join(str(error).split())}") from error


def beside(file: Path, name: str) -> Path | None:
    """The file of this name beside `reference.py`; None without it, and for any other problem."""
    path = file.with_name(name)
    return path if file.name == "reference.py" and path.is_file() else None


def _of_directory(file: Path, part: str) -> Translation | None:
    """A directory of KernelBench-Hard: `problem.yaml` and `shapes.py` beside `reference.py`."""
    settings, shapes = beside(file, "problem.yaml"), beside(file, "shapes.py")
    content = (settings and yaml.safe_load(read_text(settings, 65_536))) or {}
    if shapes:
        content["SHAPES"] = ast.literal_eval(dict(assigned(parsed(shapes)))["SHAPES"])
    return Translation(declared=checked(Declared, content)) if content else None


def _of_groups(file: Path, part: str) -> Translation | None:
    """A problem of MultiKernelBench with `get_input_groups`. The part is the number of a group, by default 1."""
    if file.suffix != ".py" or not names_in(parsed(file)) >= {"Model", "get_input_groups"}:
        return None
    return Translation("groups.py.jinja", {"number": int(part or 1)})


def _of_parts(file: Path, part: str) -> Translation | None:
    """An operation of a registry of flash-linear-attention, or a workload of a file for `kernels benchmark`.

    The part is its name, or `Class.name` for a workload. Raises UsageError with all names if it is none or several.
    """
    if file.suffix != ".py":
        return None
    tree = parsed(file)
    parts = dict[str, Translation]()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="OpConfig")):
                settings = {keyword.arg: keyword.value for keyword in node.keywords}
                shapes = settings.get("default_shapes", ast.Name("SHAPE_CONFIGS"))
                by_name = ast.literal_eval(dict(assigned(tree)).get(ast.unparse(shapes), shapes))
                sizes, *_ = checked(Declared, {"SHAPES": [*by_name.values()]}).SHAPES
                name = ast.literal_eval(settings["name"])
                parts[name] = Translation("registry.py.jinja", {"name": name, "sizes": sizes})
            case ast.ClassDef(bases=[ast.Name(id="Benchmark")]):
                for method in sorted(names_in(node)):
                    if method.startswith("verify_"):
                        name = f"{node.name}.{method.removeprefix('verify_')}"
                        parts[name] = Translation("benchmark.py.jinja", {"name": name})
    meant = [name for name in parts if part in ("", name, name.partition(".")[2])]
    if parts and len(meant) != 1:
        raise UsageError(f"{file}: give one of its parts, as in {file}:NAME{did_you_mean(part, parts)}")
    return parts[meant[0]] if parts else None


# A kind of file, the file beside it that has its sizes, or none if it has them itself, and its template.
_WITH_SETTINGS = (
    ("*.yaml", "", "specification.py.jinja"),
    ("func_forward.py", "config_forward.json", "function.py.jinja"),
    ("func_backward.py", "config_backward.json", "function.py.jinja"),
    ("reference.py", "task.yml", "task.py.jinja"),
)


def _of_settings(file: Path, part: str) -> Translation | None:
    """A specification of AI-bench, or a task of robust-kbench or gpu-mode, with what its template declares."""
    for pattern, name, template in _WITH_SETTINGS:
        settings = file.with_name(name or file.name)
        if file.match(pattern) and settings.is_file():
            is_json = settings.suffix == ".json"
            content = read_json(settings) if is_json else yaml.safe_load(read_text(settings, 65_536))
            translation = Translation(template, {"content": checked(dict[str, Any], content)})
            constants = assigned(_rendered(translation, file, part))
            declared = {name: ast.literal_eval(node) for name, node in constants if name in Declared.model_fields}
            return replace(translation, declared=checked(Declared, declared))
    return None


_READERS = (
    _of_directory,
    _of_groups,
    _of_parts,
    _of_settings,
)
