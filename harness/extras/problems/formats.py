"""The formats of problem files, and what each tells the command about a file without running it.

A package of one's own adds a format by an entry point of the group `attn_harness.problem_formats`, which names a
subclass of Format.
"""

import os
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from harness.core.model.errors import UsageError
from harness.core.model.extra_tables import referenced

_PLACES = (
    "harness.extras.problems.definition_format:Definitions",
    "harness.extras.problems.module_format:Modules",
)


@dataclass(frozen=True)
class FileAxes:
    """The sizes of a problem file. `axis_of` has the axis of the sweep that each is, or its own name."""

    axis_of: dict[str, str]
    sizes: dict[str, int]


class Format:
    """A format of problem files.

    `problem` is `module:class` of what runs them in a trial, a subclass of `Problem` in trials/problem.py. Every method
    raises UsageError for a file that it cannot read.
    """

    problem: str

    def file_at(self, path: Path) -> Path | None:
        """The file of the problem at a path, which may be a directory; None if it is of no such problem."""
        raise NotImplementedError

    def axes(self, file: Path) -> FileAxes:
        """Its sizes, with the values that they have unless the user gives others."""
        raise NotImplementedError

    def is_solution(self, layer: str) -> bool:
        """Whether the name of a layer is that of a solution. Raises UsageError for one that cannot run."""
        raise NotImplementedError

    def solutions(self, file: Path) -> list[Path]:
        """The solutions that come with the problem."""
        return []

    def default_overrides(self, file: Path) -> list[str]:
        """The overrides of its cases that the user may replace."""
        return []

    def notice(self, file: Path) -> str:
        """What else the user should know about it."""
        return ""

    def missing_parts(self, path: Path) -> str:
        """What a file lacks that ends as those of this format do; empty for another file."""
        return ""


@cache
def formats() -> list[Format]:
    """All formats, first those of other packages."""
    classes = []
    for entry in entry_points(group="attn_harness.problem_formats"):
        try:
            classes.append(entry.load())
        except Exception as error:  # of any kind: it is the code of another package
            raise UsageError(f"the format of problem files {entry.value} cannot be loaded: {error}") from error
    return [each() for each in [*classes, *map(referenced, _PLACES)]]


def problem_at(path: Path) -> tuple[Format, Path] | None:
    """The format that reads the path, and the file of the problem; None if it is no problem."""
    if not os.path.exists(place_of(path)[0]):  # a name may be too long for a path
        return None
    for each in formats():
        if file := each.file_at(path):
            return each, file
    return None


def place_of(path: Path | str) -> tuple[Path, str]:
    """The file and the part of it in `FILE:PART`. The part is empty without one."""
    file, _, part = str(path).rpartition(":")
    return (Path(file), part) if file and not os.path.exists(path) else (Path(path), "")


def format_of(path: str) -> Format:
    """The format of a problem's file. Raises UsageError for any other file."""
    if found := problem_at(Path(path)):
        return found[0]
    reasons = filter(None, (each.missing_parts(Path(path)) for each in formats()))
    raise UsageError(f"{path} is no problem{''.join(f': {reason}' for reason in reasons)}")


def files_of(name: str) -> tuple[str, str]:
    """The problem and the solution in a text such as `FILE+SOLUTION`; the solution is empty without one."""
    for place, letter in enumerate(name):
        if letter == "+" and os.path.isfile(place_of(name[:place])[0]):
            return name[:place], name[place + 1 :]
    return name, ""
