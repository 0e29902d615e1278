"""A definition of FlashInfer Trace at some sizes: its reference or a solution, and inputs that fit its constraints."""

import json
import linecache
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_bytes
from harness.core.model.polynomial import own_letter
from harness.core.model.sweep_axes import DTYPES, Case
from harness.core.trial.layer_inputs import Input
from harness.core.trial.workload import Unsupported
from harness.extras.problems.definition_file import (
    DTYPE_NAMES,
    Argument,
    Definition,
    arguments_at,
    code_of,
    computed,
    named_inputs,
    read_definition,
    read_solution,
    with_last_function,
    workload_file,
)

from .probe import drawn_by_the_file
from .problem import Problem, Shapes, Sizes, new_module


class DefinitionProblem(Problem):
    """A definition: what is measured is the function `run` of its reference, or the entry point of a solution."""

    model = "run"
    tolerance = 1e-2

    @property
    def definition(self) -> Definition:
        """What the file says."""
        return read_definition(Path(self.file))

    @property
    def code(self) -> tuple[str, str]:
        """The source of what is measured, and the name of its function."""
        if self.solution:
            return code_of(Path(self.solution))
        return with_last_function(self.definition.reference)

    @property
    def module_names(self) -> list[str]:
        """The modules of the source, of the reference and, without code, of the workload."""
        sources = {self.source: self.code[0], self.file: self.definition.reference}
        if workload := workload_file(Path(self.file)):
            sources[str(workload)] = ""
        return [_module(file, source).__name__ for file, source in sources.items()]

    def model_class(self, sizes: Sizes) -> Any:
        """The function that is measured."""
        return _function(self.source, *self.code)

    def model_at(self, sizes: Sizes) -> nn.Module:
        """The function as a module without weights."""
        return _Function(self, self.definition.with_derived(sizes))

    def inputs_at(self, sizes: Sizes) -> list[Any]:
        """Draw the inputs; those that are left out are None.

        Raises Unsupported if a constraint does not hold, and for whole numbers that nothing determines.
        """
        definition = self.definition
        every = definition.with_derived(sizes)
        for constraint in definition.constraints:
            if not computed(constraint, every):
                raise Unsupported(f"its constraint '{constraint}' does not hold: give other sizes")
        arguments = arguments_at(Path(self.file), every)
        made: Any = {}
        if entry := definition.custom_inputs_entrypoint:
            numbers = {name: argument.value for name, argument in arguments.items() if argument.type == "scalar"}
            make = _function(self.file, definition.reference, entry)
            made = make({**every, **numbers}, torch.device("cpu"))
        elif definition.init:
            make = _function(self.file, *with_last_function(definition.init))
            axes = {name: every[name] for name in definition.variable}
            made = make(**axes, device="cpu", seed=torch.initial_seed())
        usual = Argument(type="random")
        return [self._input(name, every, arguments.get(name, usual), made) for name in definition.inputs]

    def refusal(self, case: Case) -> str | None:
        """Why the case cannot run: a definition has one dtype and no backward pass, and its solutions name it."""
        solved = self.solution and read_solution(Path(self.solution)).definition
        if solved and solved != self.definition.name:
            return f"it is a solution of another definition, '{solved}'"
        if case.mode != "forward":
            return "a definition has no backward pass: give mode=forward"
        return None if case.dtype == self.definition.dtype else f"it is defined in {self.definition.dtype}"

    def shapes(self, sizes: Sizes, letters: Mapping[str, str]) -> Shapes:
        """The shapes that the definition states."""
        definition = self.definition
        fixed = {}
        try:
            words = definition.with_derived({name: own_letter(letter) for name, letter in letters.items()})
        except UsageError as error:
            words = definition.with_derived(sizes)
            fixed = dict.fromkeys(sizes, str(error))
        files = named_inputs(Path(self.file), "safetensors")
        inputs = []
        for name, stated in definition.inputs.items():
            if stated.shape is not None:
                is_drawn = definition.init or name in files or stated.dtype not in DTYPES
                fill = drawn_by_the_file if is_drawn else "normal"
                inputs.append(Input(name, tuple(map(str, stated.at(words))), stated.dtype, fill=fill))
        output = next(iter(definition.outputs.values()))
        return Shapes(tuple(inputs), tuple(map(str, output.at(words))), fixed)

    def _read_tensor(self, argument: Argument, shape: list[int], dtype: str) -> torch.Tensor:
        """The tensor of a file in the format safetensors: 8 bytes of length, a header in JSON, and numbers.

        Its path is relative to a folder above the definition. Raises Unsupported for a file that is absent or a pointer
        of Git LFS, and for another shape or dtype.
        """
        # The nearest one that is there.
        file = max((folder / argument.path for folder in Path(self.file).absolute().parents), key=Path.is_file)
        try:
            content = read_bytes(file)
            if content.startswith(b"version https://git-lfs"):
                raise ValueError("it is a pointer of Git LFS: run `git lfs pull`")
            start = 8 + int.from_bytes(content[:8], "little")
            entry = json.loads(content[8:start])[argument.tensor_key]
            first, end = entry["data_offsets"]
            numbers = bytearray(content[start + first : start + end])
            described = entry["dtype"], entry["shape"], end - first
            if first < 0 or described != (DTYPE_NAMES[dtype], shape, len(numbers)):
                raise ValueError(f"it is no {dtype} of the shape {shape} inside the file")
            return torch.frombuffer(numbers, dtype=getattr(torch, dtype)).reshape(shape)
        except Exception as error:  # of any kind: the file may hold anything
            raise Unsupported(
                f"'{argument.tensor_key}' cannot be read from {argument.path} (bring it, or give other sizes): {error}"
            ) from error

    def _input(self, name: str, sizes: Sizes, argument: Argument, made: Any) -> Any:
        definition = self.definition
        stated = definition.inputs[name]
        if argument.type == "scalar":
            return argument.value
        if stated.shape is None:
            return None if stated.optional else made.get(name, 1)
        shape, dtype = stated.at(sizes), getattr(torch, stated.dtype)
        if argument.type == "safetensors":
            return self._read_tensor(argument, shape, stated.dtype)
        if name in made:
            return made[name]
        if definition.init or argument.type == "custom":
            raise Unsupported(f"its {definition.custom_inputs_entrypoint or 'init'} makes no input '{name}'")
        totals = [each.total for each in definition.inputs.values()]
        if dtype.is_floating_point:
            values = torch.randn(shape)
        elif stated.total:  # sequences, or their pages, one after another, as equal as they can be
            values = torch.arange(shape[0]) * sizes[stated.total] // max(shape[0] - 1, 1)
        elif name.endswith("_indices") and stated.shape[0] in totals and "num_pages" in sizes:
            values = torch.arange(shape[0]) % sizes["num_pages"]
        elif name == "kv_last_page_len" and "page_size" in sizes:
            values = torch.full(shape, sizes["page_size"])
        else:
            raise Unsupported(f"its input '{name}' holds whole numbers that no constraint of the definition determines")
        return values.to(dtype)


