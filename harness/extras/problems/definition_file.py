"""A definition of FlashInfer Trace, its workloads and a solution of it, read from JSON without running them.

A definition names its axes, the shapes of its inputs and outputs in them, and the source of a reference, whose function
`run` takes the inputs in their order. Axes of the type `var` are sizes to sweep, and those of the type `const` stay.
Those of the type `expr`, which SOL-ExecBench adds, are computed from the axes before them. A file of workloads beside
the definition has sizes that were seen in practice: the first ones are the default.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_json, read_text
from harness.core.model.file_validation import OpenModel, checked, one_of
from harness.core.model.sweep_axes import DTYPES

from .sizes import value_of

_LAST = re.compile(r"(\w+) *== *(\w+)\[-1\]\.item\(\)")
_ONE_MORE = re.compile(r"(\w+) *== *([^\W\d]\w* *\+ *1)")
_NAME = re.compile(r"[^\W\d]\w*")
# Solutions in these languages run in this process.
_LANGUAGES = ("python", "pytorch", "triton")
# The dtypes of inputs and outputs, with their names in the format safetensors.
DTYPE_NAMES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
# So long, a formula cannot be nested too deeply, and its numbers stay small.
_Formula = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, max_length=200)]
_NO_FORMULA = "is no sum, product or comparison of axes that are known before it"
_Sum = Annotated[_Formula, pydantic.StringConstraints(pattern="^[^<=>]*$")]
_Size = Annotated[int, pydantic.Field(gt=0, lt=2**31)]


def computed(formula: str, sizes: Mapping[str, Any]) -> Any:
    """The value of a sum or product of sizes, and whether a comparison of these holds: False if it divides by 0.

    Sizes may be polynomials, which have no quotients. Raises UsageError for any other formula.
    """
    try:
        number = value_of(ast.parse(formula, mode="eval").body, sizes)
    except ZeroDivisionError:
        return False
    except (SyntaxError, TypeError, LookupError) as error:
        raise UsageError(f"'{formula}' {_NO_FORMULA}") from error
    if isinstance(number, Fraction | None):
        raise UsageError(f"'{formula}' {_NO_FORMULA}")
    return number


class Axis(OpenModel):
    """One axis: a constant with its value, a variable one, or one that is computed from others.

    A variable one that a constraint makes one longer than another gets an expression too.
    """

    type: Literal["const", "var", "expr"]
    value: _Size | None = None
    expression: _Sum = ""


class Tensor(OpenModel):
    """An input or an output: its axes, None for a number, and its dtype."""

    shape: list[_Sum] | None
    dtype: Annotated[str, one_of(DTYPE_NAMES)]
    optional: bool = False
    # The axis that the last of its offsets is, by a constraint.
    total: str | None = None

    def at(self, sizes: Mapping[str, Any]) -> list[Any]:
        """Its dimensions at these sizes. A dimension may be a whole number too."""
        return [computed(axis, sizes) for axis in self.shape or ()]


class Definition(OpenModel):
    """The parts of a definition that are read."""

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor] = pydantic.Field(min_length=1)
    reference: str
    # The source of a function that makes the inputs. SOL-ExecBench names one, which is in the reference.
    init: str | None = None
    custom_inputs_entrypoint: str | None = None
    constraints: Sequence[_Formula] = ()

    @property
    def variable(self) -> list[str]:
        """The axes that have any value."""
        return [name for name, axis in self.axes.items() if axis.type == "var"]

    def with_derived(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """All axes: these, the constant ones, and those that are computed from others."""
        every = {name: axis.value for name, axis in self.axes.items() if axis.value} | dict(sizes)
        for name, axis in self.axes.items():
            if axis.expression:
                every[name] = computed(axis.expression, every)
        return every

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
    """How a solution is run. `languages` is what some writers have in place of `language`.

    A solution may get its outputs as its last arguments: by default, those with `language` do.
    """

    entry_point: str
    language: str | None = None
    languages: Sequence[str] = ()
    destination_passing_style: bool | None = None


class Solution(OpenModel):
    """The parts of a solution that are read."""

    name: str = ""
    definition: str = ""
    spec: Spec
    sources: list[Source]


def with_last_function(source: str) -> tuple[str, str]:
    """The source, and the name of its function `run`, or of its last function."""
    names = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return source, "run" if "run" in names or not names else names[-1]


@cache
def read_definition(path: Path) -> Definition:
    """The definition in the file, whose constraints are comparisons of axes alone.

    An optional input that no workload has is None, as if it were a number. Raises UsageError if it is none, or has a
    constraint on sizes that is not read.
    """
    definition: Definition = _checked(Definition, path)
    axes, inputs = definition.axes, definition.inputs
    comparisons = []
    for text in definition.constraints:
        names = {*_NAME.findall(text)}
        if names <= axes.keys():
            computed(text, dict.fromkeys(axes, 1))
            comparisons.append(text)
            longer = _ONE_MORE.fullmatch(text)
            if longer and axes[longer[1]].type == "var":
                axes[longer[1]].expression = longer[2]
        elif last := _LAST.fullmatch(text):
            if last[1] in axes and last[2] in inputs:
                inputs[last[2]].total = last[1]
        elif not names.isdisjoint(definition.variable):
            raise UsageError(
                f"{path} has the constraint '{text}', which is not read: comparisons of axes and A == B[-1].item() are"
            )
    definition.constraints = comparisons + [f"{name} > 0" for name, axis in axes.items() if axis.expression]
    if definition.custom_inputs_entrypoint:
        definition.init = definition.reference
    known = definition.with_derived(dict.fromkeys(definition.variable, 1))
    for name, stated in inputs.items():
        stated.at(known)
        if stated.optional and name not in named_inputs(path):
            stated.shape = None
    return definition


def read_solution(path: Path) -> Solution:
    """The solution in the file. Raises UsageError if it is none, or in a language that does not run here."""
    solution: Solution = _checked(Solution, path)
    spec = solution.spec
    languages = [spec.language] if spec.language else spec.languages
    if {*languages}.isdisjoint(_LANGUAGES):
        raise UsageError(f"{path} is in {', '.join(languages)}: solutions in {', '.join(_LANGUAGES)} can be measured")
    return solution


def code_of(path: Path) -> tuple[str, str]:
    """The source that the entry point of a solution names, and its function. Raises UsageError without the source."""
    solution = read_solution(path)
    place, _, function = solution.spec.entry_point.rpartition("::")
    for part in solution.sources:
        if part.path == place:
            return part.content, function
    raise UsageError(f"{path} has no source '{place}', which its entry_point names")


def _checked(kind: Any, path: Path) -> Any:
    try:
        return checked(kind, read_json(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is no {kind.__name__.lower()}: {error}") from error


class Argument(OpenModel):
    """How a workload makes an input."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: Any = 1
    path: str = ""
    tensor_key: str = ""


