"""A definition of FlashInfer Trace at some sizes: its reference or a solution, and inputs that fit its constraints."""

import hashlib
import json
import linecache
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_bytes
from harness.core.model.sweep_axes import Case
from harness.core.trial.layer_inputs import Input
from harness.core.trial.workload import Unsupported
from harness.extras.problems.definition_file import (
    DTYPE_NAMES,
    Argument,
    Definition,
    arguments_at,
    computed,
    last_function,
    named_inputs,
    read_definition,
    read_solution,
    workload_file,
)

from .probe import drawn_by_the_file
from .problem import Problem, Shapes, Sizes


class DefinitionProblem(Problem):
    """A definition: what is measured is the function `run` of its reference, or the entry point of a solution."""

    model = "run"

    @property
    def definition(self) -> Definition:
        """What the file says."""
        return read_definition(Path(self.file))

    @property
    def module_names(self) -> list[str]:
        """The modules of the source, of the reference and, without code, of the workload."""
        modules = [_module(self.source, not self.solution), _module(self.file, True)]
        if workload := workload_file(Path(self.file)):
            modules.append(_empty_module(str(workload)))
        return list(dict.fromkeys(module.__name__ for module in modules))

    def model_class(self, sizes: Sizes) -> Any:
        """The function that is measured."""
        return _function(self)

    def model_at(self, sizes: Sizes) -> nn.Module:
        """The function as a module without weights."""
        return _Function(self, self.all_sizes(sizes))

    def all_sizes(self, sizes: Sizes) -> dict[str, int]:
        """All axes: the variable ones, the constant ones, and those that are one longer than another."""
        return self.definition.with_derived(sizes)

    def inputs_at(self, sizes: Sizes) -> list[Any]:
        """Draw the inputs; those that are left out are None.

        Raises Unsupported if a constraint does not hold, and for whole numbers that nothing determines.
        """
        every = self.all_sizes(sizes)
        for constraint in self.definition.comparisons:
            if not computed(constraint, every):
                raise Unsupported(f"its constraint '{constraint}' does not hold: give other sizes")
        arguments = arguments_at(Path(self.file), every)
        made = _made(self, every)
        return [_input(self, name, every, arguments.get(name), made) for name in self.definition.inputs]

    def refusal(self, case: Case) -> str | None:
        """Why the case cannot run: a definition has one dtype, and no backward pass."""
        if case.mode != "forward":
            return "a definition has no backward pass: give mode=forward"
        return None if case.dtype == self.definition.dtype else f"it is defined in {self.definition.dtype}"

    def shapes(self, sizes: Sizes, letters: Mapping[str, str]) -> Shapes:
        """The shapes that the definition states."""
        definition = self.definition
        words = {name: str(value) for name, value in definition.constants.items()} | dict(letters)
        words |= {longer: f"{words[axis]}+1" for longer, axis in definition.one_more.items()}
        files = named_inputs(Path(self.file), "safetensors")
        inputs = []
        for name, stated in definition.inputs.items():
            if stated.shape is not None:
                shape = tuple(words[axis] for axis in stated.shape)
                kind = getattr(torch, stated.dtype)
                is_float = kind.is_floating_point
                dtype = "" if stated.dtype == definition.dtype else stated.dtype
                is_random = not definition.init and name not in files
                fill = "normal" if is_float and kind.itemsize > 1 and is_random else drawn_by_the_file
                inputs.append(Input(name, shape, dtype, is_float, fill))
        output = next(iter(definition.outputs.values())).shape or ()
        return Shapes(tuple(inputs), tuple(words[axis] for axis in output))


class _Function(nn.Module):
    """The function of a definition or a solution, called with the inputs in their order."""

    def __init__(self, problem: DefinitionProblem, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.function = _function(problem)
        self.first = next(iter(problem.definition.outputs))
        outputs = problem.definition.outputs.values()
        self.outputs = [([sizes[axis] for axis in out.shape or ()], getattr(torch, out.dtype)) for out in outputs]
        self.passes = problem.solution and read_solution(Path(problem.solution)).spec.passes_destinations

    def forward(self, *inputs: Any) -> Any:
        if not self.passes:
            result = self.function(*inputs)
            return result[self.first] if isinstance(result, dict) else result
        device = next(x.device for x in inputs if isinstance(x, torch.Tensor))
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in self.outputs]
        self.function(*inputs, *made)
        return made[0]


