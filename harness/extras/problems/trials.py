"""A problem file as a layer: its `Model`, or the model of a solution, at the sizes of a case.

What the inputs and the output have to do with the sizes is found by running the file with each size doubled. The runs
are on torch's device `meta`, which has shapes and computes no values. A dimension that is a product of the sizes has
known exponents. A size with which the file does not run, and all sizes of a file with any other dimension, keep the
values of the file.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, Signature
from typing import Any, ClassVar
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from harness.core.model.errors import UsageError
from harness.core.model.layer_options import options_of
from harness.core.model.sweep_axes import AXES, Case
from harness.core.trial.device import in_precision
from harness.core.trial.function_layer import FunctionLayer, first_tensor
from harness.core.trial.layer_inputs import Input, size_at
from harness.core.trial.layer_protocol import letters_at
from harness.core.trial.sandbox import one_line
from harness.core.trial.workload import Unsupported

from .dimensions import exponents, formula, letters_for
from .overrides import axes_of_file
from .problem_file import Problem, Sizes

# How a tensor of these functions may be drawn anew.
_FILLS = {torch.randn: "normal", torch.rand: "positive"}


@dataclass(frozen=True)
class Probe:
    """The inputs of a problem at some sizes, each as (shape, dtype, fill), and the shape of its output.

    The fill is empty for values that are drawn otherwise. Arguments that are no tensors are left out.
    """

    inputs: list[tuple[tuple[int, ...], torch.dtype, str]]
    output: tuple[int, ...]

    @property
    def dimensions(self) -> list[int]:
        """All dimensions of the inputs and the output, in one list."""
        return [size for shape, _, _ in self.inputs for size in shape] + [*self.output]


class _Draws(TorchFunctionMode):
    """Remembers which function has drawn a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn: list[tuple[Any, str]] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function in _FILLS:
            self._drawn.append((result, _FILLS[function]))
        return result

    def fill(self, tensor: Tensor) -> str:
        """How the tensor was drawn; empty if it was changed afterwards, or drawn otherwise."""
        return next((fill for drawn, fill in self._drawn if drawn is tensor), "")


# Torch's functions that loop over time.
_LOOPS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def _recurrent(x: Tensor, states: Any, *settings: Any) -> tuple[Tensor, ...]:
    """The shapes of a recurrent layer's output and states, without the loop over time: arguments as torch has them."""
    is_bidirectional = settings[-2]
    all_states = states if isinstance(states, tuple | list) else (states,)
    width = all_states[0].shape[-1] * (1 + is_bidirectional)
    return x.new_empty(*x.shape[:-1], width), *all_states


def probed(problem: Problem, sizes: Sizes, device: str = "meta") -> Probe:
    """Run the problem at some sizes. Raises what the file raises."""
    draws = _Draws()
    without_loops: Any = nullcontext()
    if device == "meta":
        shapes_alone: Any = dict.fromkeys(_LOOPS, _recurrent)
        without_loops = patch.multiple(torch._VF, **shapes_alone)
    with without_loops, draws, torch.device(device), torch.no_grad():
        inputs = problem.inputs_at(sizes)
        drawn = [
            (tuple(tensor.shape), tensor.dtype, draws.fill(tensor)) for tensor in inputs if isinstance(tensor, Tensor)
        ]
        output = first_tensor(problem.model_at(sizes).eval()(*inputs))
    if not isinstance(output, Tensor):
        raise UsageError(f"{problem.model} of {problem.solution} returns a {type(output).__name__}, and no tensor")
    return Probe(drawn, tuple(output.shape))


@dataclass(frozen=True)
class Shapes:
    """The inputs and the output as formulas. The sizes in `fixed` keep the file's values, each with the reason."""

    inputs: tuple[Input, ...]
    output: tuple[str, ...]
    fixed: Mapping[str, str]


