"""A definition of FlashInfer Trace and a solution of it, read from JSON without running them.

A definition names its axes, the shapes of its inputs and outputs in them, and the source of a reference, whose function
`run` takes the inputs in their order. Axes of the type `var` are sizes to sweep, and those of the type `const` stay.
A file `workload.jsonl` beside the definition has sizes that were seen in practice: the first ones are the default.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pydantic

from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_json, read_text
from harness.core.model.file_validation import Damaged, OpenModel, checked
from harness.core.model.sweep_axes import DTYPES

_LAST = re.compile(r"(\w+)\s*==\s*(\w+)\[-1\]\.item\(\)")
_ONE_MORE = re.compile(r"(\w+)\s*==\s*(\w+)\s*\+\s*1")
# Solutions in these languages run in this process.
_LANGUAGES = ("python", "pytorch", "triton")


class Axis(OpenModel):
    """One axis: a constant with its value, or a variable one."""

    type: Literal["const", "var"]
    value: int | None = pydantic.Field(default=None, gt=0, lt=2**31)


class Tensor(OpenModel):
    """An input or an output: its axes, None for a number, and its dtype."""

    shape: list[str] | None
    dtype: str


class Definition(OpenModel):
    """The parts of a definition that are read."""

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    reference: str
    constraints: list[str] = pydantic.Field(default_factory=list)

    @property
    def constants(self) -> dict[str, int]:
        """The axes that have one value."""
        return {name: axis.value for name, axis in self.axes.items() if axis.value is not None}

    @property
    def one_more(self) -> dict[str, str]:
        """The axes that are one longer than another, by a constraint `len_indptr == batch_size + 1`."""
        pairs = (found.groups() for text in self.constraints if (found := _ONE_MORE.fullmatch(text.strip())))
        return {longer: axis for longer, axis in pairs if longer in self.axes and axis in self.axes}

    @property
    def totals(self) -> dict[str, str]:
        """The inputs that are offsets, each with the axis that its last one is, by a constraint."""
        pairs = (found.groups() for text in self.constraints if (found := _LAST.fullmatch(text.strip())))
        return {offsets: axis for axis, offsets in pairs if axis in self.axes and offsets in self.inputs}

    @property
    def dtype(self) -> str:
        """The dtype of the first output, which is that of the cases. Raises UsageError for whole numbers."""
        dtype = next(iter(self.outputs.values())).dtype
        if dtype not in DTYPES:
            raise UsageError(f"definition {self.name} returns {dtype}: only {', '.join(DTYPES)} can be verified")
        return dtype


class Source(OpenModel):
    """One file of a solution."""

    path: str
    content: str


class Spec(OpenModel):
    """How a solution is run. `languages` is what some writers have in place of `language`."""

    entry_point: str
    language: str | None = None
    languages: list[str] = pydantic.Field(default_factory=list)
    destination_passing_style: bool | None = None

    @property
    def passes_destinations(self) -> bool:
        """Whether the outputs are its last arguments: by default for those who write `language`."""
        stated = self.destination_passing_style
        return self.language is not None if stated is None else stated


class Solution(OpenModel):
    """The parts of a solution that are read."""

    name: str = ""
    spec: Spec
    sources: list[Source]

    @property
    def language(self) -> str:
        """The languages that it is written in, as one text."""
        return self.spec.language or ", ".join(self.spec.languages)


def is_definition(path: Path) -> bool:
    """Whether the file is a definition."""
    return path.suffix == ".json" and path.is_file() and {"axes", "inputs", "reference"} <= {*_content(path)}


@cache
def read_definition(path: Path) -> Definition:
    """The definition in the file. Raises UsageError if it is none, or has a constraint on sizes that is not read."""
    definition: Definition = _checked(Definition, path)
    free = [name for name, axis in definition.axes.items() if axis.type == "var"]
    for text in definition.constraints:
        is_read = _ONE_MORE.fullmatch(text.strip()) or _LAST.fullmatch(text.strip())
        if not is_read and not {*re.findall(r"\w+", text)}.isdisjoint(free):
            raise UsageError(
                f"{path} has the constraint '{text}', which is not read: A == B + 1 and A == B[-1].item() are"
            )
    return definition


def read_solution(path: Path) -> Solution:
    """The solution in the file. Raises UsageError if it is none, or in a language that does not run here."""
    solution = _checked(Solution, path)
    if solution.spec.language not in _LANGUAGES and {*solution.spec.languages}.isdisjoint(_LANGUAGES):
        raise UsageError(f"{path} is in {solution.language}: solutions in {', '.join(_LANGUAGES)} can be measured")
    return solution


def _checked(kind: Any, path: Path) -> Any:
    try:
        return checked(kind, _content(path))
    except Damaged as error:
        raise UsageError(f"{path} is no {kind.__name__.lower()}: {error}") from error


def _content(path: Path) -> Mapping[str, Any]:
    try:
        content = read_json(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    return content if isinstance(content, dict) else {}


def workload_file(path: Path) -> Path | None:
    """The file with workloads beside the definition, if there is one."""
    files = [path.with_name("workload.jsonl"), path.parent / "workloads" / f"{path.stem}.jsonl"]
    return next(filter(Path.is_file, files), None)


@cache
def workload_of(path: Path) -> dict[str, Any]:
    """The first workload beside the definition: its `axes`, and its `inputs`; empty without one.

    Raises UsageError for a workload that cannot be read.
    """
    file = workload_file(path)
    if file is None:
        return {}
    try:
        first = json.loads(read_text(file).split("\n", 1)[0])
        workload = first.get("workload", first)
        return {"axes": dict(workload["axes"]), "inputs": dict(workload.get("inputs", {}))}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError(f"{file} has no workload in its first line: {error}") from error