def _function(problem: DefinitionProblem) -> Callable[..., Any]:
    """The function of the reference, or the entry point of a solution. Raises UsageError without it."""
    name = last_function(problem.definition.reference)
    if problem.solution:
        name = read_solution(Path(problem.solution)).spec.entry_point.rpartition("::")[2]
    function = getattr(_module(problem.source, not problem.solution), name, None)
    if not callable(function):
        raise UsageError(f"{problem.source} has no function '{name}'")
    return function


@cache
def _module(file: str, is_reference: bool) -> ModuleType:
    """The source of a reference, or the file of a solution with its entry point, run as a module."""
    if is_reference:
        source = read_definition(Path(file)).reference
    else:
        solution = read_solution(Path(file))
        place = solution.spec.entry_point.partition("::")[0]
        sources = {part.path: part.content for part in solution.sources}
        if place not in sources:
            raise UsageError(f"{file} has no source '{place}', which its entry_point names")
        source = sources[place]
    module = _empty_module(file)
    # A compiler such as Triton's reads the source of a function by the name of its file.
    name = f"{module.__file__}::source"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile(source, name, "exec"), vars(module))
    return module


def _empty_module(file: str) -> ModuleType:
    """A module that stands for the file: the digests of a layer's files are those of its modules."""
    mark = hashlib.sha256(file.encode()).hexdigest()[:12]
    module = ModuleType(f"_own_{mark}_{Path(file).stem}")
    module.__file__ = str(Path(file).absolute())
    sys.modules[module.__name__] = module
    return module


def _made(problem: DefinitionProblem, sizes: Mapping[str, int]) -> Any:
    """What the definition's own function makes: its inputs by name; nothing without one."""
    definition = problem.definition
    if not definition.init:
        return {}
    module = _empty_module(problem.file)
    exec(definition.init, vars(module))
    function = getattr(module, last_function(definition.init))
    return function(**{name: sizes[name] for name in definition.variable}, device="cpu", seed=torch.initial_seed())


def _read_tensor(problem: DefinitionProblem, argument: Argument, shape: list[int], dtype: str) -> torch.Tensor:
    """The tensor of a file in the format safetensors: 8 bytes of length, a header in JSON, and numbers.

    Its path is relative to a folder above the definition. Raises Unsupported for a file that is absent or a pointer of
    Git LFS, and for another shape or dtype.
    """
    # The nearest one that is there.
    file = max((folder / argument.path for folder in Path(problem.file).absolute().parents), key=Path.is_file)
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


def _input(
    problem: DefinitionProblem, name: str, sizes: Mapping[str, int], argument: Argument | None, made: Any
) -> Any:
    definition = problem.definition
    stated = definition.inputs[name]
    if argument and argument.type == "scalar":
        return argument.value
    if stated.shape is None:
        return None if stated.optional else made.get(name, 1)
    shape, dtype = [sizes[axis] for axis in stated.shape], getattr(torch, stated.dtype)
    if argument and argument.type == "safetensors":
        return _read_tensor(problem, argument, shape, stated.dtype)
    if name in made:
        return made[name]
    if definition.init:
        raise Unsupported(f"its init makes no input '{name}'")
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    if name in definition.totals:  # sequences, or their pages, one after another, as equal as they can be
        total, number = sizes[definition.totals[name]], shape[0] - 1
        return torch.tensor([total * i // max(number, 1) for i in range(number + 1)], dtype=dtype)
    is_of_pages = name.endswith("_indices") and stated.shape[0] in definition.totals.values()
    if is_of_pages and "num_pages" in sizes:
        return (torch.arange(shape[0]) % sizes["num_pages"]).to(dtype)
    if name == "kv_last_page_len" and "page_size" in sizes:
        return torch.full(shape, sizes["page_size"], dtype=dtype)
    raise Unsupported(f"its input '{name}' holds whole numbers that no constraint of the definition determines")
