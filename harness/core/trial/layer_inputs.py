"""The inputs of a layer or a function, described as data: their names, shapes, dtypes, gradients and values.

A shape is written in letters: `b n h d/h` or `b n h D`. Each word is a formula, as in a claim.

n, d, h, b      length, width, heads, batch size
D               the width of a head, d/h
g               heads of keys and values
m               tokens that are attended to: those of a source, or n without one
t               all tokens of a batch of packed sequences: Σ nᵢ, or nb if their lengths are equal
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, chain
from typing import Any

import torch
from torch import Tensor

from harness.core.model.errors import UsageError, did_you_mean
from harness.core.model.polynomial import Polynomial, Term, constant, parse
from harness.core.model.sequence_lengths import real_lengths
from harness.core.model.sweep_axes import Case

Fill = str | Callable[..., Tensor]


# How values are drawn. Mamba draws its steps log-uniformly from 0.001 to 0.1, and makes them positive by softplus.
_FILLS: dict[str, Callable[..., Tensor]] = {
    "normal": torch.randn,
    "positive": lambda *shape: torch.nn.functional.softplus(torch.randn(*shape)),
    "log-uniform": lambda *shape: 10 ** (2 * torch.rand(*shape) - 3),
}
CUMULATIVE, LENGTHS = "cumulative lengths", "lengths"
_OF_LENGTHS = (CUMULATIVE, LENGTHS)
_KEYS = ("shape", "dtype", "grad", "fill")


@dataclass(frozen=True)
class Input:
    """One input of a layer.

    - `shape`: a formula for each dimension. `dtype`: empty for the dtype of the case.
    - `grad`: whether a gradient is computed for it in `train` and `backward`.
    - `fill`: how its values are drawn: `normal`, `positive`, `log-uniform` from 0.001 to 0.1, or a function that is
      called as `fill(*shape)`, such as `torch.rand`. `lengths` are the tokens of each sequence, `cumulative lengths`
      the first token of each, with their number at the end.
    """

    name: str
    shape: tuple[str, ...]
    dtype: str = ""
    grad: bool = True
    fill: Fill = "normal"

    @property
    def is_free(self) -> bool:
        """Whether other values of any sign may replace the drawn ones."""
        return self.fill == "normal" and self.grad

    @property
    def is_renewed(self) -> bool:
        """Whether others may replace the drawn values between two calls, of their sign if they are positive.

        They may not if they say how long sequences are, or if their own function draws them.
        """
        return isinstance(self.fill, str) and self.fill in _FILLS and self.grad

    def dimension(self, *letters: str) -> int | None:
        """The dimension that is one of `letters`, such as the one of the tokens; None without one."""
        return next((place for place, word in enumerate(self.shape) if word in letters), None)


def read_inputs(described: Any, own: Iterable[str] = ()) -> tuple[Input, ...]:
    """Read the attribute `inputs` of a function: `{"q": "b h n D", "lengths": {"shape": "b+1", …}}`.

    `own` are the letters of the layer's own axes. Raises UsageError with what is wrong.
    """
    if not isinstance(described, Mapping) or not described:
        raise UsageError(f"inputs is {described!r}: it must be {{'q': 'b h n D', …}}, one shape for each parameter")
    return tuple(_read_input(str(name), entry, own) for name, entry in described.items())


def _read_input(name: str, described: Any, own: Iterable[str]) -> Input:
    entry = {"shape": described} if isinstance(described, str) else described
    if not isinstance(entry, Mapping) or not isinstance(entry.get("shape"), str):
        raise UsageError(f"inputs['{name}'] is {described!r}: give its shape, as 'b h n D', or {{'shape': …}}")
    for key in entry:
        if key not in _KEYS:
            raise UsageError(f"inputs['{name}'] has the unknown key {key!r}{did_you_mean(str(key), _KEYS)}")
    fill, dtype = entry.get("fill", "normal"), str(entry.get("dtype", "")).removeprefix("torch.")
    fills = (*_FILLS, *_OF_LENGTHS)
    if not callable(fill) and fill not in fills:
        raise UsageError(
            f"inputs['{name}'] has the unknown fill {fill!r}: give a function, or one of {', '.join(fills)}"
        )
    if not isinstance(grad := entry.get("grad", True), bool):
        raise UsageError(f"inputs['{name}'] has 'grad': {grad!r}: give True or False")
    if fill in _OF_LENGTHS:
        dtype = dtype or "int32"
    if dtype and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise UsageError(f"inputs['{name}'] has the unknown dtype {dtype!r}")
    has_gradient = not dtype or getattr(torch, dtype).is_floating_point
    if not has_gradient and fill == "normal" and not getattr(torch, dtype).is_complex:
        raise UsageError(
            f"inputs['{name}'] is {dtype} and needs a 'fill', such as lambda *shape: torch.randint(0, 9, shape): "
            "normal values are no whole numbers"
        )
    return Input(name, read_shape(name, entry["shape"], own), dtype, has_gradient and grad, fill)


def read_shape(name: str, text: str, own: Iterable[str]) -> tuple[str, ...]:
    """The formulas of a shape. Raises UsageError if one of them cannot be read."""
    words = tuple(text.split())
    letters = _letters() | {letter: constant(1) for letter in own}
    for word in words:
        _formula(name, word, letters)
    return words


def letters_of(inputs: Iterable[Input]) -> set[str]:
    """All letters in the shapes."""
    return set(filter(str.isalpha, "".join(chain(*(tensor.shape for tensor in inputs)))))


def _letters(case: Case | None = None, source_len: int = 0) -> dict[str, Polynomial]:
    """What the letters of a shape stand for beyond n, d and h, at a case."""
    n, h = parse("n"), parse("h")
    return {
        "b": Polynomial({Term(b=1): 1}),
        "D": parse("d/h"),
        "g": constant(case.num_kv_heads) if case is not None and case.num_kv_heads else h,
        "m": constant(source_len) if source_len else n,
        "t": constant(sum(real_lengths(case)) if case is not None else 1),
    }


def _formula(name: str, word: str, letters: Mapping[str, Polynomial]) -> Polynomial:
    try:
        return parse(word, letters)
    except UsageError:
        allowed = ", ".join(("n", "d", "h", *letters))
        raise UsageError(f"the shape of '{name}' has {word!r}: give words in {allowed}, as 'b h n D'") from None


def size_at(
    name: str, shape: Sequence[str], case: Case, source_len: int, own: Mapping[str, int | Fraction]
) -> tuple[int, ...]:
    """The shape at a case, with the values of the layer's own letters.

    Raises UsageError if a dimension is no whole number there.
    """
    letters = _letters(case, source_len) | {letter: constant(value) for letter, value in own.items()}
    sizes = []
    for word in shape:
        value = _formula(name, word, letters).value(case.seq_len, case.d_model, case.num_heads, case.batch_size)
        if value.denominator > 1 or value < 0:
            raise UsageError(f"the shape of '{name}' has {word} = {value}: a dimension is a whole number")
        sizes.append(int(value))
    return tuple(sizes)


# Dettmers et al. 2022, "LLM.int8()", section 4: in large language models, a few channels are up to 20 times as large.
_OUTLIER_EVERY, _OUTLIER_FACTOR = 64, 20.0


def draw(one: Input, case: Case, source_len: int, own: Mapping[str, int | Fraction]) -> Tensor:
    """Draw the values of an input on the CPU, and move it to the device and dtype of the case.

    With `inputs=outliers`, some channels of normal values are larger.
    """
    shape = size_at(one.name, one.shape, case, source_len, own)
    if one.fill in _OF_LENGTHS:
        values = _of_lengths(one, shape, real_lengths(case))
    elif callable(one.fill):
        values = _filled(one.name, one.fill, shape)
    else:
        values = _FILLS[one.fill](*shape)
    if case.inputs == "outliers" and one.fill == "normal":
        values[..., ::_OUTLIER_EVERY] *= _OUTLIER_FACTOR
    return values.to(case.device, getattr(torch, one.dtype or case.dtype))


def _filled(name: str, fill: Callable[..., Any], shape: tuple[int, ...]) -> Tensor:
    """The values of a user's function. Raises UsageError if it fails or returns something else."""
    called = f"the fill of '{name}', called as fill({', '.join(map(str, shape))}),"
    try:
        values = fill(*shape)
    except Exception as error:
        raise UsageError(f"{called} failed: {type(error).__name__}: {error}") from error
    if not isinstance(values, Tensor) or values.shape != shape:
        returned = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise UsageError(f"{called} returned {returned}: it must return a tensor of this shape")
    return values


def _of_lengths(one: Input, shape: tuple[int, ...], lengths: list[int]) -> Tensor:
    values, usual = (lengths, "b") if one.fill == LENGTHS else ([0, *accumulate(lengths)], "b+1")
    if shape == (len(values),):
        return torch.tensor(values)
    if one.fill == CUMULATIVE and len(shape) == 1 and len(set(lengths)) == 1:
        return torch.arange(shape[0]) * lengths[0]
    raise UsageError(f"the shape of '{one.name}' is '{' '.join(one.shape)}': {one.fill} have the shape '{usual}'")
