"""A problem file as a layer: its model, or that of a solution, at the sizes of a case."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from harness.core.model.extra_tables import referenced
from harness.core.model.layer_options import options_of
from harness.core.model.sweep_axes import AXES, Case
from harness.core.trial.device import in_precision
from harness.core.trial.function_layer import FunctionLayer
from harness.core.trial.layer_inputs import size_at
from harness.core.trial.layer_protocol import letters_at
from harness.core.trial.workload import Unsupported
from harness.extras.problems.formats import files_of, format_of

from .probe import letters_for, seeded_output
from .problem import Problem, Sizes

# Outputs of two models that were built from one seed agree within this share of their norm.
_AGREE = 1e-2


class ProblemLayer(FunctionLayer):
    """A layer whose forward pass is a problem's model. `layer_of` makes a subclass for each problem and solution.

    The model is built at the length and the batch size of a case too: its weights may depend on them.
    """

    problem: ClassVar[Problem]
    # The axis of each integer of the file: `seq_len` and the like, or its own name.
    names: ClassVar[Mapping[str, str]]
    # The integers of the file, by name.
    sizes: ClassVar[Sizes]
    sized_by = ("seq_len", "batch_size")
    layout = layout_hint = ""
    # The problem, with the solution that this is the reference of.
    solved_by: ClassVar[Problem | None]
    # Whether its weights have other names than the problem's.
    has_other_weights: ClassVar[bool] = False
    # The problem's own model, if this is a solution.
    reference: ClassVar[type | None] = None

    def __init__(self, **stated: int) -> None:
        super().__init__(d_model=1)
        # What a case does not state is 1 of an axis of the sweep, and the file's own value of another.
        self.at = {name: stated.get(axis, 1 if axis in AXES else self.sizes[name]) for name, axis in self.names.items()}
        self.call = _Call(self.problem, self.at)

    def forward(self, *inputs: Tensor) -> Any:
        """The model's output."""
        return self.call(*inputs)

    @classmethod
    def sizes_of(cls, case: Case) -> dict[str, int]:
        """The integers of the file at a case."""
        stated = {**options_of(case.options), **case.as_dict()}
        return {name: stated.get(axis) or cls.sizes[name] for name, axis in cls.names.items()}

    @classmethod
    def draw_inputs(cls, case: Case) -> list[Tensor]:
        """The tensors that the file's `get_inputs` draws. Numbers with a fraction get the precision of the case,
        unless their dtype is stated.

        Raises Unsupported if a shape is not the one that was found for these sizes.
        """
        inputs = [argument for argument in cls.problem.inputs_at(cls.sizes_of(case)) if isinstance(argument, Tensor)]
        letters = letters_at(cls, case)
        drawn = []
        for tensor, described in zip(inputs, cls.inputs, strict=True):
            shape = size_at(described.name, described.shape, case, *letters)
            if tensor.shape != shape:
                raise Unsupported(f"get_inputs makes {tuple(tensor.shape)}, which grows otherwise than {shape}")
            dtype = getattr(torch, described.dtype or case.dtype)
            drawn.append(tensor.to(case.device, in_precision(tensor, dtype)))
        return drawn

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take the weights of a layer with the same names and shapes.

        A reference with other weights keeps those that it has drawn from the same seed. Raises Unsupported if the
        outputs of both models then differ.
        """
        if self.solved_by is None or _shapes_in(state_dict) == _shapes_in(self.state_dict()):
            return super().load_state_dict(state_dict, strict, assign)
        _check_equal_outputs(self.problem, self.solved_by, self.at)
        return None


class _Call(nn.Module):
    """The model, called with the tensors of `get_inputs`. Its other arguments are as the file has them."""

    def __init__(self, problem: Problem, sizes: Sizes) -> None:
        super().__init__()
        self.model = problem.model_at(sizes)
        with torch.random.fork_rng([]):
            arguments = problem.inputs_at(sizes)
        # The class itself marks the place of a tensor.
        self.arguments = [Tensor if isinstance(argument, Tensor) else argument for argument in arguments]
        if any(isinstance(argument, list | tuple | dict) for argument in self.arguments):
            raise Unsupported(
                "get_inputs returns a list, a tuple or a dict as an argument: give tensors, numbers and texts"
            )

    def forward(self, *inputs: Tensor) -> Any:
        tensors = iter(inputs)
        return self.model(*(next(tensors) if argument is Tensor else argument for argument in self.arguments))


def _shapes_in(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: getattr(value, "shape", None) for name, value in state.items()}


def _check_equal_outputs(problem: Problem, solution: Problem, sizes: Sizes) -> None:
    """Raise Unsupported unless two models that are built from one seed have equal outputs."""
    outputs, names = [], []
    with torch.random.fork_rng([]), torch.no_grad():
        torch.manual_seed(0)
        inputs = problem.inputs_at(sizes)
        for each in (problem, solution):
            torch.manual_seed(0)
            model = each.model_at(sizes).eval()
            names.append(set(model.state_dict()))
            outputs.append(seeded_output(model, inputs))
    expected, output = outputs
    if output.shape != expected.shape or not (output - expected).norm() <= _AGREE * expected.norm():
        differ = ", ".join(sorted(names[0] ^ names[1])) or "the shapes of some"
        raise Unsupported(
            f"its weights are not those of the problem ({differ}), and models built from one seed have other outputs"
        )


@cache
def layer_of(name: str) -> type[ProblemLayer]:
    """The layer of the text after `problem-file:`. Raises UsageError for a file that cannot be measured."""
    problem = problem_of(name)
    layer = _layer(problem)
    stated = replace(problem, solution="")
    if problem != stated:
        reference = _layer(stated, solved_by=problem)
        with torch.device("meta"):
            weights, of_problem = (each.model_at(layer.sizes).state_dict() for each in (problem, stated))
        how = "-with-its-weights" if _shapes_in(weights) == _shapes_in(of_problem) else "-from-one-seed"
        reference.__name__ = f"{stated.file}:{stated.model}{how if weights or of_problem else ''}"
        layer.reference = reference
        layer.has_other_weights = how == "-from-one-seed"
    return layer


def problem_of(name: str) -> Problem:
    """The problem in a text such as `FILE`, or `FILE+SOLUTION`."""
    file, solution = files_of(name)
    problem: Problem = referenced(format_of(file).problem)(file, solution)
    return problem


def _layer(problem: Problem, solved_by: Problem | None = None) -> type[ProblemLayer]:
    file_axes = format_of(problem.file).axes(Path(problem.file))
    axes = file_axes.axis_of
    sizes = {name: file_axes.sizes[axis] for name, axis in axes.items()}
    own = letters_for(name for name, axis in axes.items() if axis not in AXES)
    letters = own | {name: AXES[axis].letter for name, axis in axes.items() if axis in AXES}
    shapes = problem.shapes(sizes, letters)
    model, modules = problem.model_class(sizes), problem.module_names

    def supports(case: Case) -> str | None:
        at = layer.sizes_of(case)
        for name, reason in shapes.fixed.items():
            if at[name] != sizes[name]:
                return f"its {name} is fixed at {sizes[name]}: {reason}"
        for axis in layer.sized_by:
            if axis not in axes.values() and getattr(case, axis) > 1:
                return f"the file has no integer that is {axis}: leave it out"
        if layer.has_other_weights and case.trains:
            return "the gradients of its weights have nothing to be compared with: give mode=forward"
        return problem.refusal(case)

    members = {
        "problem": problem,
        "names": axes,
        "sizes": sizes,
        "solved_by": solved_by,
        "verified_at": {axes[name]: sizes[name] for name in shapes.fixed if axes[name] in AXES},
        "inputs": shapes.inputs,
        "output": shapes.output,
        "positional": len(shapes.inputs),
        "axes": {name: (letter, sizes[name]) for name, letter in own.items()},
        "has_heads": "num_heads" in axes.values(),
        "function": model,
        "supports": staticmethod(supports),
        "__module__": modules[0],
        "__doc__": model.__doc__,
    }
    # What is tolerated is said by the problem, and not by its solution.
    judge = replace(problem, solution="").model_class(sizes)
    stated = {name: getattr(judge, name, None) for name in ("allowed_error", "kinks", "output_dtype")}
    members |= {name: value for name, value in stated.items() if value is not None}
    bases = [type("OfProblem", (), {"__module__": module}) for module in modules[1:]]
    layer: Any = type(problem.model, (ProblemLayer, *bases), members)
    of_sweep = dict.fromkeys(("d_model", "num_heads", "seq_len", "batch_size"), 1)
    parameters = of_sweep | {name: sizes[name] for name in own}
    layer.__signature__ = Signature(
        [Parameter(name, Parameter.KEYWORD_ONLY, default=size) for name, size in parameters.items()]
    )
    return layer
