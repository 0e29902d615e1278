"""A definition of FlashInfer Trace at some sizes: its reference or a solution, and inputs that fit its constraints."""

import hashlib
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
from harness.core.model.sweep_axes import Case
from harness.core.trial.layer_inputs import Input
from harness.core.trial.workload import Unsupported
from harness.extras.problems.definition_file import (
    Definition,
    read_definition,
    read_solution,
    workload_file,
    workload_of,
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
        every = {**self.definition.constants, **sizes}
        return every | {longer: every[axis] + 1 for longer, axis in self.definition.one_more.items()}

    def inputs_at(self, sizes: Sizes) -> list[Any]:
        """Draw the inputs. Raises Unsupported for whole numbers that no constraint and no workload determines."""
        every = self.all_sizes(sizes)
        return [_input(self, name, every) for name in self.definition.inputs]

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
        inputs = []
        for name, stated in definition.inputs.items():
            if stated.shape is not None:
                shape = tuple(words[axis] for axis in stated.shape)
                is_float = getattr(torch, stated.dtype).is_floating_point
                dtype = "" if stated.dtype == definition.dtype else stated.dtype
                fill = "normal" if is_float and getattr(torch, stated.dtype).itemsize > 1 else drawn_by_the_file
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
        spec = read_solution(Path(problem.solution)).spec if problem.solution else None
        self.passes = spec is not None and spec.passes_destinations

    def forward(self, *inputs: Any) -> Any:
        if not self.passes:
            result = self.function(*inputs)
            return result[self.first] if isinstance(result, dict) else result
        device = next(x.device for x in inputs if isinstance(x, torch.Tensor))
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in self.outputs]
        self.function(*inputs, *made)
        return made[0]


def _function(problem: DefinitionProblem) -> Callable[..., Any]:
    """The function `run` of the reference, or the entry point of a solution. Raises UsageError without it."""
    name = "run"
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


def _input(problem: DefinitionProblem, name: str, sizes: Mapping[str, int]) -> Any:
    definition, stated = problem.definition, problem.definition.inputs[name]
    if stated.shape is None:
        return _number(problem, name)
    shape, dtype = [sizes[axis] for axis in stated.shape], getattr(torch, stated.dtype)
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


def _number(problem: DefinitionProblem, name: str) -> float | int:
    """The number in the first workload, or 1, of the kind that the definition states."""
    stated = workload_of(Path(problem.file)).get("inputs", {}).get(name, {})
    value = stated.get("value", 1) if isinstance(stated, dict) else 1
    is_whole = "int" in problem.definition.inputs[name].dtype
    return int(value) if is_whole else float(value)