class _Function(nn.Module):
    """The function of a definition or a solution, called with the inputs in their order."""

    def __init__(self, problem: DefinitionProblem, sizes: Sizes) -> None:
        super().__init__()
        self.function = problem.model_class(sizes)
        self.outputs = {
            name: (out.at(sizes), getattr(torch, out.dtype)) for name, out in problem.definition.outputs.items()
        }
        self.passes = False
        if problem.solution:
            spec = read_solution(Path(problem.solution)).spec
            stated = spec.destination_passing_style
            self.passes = spec.language is not None if stated is None else stated

    def forward(self, *inputs: Any) -> Any:
        if not self.passes:
            result = self.function(*inputs)
            return result[next(iter(self.outputs))] if isinstance(result, dict) else result
        device = next(x.device for x in inputs if isinstance(x, torch.Tensor))
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in self.outputs.values()]
        self.function(*inputs, *made)
        return made[0]


def _function(file: str, source: str, name: str) -> Any:
    """A function of the source. Raises UsageError without it."""
    function = getattr(_module(file, source), name, None)
    if not callable(function):
        raise UsageError(f"{file} has no function '{name}'")
    return function


@cache
def _module(file: str, source: str) -> ModuleType:
    """The source as a module that stands for the file."""
    module = new_module(Path(file), file + source)
    # A compiler such as Triton's reads the source of a function by the name of its file.
    name = f"{module.__file__}::{module.__name__}"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), vars(module))
    return module