class Workload(OpenModel):
    """Sizes of the variable axes, and how inputs are made at these."""

    axes: dict[str, _Size]
    inputs: Mapping[str, Argument] = {}


def workload_file(path: Path) -> Path | None:
    """The file with workloads beside the definition, or where a data set has it, if there is one."""
    folder, name = path.absolute().parent, f"{path.stem}.jsonl"
    files = [
        folder / "workload.jsonl",
        folder / "workloads" / name,
        # Of definitions/KIND/NAME.json in a data set.
        folder.parent.parent / "workloads" / folder.name / name,
    ]
    return next(filter(Path.is_file, files), None)


@cache
def workloads_of(path: Path) -> list[Workload]:
    """The workloads of the definition, in their order. Raises UsageError if one cannot be read."""
    file = workload_file(path)
    if not file:
        return []
    try:
        lines = [json.loads(line) for line in read_text(file).splitlines() if line.strip()]
        return [checked(Workload, line.get("workload", line)) for line in lines]
    except Exception as error:  # of any kind: a line may be any JSON
        raise UsageError(f"{file} has a line that is no workload: {error}") from error


def named_inputs(path: Path, kind: str = "") -> set[str]:
    """The inputs that some workload of the definition has, by default of any type."""
    arguments = (argument for workload in workloads_of(path) for argument in workload.inputs.items())
    return {name for name, argument in arguments if kind in argument.type}


def arguments_at(path: Path, sizes: Mapping[str, int]) -> Mapping[str, Argument]:
    """The inputs of the workload of these sizes. At other sizes, those of the first workload that no file has count."""
    workloads = workloads_of(path)
    for workload in workloads:
        if workload.axes.items() <= sizes.items():
            return workload.inputs
    inputs = workloads[0].inputs if workloads else {}
    return {name: argument for name, argument in inputs.items() if not argument.path}
