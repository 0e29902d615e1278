"""A problem that is a Python module, and a solution of it, run at any sizes."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from harness.core.model.errors import UsageError
from harness.extras.problems.formats import place_of
from harness.extras.problems.sizes import at_sizes, integers, models_in, names_in
from harness.extras.problems.translations import module_tree

from .probe import shapes_of
from .problem import Problem, Shapes, Sizes, new_module


class ModuleProblem(Problem):
    """A problem of KernelBench. What is measured is its model, or `ModelNew` or `Model` of a solution."""

    @property
    def model(self) -> str:
        """The name of the class or function that is measured."""
        tree = module_tree(Path(self.file))
        if not self.solution:
            return models_in(tree)[0]
        names = names_in(module_tree(Path(self.solution)))
        functions = (name for name in sorted(names) if f"of_{name}" in names_in(tree))
        return "ModelNew" if "ModelNew" in names else next(functions, "Model")

    @property
    def module_names(self) -> list[str]:
        """The modules of both files at some sizes: their directories hold the code of the layer."""
        return [_module_at(file, frozenset()).__name__ for file in dict.fromkeys((self.source, self.file))]

    def model_class(self, sizes: Sizes) -> Any:
        """The class that is measured. An integer of a solution is a size if the problem has it with the same value.

        For a solution that is a function, the problem makes the class.
        """
        stated, of_solution = (integers(module_tree(Path(file))) for file in (self.file, self.source))
        shared = {name: size for name, size in sizes.items() if of_solution.get(name) == stated[name]}
        problem = _module_at(self.file, frozenset(sizes.items()))
        part = getattr(_module_at(self.source, frozenset(shared.items())), self.model)
        class_of = getattr(problem, f"of_{self.model}", None)
        return class_of(part) if class_of else part

    def model_at(self, sizes: Sizes) -> Any:
        """A new model, built with what `get_init_inputs` returns: a list, or a list and keywords."""
        arguments = _module_at(self.file, frozenset(sizes.items())).get_init_inputs()
        has_keywords = len(arguments) == 2 and isinstance(arguments[0], list) and isinstance(arguments[1], dict)
        positional, keywords = arguments if has_keywords else (arguments, {})
        return self.model_class(sizes)(*positional, **keywords)

    def inputs_at(self, sizes: Sizes) -> list[Any]:
        """What `get_inputs` returns."""
        return list(_module_at(self.file, frozenset(sizes.items())).get_inputs())

    def shapes(self, sizes: Sizes, letters: Mapping[str, str]) -> Shapes:
        """The shapes that runs have shown. Raises UsageError if they need CUDA, and it is absent."""
        try:
            return shapes_of(self, sizes, letters)
        except UsageError as error:
            if torch.cuda.is_available() or not re.search("CUDA|NVIDIA", str(error)):
                raise
            raise UsageError(f"{self.source} needs CUDA: measure it where torch.cuda.is_available()") from error


@cache
def _module_at(file: str, sizes: frozenset[tuple[str, int]]) -> ModuleType:
    """The module of a file, run with these values for those of its integers that have these names."""
    changed = at_sizes(module_tree(Path(file)), dict(sizes))
    module = new_module(place_of(file)[0], f"{file} {sorted(sizes)}")
    exec(compile(changed, str(module.__file__), "exec"), vars(module))
    return module
