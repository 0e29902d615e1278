"""What a problem's inputs and output have to do with its sizes, found by running it with each size doubled.

The runs are on torch's device `meta`, which has shapes and computes no values. A dimension that is a product of the
sizes has known exponents. A size with which the file does not run, and all sizes of a file with any other dimension,
keep the values of the file.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import LETTERS
from harness.core.trial.function_layer import first_tensor
from harness.core.trial.layer_inputs import Input
from harness.core.trial.sandbox import one_line

from .problem import Problem, Shapes, Sizes

# How a tensor of these functions may be drawn anew.
_FILLS = {torch.randn: "normal", torch.rand: "positive"}
# What is left for the letters of a file's own axes after those of n, d, h and the like.
_RESERVED = {*LETTERS, "D", "t", "e"}
_LETTERS = "abcefgijklopqrsuvwxyzABCEFGHIJKLMNOPQRSTUVWXYZαβγδεζηθκλμνξπρστφχψω"


@dataclass(frozen=True)
class Probe:
    """A problem's model, the tensors among its inputs, and its output, at some sizes."""

    model: nn.Module
    inputs: list[Tensor]
    output: Tensor

    @property
    def dimensions(self) -> list[int]:
        """All dimensions of the inputs and the output, in one list."""
        return [size for tensor in (*self.inputs, self.output) for size in tensor.shape]


class _Draws(TorchFunctionMode):
    """Marks each tensor with the way that it is drawn. A tensor that is computed from it has no mark."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function in _FILLS:
            result.drawn_as = _FILLS[function]
        return result


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
    loops = _LOOPS if device == "meta" else ()
    shapes_alone = patch.dict(vars(torch._VF), dict.fromkeys(loops, _recurrent))
    with shapes_alone, _Draws(), torch.device(device), torch.no_grad():
        arguments = problem.inputs_at(sizes)
        model = problem.model_at(sizes).eval()
        output = first_tensor(model(*arguments))
    if not isinstance(output, Tensor):
        raise UsageError(f"{problem.model} of {problem.source} returns a {type(output).__name__}, and no tensor")
    return Probe(model, [argument for argument in arguments if isinstance(argument, Tensor)], output)


def seeded_output(model: nn.Module, arguments: list[Any]) -> Any:
    """The output of a copy of the model for a copy of the arguments, which draws its random numbers from one seed."""
    torch.manual_seed(0)
    return first_tensor(deepcopy(model)(*deepcopy(arguments)))


def letters_for(names: Iterable[str]) -> dict[str, str]:
    """A letter for each name, its first one that is free."""
    letters: dict[str, str] = {}
    for name in names:
        used = {*_RESERVED, *letters.values()}
        letters[name] = next(letter for letter in name + _LETTERS if letter.isalpha() and letter not in used)
    return letters


def formula(
    base: int, doubled: Mapping[str, int], all_doubled: int, sizes: Sizes, letters: Mapping[str, str]
) -> str | None:
    """A dimension as a formula, such as `3n` or `nd/h`. It is `base`, and `doubled[name]` with that size doubled.

    None if it is no product of a whole number and the sizes. Its value with all sizes doubled then differs, a factor is
    no power of two, or the number has a fraction.
    """
    constant, powers = Fraction(base), 0
    factors = divisors = ""
    for name, value in doubled.items():
        power = _power_of_two(base, value)
        if power is None:
            return None
        powers += power
        constant /= Fraction(sizes[name]) ** power
        letter = letters[name]
        factors += f"{letter}^{power}" if power > 1 else letter * power
        divisors += f"/{letter}" * -power
    if constant.denominator > 1 or _power_of_two(base, all_doubled) != powers:
        return None
    return (factors if constant == 1 and factors else f"{constant}{factors}") + divisors


def _power_of_two(base: int, value: int) -> int | None:
    """The p of value = 2ᵖ·base; None if there is none."""
    if not base:
        return None if value else 0
    above, below = Fraction(value, base).as_integer_ratio()
    is_power = above.bit_count() == below.bit_count() == 1
    return above.bit_length() - below.bit_length() if is_power else None


def shapes_of(problem: Problem, sizes: Sizes, letters: Mapping[str, str]) -> Shapes:
    """The shapes of a problem, in the letters of its sizes. Raises UsageError if the file does not run at its sizes."""
    try:
        base = probed(problem, sizes)
    except Exception as error:  # of any kind: it is the user's code
        reason = f"torch's device meta cannot run it: {one_line(error)}"
        return _own_shapes(_on_cpu(problem, sizes), sizes, reason)
    doubled, fixed = dict[str, Probe](), dict[str, str]()
    for name, size in sizes.items():
        try:
            doubled[name] = probed(problem, {**sizes, name: 2 * size})
        except Exception as error:
            fixed[name] = f"it fails at {name} = {2 * size}: {one_line(error)}"
    try:
        together = probed(problem, {name: size * (1 + (name in doubled)) for name, size in sizes.items()})
    except Exception as error:
        return _own_shapes(base, sizes, f"it fails with all sizes doubled: {one_line(error)}")
    words = []
    for place, size in enumerate(base.dimensions):
        each = {name: probe.dimensions[place] for name, probe in doubled.items()}
        word = formula(size, each, together.dimensions[place], sizes, letters)
        if word is None:
            return _own_shapes(base, sizes, f"a dimension of {size} is no product of its integers")
        words.append(word)
    return _shapes(base, words, fixed)


def _on_cpu(problem: Problem, sizes: Sizes) -> Probe:
    try:
        return probed(problem, sizes, "cpu")
    except Exception as error:
        raise UsageError(f"{problem.source} fails at its own sizes: {type(error).__name__}: {error}") from error


def _own_shapes(probe: Probe, sizes: Sizes, reason: str) -> Shapes:
    """The shapes at the file's own sizes, none of which can be changed for this reason."""
    return _shapes(probe, map(str, probe.dimensions), dict.fromkeys(sizes, reason))


def _shapes(probe: Probe, words: Iterable[str], fixed: Mapping[str, str]) -> Shapes:
    """The shapes with a word for each dimension."""
    left = iter(words)
    inputs = []
    for place, tensor in enumerate(probe.inputs):
        dimensions = tuple(next(left) for _ in tensor.shape)
        is_float = tensor.is_floating_point()
        kept = "" if is_float else str(tensor.dtype).removeprefix("torch.")
        fill = getattr(tensor, "drawn_as", drawn_by_the_file)
        inputs.append(Input(f"input{place}", dimensions, kept, is_float, fill))
    return Shapes(tuple(inputs), tuple(left), fixed)


def drawn_by_the_file(*shape: int) -> Tensor:
    raise UsageError("the problem's own function draws these values")
