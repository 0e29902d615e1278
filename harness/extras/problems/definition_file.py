"""A definition of FlashInfer Trace, its workloads and a solution of it, read from JSON without running them.

A definition names its axes, the shapes of its inputs and outputs in them, and the source of a reference, whose function
`run` takes the inputs in their order. Axes of the type `var` are sizes to sweep, and those of the type `const` stay.
A file of workloads beside the definition has sizes that were seen in practice: the first ones are the default.
"""

import ast
import json
import operator
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_json, read_text
from harness.core.model.file_validation import Damaged, OpenModel, checked, one_of
from harness.core.model.sweep_axes import DTYPES

_LAST = re.compile(r"(?m)^(\w+) *== *(\w+)\[-1\]\.item\(\)$")
_ONE_MORE = re.compile(r"(?m)^(\w+) *== *([^\W\d]\w*) *\+ *1$")
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
# The signs of a formula, as the module ast calls them, with their names in the module operator.
_SIGNS = {
    "Add": "add",
    "Sub": "sub",
    "Mult": "mul",
    "FloorDiv": "floordiv",
    "Mod": "mod",
    "Eq": "eq",
    "NotEq": "ne",
    "Lt": "lt",
    "LtE": "le",
    "Gt": "gt",
    "GtE": "ge",
}
# So long, a formula cannot be nested too deeply, and its numbers stay small.
_Formula = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, max_length=200)]
_Size = Annotated[int, pydantic.Field(gt=0, lt=2**31)]


def computed(formula: str, sizes: Mapping[str, int]) -> Any:
    """Whether a comparison of sums and products of sizes holds. It does not if it divides by 0.

    Raises UsageError for any other formula.
    """
    try:
        return _computed(ast.parse(formula, mode="eval").body, sizes)
    except ZeroDivisionError:
        return False
    except Exception as error:  # of any kind: a constraint may be any text
        raise UsageError(f"'{formula}' is no sum, product or comparison of axes") from error


def _computed(node: ast.AST, sizes: Mapping[str, int]) -> Any:
    match node:
        case ast.Constant(int(number)):
            return number
        case ast.Name(name):
            return sizes[name]
        case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]):
            function = getattr(operator, _SIGNS[type(sign).__name__])
            return function(_computed(left, sizes), _computed(right, sizes))
    raise ValueError


class Axis(OpenModel):
    """One axis: a constant with its value, or a variable one."""

    type: Literal["const", "var"]
    value: _Size | None = None


class Tensor(OpenModel):
    """An input or an output: its axes, None for a number, and its dtype."""

    shape: list[str] | None
    dtype: Annotated[str, one_of(DTYPE_NAMES)]
    optional: bool = False


class Definition(OpenModel):
    """The parts of a definition that are read."""

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    outputs: Annotated[dict[str, Tensor], pydantic.Field(min_length=1)]
    reference: str
    # The source of a function that makes the inputs.
    init: str | None = None
    # Of SOL-ExecBench, which names a function of the reference here: not read.
    custom_inputs_entrypoint: None = None
    constraints: list[_Formula] = pydantic.Field(default_factory=list)

    @property
    def constants(self) -> dict[str, int]:
        """The axes that have one value."""
        return {name: axis.value for name, axis in self.axes.items() if axis.value is not None}

    @property
    def variable(self) -> list[str]:
        """The axes that have any value."""
        return [name for name, axis in self.axes.items() if axis.type == "var"]

    @property
    def one_more(self) -> dict[str, str]:
        """The axes that are one longer than another, by a constraint `len_indptr == batch_size + 1`."""
        return dict(_ONE_MORE.findall("\n".join(self.comparisons)))

    def with_derived(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """All axes: these, the constant ones, and those that are one longer than another."""
        every = {**self.constants, **sizes}
        for longer, axis in self.one_more.items():
            every[longer] = every[axis] + 1
        return every

    @property
    def totals(self) -> dict[str, str]:
        """The inputs that are offsets, each with the axis that its last one is, by a constraint."""
        pairs = _LAST.findall("\n".join(self.constraints))
        return {offsets: axis for axis, offsets in pairs if axis in self.axes and offsets in self.inputs}

    @property
    def comparisons(self) -> list[str]:
        """The constraints on axes alone."""
        return [text for text in self.constraints if {*_NAME.findall(text)} <= self.axes.keys()]

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


def last_function(source: str) -> str:
    """The name of the function `run` of a source, or of its last function."""
    names = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return "run" if "run" in names else ["run", *names][-1]


def is_definition(path: Path) -> bool:
    """Whether the file is a definition."""
    return path.suffix == ".json" and path.is_file() and {"axes", "inputs", "reference"} <= {*_content(path)}


@cache
def read_definition(path: Path) -> Definition:
    """The definition in the file. An optional input that no workload has is None, as if it were a number.

    Raises UsageError if it is none, or has a constraint on sizes that is not read.
    """
    definition: Definition = _checked(Definition, path)
    known = {*definition.constants, *definition.variable}
    for tensor in (*definition.inputs.values(), *definition.outputs.values()):
        for axis in tensor.shape or ():
            if axis not in known:
                raise UsageError(f"{path}: the axis '{axis}' of a shape is not among its axes, or has no value")
    for text in definition.constraints:
        if text in definition.comparisons:
            computed(text, dict.fromkeys(definition.axes, 1))
        elif not _LAST.fullmatch(text) and not {*_NAME.findall(text)}.isdisjoint(definition.variable):
            raise UsageError(
                f"{path} has the constraint '{text}', which is not read: comparisons of axes and A == B[-1].item() are"
            )
    for name, stated in definition.inputs.items():
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


class Argument(OpenModel):
    """How a workload makes an input."""

    type: Literal["random", "scalar", "safetensors"]
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
    if file is None:
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
    """The inputs of the workload of these sizes. At other sizes, the numbers of the first workload count."""
    workloads = workloads_of(path)
    for workload in workloads:
        if workload.axes.items() <= sizes.items():
            return workload.inputs
    inputs = workloads[0].inputs if workloads else {}
    return {name: argument for name, argument in inputs.items() if argument.type == "scalar"}
