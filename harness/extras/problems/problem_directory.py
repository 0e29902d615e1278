"""The files beside `reference.py` in a directory of KernelBench-Hard, which are read without running them."""

import ast
from pathlib import Path

import pydantic
import yaml

from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_text
from harness.core.model.file_validation import OpenModel, checked

from .sizes import assigned, read_tree


class Directory(OpenModel):
    """The parts of `problem.yaml` that are read, and the sizes in `shapes.py`."""

    precision: str = ""
    flops_formula: str = ""
    bytes_formula: str = ""
    SHAPES: list[dict[str, pydantic.PositiveInt]] = pydantic.Field([])


def beside(file: Path, name: str) -> Path | None:
    """The file of this name beside `reference.py`; None without it, and for any other problem."""
    path = file.with_name(name)
    return path if file.name == "reference.py" and path.is_file() else None


def directory_of(file: Path) -> Directory:
    """What is beside `reference.py`, by default nothing. Raises UsageError for a file that cannot be read."""
    settings, shapes = beside(file, "problem.yaml"), beside(file, "shapes.py")
    try:
        content = (yaml.safe_load(read_text(settings, 65_536)) if settings else None) or {}
        if shapes:
            content["SHAPES"] = ast.literal_eval(dict(assigned(read_tree(shapes)))["SHAPES"])
        return checked(Directory, content)
    except KeyError as error:
        raise UsageError(f"{shapes} has no list SHAPES") from error
    except (OSError, ValueError, TypeError, yaml.YAMLError, RecursionError) as error:
        raise UsageError(
            f"{file.parent}: correct problem.yaml or shapes.py, or move it: {' '.join(str(error).split())}"
        ) from error