def shapes_of(problem: Problem, sizes: Sizes, letters: Mapping[str, str]) -> Shapes:
    """The shapes of a problem, in the letters of its sizes. Raises UsageError if the file does not run at its sizes."""
    try:
        base = probed(problem, sizes)
    except Exception as error:  # of any kind: it is the user's code
        return _shapes(
            _on_cpu(problem, sizes), [], _all_fixed(sizes, f"torch's device meta cannot run it: {one_line(error)}")
        )
    doubled, fixed = dict[str, Probe](), dict[str, str]()
    for name, size in sizes.items():
        try:
            doubled[name] = probed(problem, {**sizes, name: 2 * size})
        except Exception as error:
            fixed[name] = f"it fails at {name} = {2 * size}: {one_line(error)}"
    try:
        together = probed(problem, {name: size * (1 + (name in doubled)) for name, size in sizes.items()})
    except Exception as error:
        return _shapes(base, [], _all_fixed(sizes, f"it fails with all sizes doubled: {one_line(error)}"))
    words = []
    for place, size in enumerate(base.dimensions):
        each = {name: probe.dimensions[place] for name, probe in doubled.items()}
        powers = exponents(size, each, together.dimensions[place])
        word = None if powers is None else formula(size, powers, sizes, letters)
        if word is None:
            return _shapes(base, [], _all_fixed(sizes, f"a dimension of {size} is no product of its integers"))
        words.append(word)
    return _shapes(base, words, fixed)


def _all_fixed(sizes: Sizes, reason: str) -> dict[str, str]:
    return dict.fromkeys(sizes, reason)


def _on_cpu(problem: Problem, sizes: Sizes) -> Probe:
    try:
        return probed(problem, sizes, "cpu")
    except Exception as error:
        raise UsageError(f"{problem.file} fails at its own sizes: {type(error).__name__}: {error}") from error


def _shapes(probe: Probe, words: Sequence[str], fixed: Mapping[str, str]) -> Shapes:
    """The shapes with a word for each dimension, by default its size."""
    left = iter(words or map(str, probe.dimensions))
    inputs = []
    for place, (shape, dtype, fill) in enumerate(probe.inputs):
        dimensions = tuple(next(left) for _ in shape)
        is_float = dtype.is_floating_point
        kept = "" if is_float else str(dtype).removeprefix("torch.")
        inputs.append(Input(f"input{place}", dimensions, kept, is_float, fill or _drawn_by_the_file))
    return Shapes(tuple(inputs), tuple(left), fixed)


def _drawn_by_the_file(*shape: int) -> Tensor:
    raise UsageError("the problem's own function draws these values")


# Outputs of two models that were built from one seed agree within this share of their norm.
_AGREE = 1e-2


class ProblemLayer(FunctionLayer):
    """A layer whose forward pass is a problem's model. `layer_of` makes a subclass for each problem and solution.

    The model is built at the length and the batch size of a case too: its weights may depend on them.
    """

    problem: ClassVar[Problem]
    # The axis of each integer of the file: `seq_len` and the like, or its own name.
    names: ClassVar[Mapping[str, str]]
    # The integers of the file, by name, and those that cannot be changed, with the reason.
    sizes: ClassVar[Mapping[str, int]]
    fixed: ClassVar[Mapping[str, str]]
    sized_by = ("seq_len", "batch_size")
    # The problem, with the solution that this is the reference of.
    solved_by: ClassVar[Problem | None] = None
    # The problem's own model, if this is a solution.
    reference: ClassVar[type | None] = None

    def __init__(self, **stated: int) -> None:
        nn.Module.__init__(self)
        self.options: dict[str, Any] = {}
        self.grouped = False
        self.at = {name: stated.get(axis, self.sizes[name]) for name, axis in self.names.items()}
        self.call = _Call(self.problem, self.at)

    def forward(self, *inputs: Tensor) -> Any:
        """The model's output."""
        return self.call(*inputs)

    @classmethod
    def sizes_of(cls, case: Case) -> dict[str, int]:
        """The integers of the file at a case."""
        options = options_of(case.options)
        stated = {axis: getattr(case, axis, None) or options.get(axis) for axis in cls.names.values()}
        return {name: stated[axis] or cls.sizes[name] for name, axis in cls.names.items()}

    @classmethod
    def draw_inputs(cls, case: Case) -> list[Tensor]:
        """The tensors that the file's `get_inputs` draws. Numbers with a fraction get the precision of the case.

        Raises Unsupported if a shape is not the one that was found for these sizes.
        """
        inputs = [argument for argument in cls.problem.inputs_at(cls.sizes_of(case)) if isinstance(argument, Tensor)]
        letters = letters_at(cls, case)
        for tensor, described in zip(inputs, cls.inputs, strict=True):
            shape = size_at(described.name, described.shape, case, *letters)
            if tensor.shape != shape:
                raise Unsupported(f"get_inputs makes {tuple(tensor.shape)}, which grows otherwise than {shape}")
        dtype = getattr(torch, case.dtype)
        return [tensor.to(case.device, in_precision(tensor, dtype)) for tensor in inputs]

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

    def __init__(self, problem: Problem, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.model = problem.model_at(sizes)
        with torch.device("meta"):
            self.arguments = [None if isinstance(x, Tensor) else x for x in problem.inputs_at(sizes)]

    def forward(self, *inputs: Tensor) -> Any:
        left = iter(inputs)
        return self.model(*(next(left) if x is None else x for x in self.arguments))


def _shapes_in(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: getattr(value, "shape", None) for name, value in state.items()}


def _check_equal_outputs(problem: Problem, solution: Problem, sizes: Mapping[str, int]) -> None:
    """Raise Unsupported unless two models that are built from one seed have equal outputs."""
    outputs, names = [], []
    with torch.random.fork_rng([]), torch.no_grad():
        torch.manual_seed(0)
        inputs = problem.inputs_at(sizes)
        for each in (problem, solution):
            torch.manual_seed(0)
            model = each.model_at(sizes).eval()
            names.append(set(model.state_dict()))
            given = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
            outputs.append(first_tensor(model(*given)))
    expected, output = outputs
    if output.shape != expected.shape or (output - expected).norm() > _AGREE * expected.norm():
        differ = ", ".join(sorted(names[0] ^ names[1])) or "the shapes of some"
        raise Unsupported(
            f"its weights are not those of the problem ({differ}), and models built from one seed have other outputs"
        )


@cache
def layer_of(name: str) -> type[ProblemLayer]:
    """The layer of the text after `problem:`. Raises UsageError for a file that cannot be measured."""
    problem = Problem.of(name)
    layer = _layer(problem)
    if problem.solution != problem.file or problem.model != "Model":
        stated = Problem.of(problem.file)
        reference = _layer(stated, solved_by=problem)
        with torch.device("meta"):
            weights, of_problem = (each.model_at(layer.sizes).state_dict() for each in (problem, stated))
        how = "with-its-weights" if _shapes_in(weights) == _shapes_in(of_problem) else "from-one-seed"
        reference.__name__ = f"{stated.file}:{stated.model}-{how}"
        layer.reference = reference
    return layer


def _layer(problem: Problem, solved_by: Problem | None = None) -> type[ProblemLayer]:
    axes, at_axes = axes_of_file(problem.file)
    sizes = {name: at_axes[axis] for name, axis in axes.items()}
    own = letters_for(name for name, axis in axes.items() if axis not in AXES)
    letters = own | {name: AXES[axis].letter for name, axis in axes.items() if axis in AXES}
    shapes = shapes_of(problem, sizes, letters)
    modules = problem.module_names

    def supports(case: Case) -> str | None:
        for name, size in layer.sizes_of(case).items():
            if name in shapes.fixed and size != sizes[name]:
                return f"its {name} is fixed at {sizes[name]}: {shapes.fixed[name]}"
        return None

    members = {
        "problem": problem,
        "names": axes,
        "sizes": sizes,
        "fixed": shapes.fixed,
        "solved_by": solved_by,
        "verified_at": {axes[name]: sizes[name] for name in shapes.fixed if axes[name] in AXES},
        "inputs": shapes.inputs,
        "output": shapes.output,
        "positional": len(shapes.inputs),
        "layout": "",
        "layout_hint": "",
        "axes": {name: (letter, sizes[name]) for name, letter in own.items()},
        "has_heads": "num_heads" in axes.values(),
        "function": problem.model_class(sizes),
        "reference": None,
        "supports": staticmethod(supports),
        "__module__": modules[0],
        "__doc__": problem.model_class(sizes).__doc__,
    }
    bases = [type("OfProblem", (), {"__module__": module}) for module in modules[1:]]
    layer: Any = type(problem.model, (ProblemLayer, *bases), members)
    parameters = {"d_model": 1, "num_heads": 1, "seq_len": 1, "batch_size": 1, **{name: sizes[name] for name in own}}
    if "num_heads" not in axes.values():
        del parameters["num_heads"]
    by_name = [Parameter(name, Parameter.KEYWORD_ONLY, default=size) for name, size in parameters.items()]
    layer.__signature__ = Signature(by_name)
    return layer
