"""How results of a layer are checked: their type, shape and dtype, and their errors beside what rounding explains."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from impls.attention.reference import softmax_attention

from . import layer_protocol
from .device import EagerMode, fill_tensors, in_precision, to_float64, uncompiled_calls


class WrongResult(Exception):
    """Raised if the layer ran and its result is incorrect."""


# Kernels of GPUs compute exp and tanh in fewer bits than float32 has. In units of its last place, cuDNN's RNN is off by
# 43 on an H200 (d = 256). TF32 and half precision are off by thousands.
_FAST_FUNCTIONS = 64


def tolerance(dtype: torch.dtype, d_model: int, device: str = "cpu") -> float:
    """The largest relative RMS error that rounding explains, the sum of three terms.

    The layer keeps intermediates in its dtype, and their roundings get 8 units in the last place. Sums over d terms get
    √d units of the accumulator, which is at least float32. Functions of other devices than a CPU get some more units.
    """
    eps = torch.finfo(dtype).eps
    accumulator_eps = min(eps, torch.finfo(torch.float32).eps)
    of_functions = 0 if device == "cpu" else _FAST_FUNCTIONS
    return 8 * eps + (d_model**0.5 + of_functions) * accumulator_eps


# Comparing a layer with itself can only show that it loses digits, not that its formula is wrong. A correct layer may
# lose more digits than another: a scan in log space loses one or two more than sums of products do. So does any layer
# whose input has outliers: the exponentials of softmax multiply the rounding of large scores by their size.
_LENIENT = 32
# Rounding never explains an error above this share of the norm. In bfloat16, 32 times the rounding is twice the norm:
# an output of zeros would pass.
MOST = 0.1
HALF = ("bfloat16", "float16")
HALVES = {torch.bfloat16, torch.float16}


def limits(case: Case, layer: Any, has_reference: bool) -> tuple[float, float]:
    """The largest relative errors of outputs and of gradients that are tolerated, for a layer or its class.

    They are those that rounding explains. An output may also be off by the layer's `allowed_error`. The gradients of
    such an approximation are its own, and are compared with the layer itself. Products of few bits allow more, by
    `limit_of_products`.

    A layer may have kinks, like that of ReLU (`kinks = True`). Rounding then moves a share ε of its units to the other
    side of their kinks. The gradients of these units are wrong, which is an error of √ε of the norm.
    """
    allowed = layer_protocol.allowed_error(layer)
    has_reference = has_reference and not allowed
    dtypes = (case.dtype, layer_protocol.output_dtype(layer, case.dtype))
    rounding = max(tolerance(getattr(torch, name), case.d_model, case.device) for name in dtypes)
    is_lenient = not has_reference or case.inputs == "outliers"
    limit = max(rounding, min(_LENIENT * rounding, MOST)) if is_lenient else rounding
    kinks = not has_reference or getattr(layer, "kinks", False)
    return max(limit, allowed), max(limit, rounding**0.5) if kinks else limit


def limit_of_products(layer: Any, dtypes: set[torch.dtype], d_model: int) -> float:
    """The largest relative error of gradients that products in half precision explain, 0 without any."""
    rounding = max((tolerance(dtype, d_model) for dtype in dtypes & HALVES), default=0.0)
    return rounding**0.5 if getattr(layer, "kinks", False) else rounding


def largest_norm(tensors: Iterable[Tensor]) -> float:
    """The largest of the tensors' norms, 0 without any."""
    return max((tensor.norm().item() for tensor in tensors), default=0.0)


def scale_of(norm: float, largest: float, rounding: float) -> float:
    """The norm that an error is relative to: its own tensor's, or the `largest` of several if its own is zero.

    A gradient may be zero in exact arithmetic, as that of a key's bias before softmax. Sums of larger terms then leave
    a norm of at most `rounding` times the largest.
    """
    return (norm if norm > rounding * largest else largest) or 1.0


_DRAWS = ("rand", "normal", "uniform", "exponential", "log_normal", "cauchy", "geometric", "bernoulli", "multinomial")


class InFloat64(EagerMode):
    """Runs a reference. Each operation computes in float64 if any argument is in it, and draws in the layer's dtype.

    Torch itself promotes the arguments of some operations only. Others raise, and attention on a CPU reads a float32
    mask of float64 queries as if it were float64. A seed gives other random numbers in float64 than in another dtype.
    A conversion to one of the dtypes `widened` is one to float64.
    """

    draws_as_asked = False

    def __init__(self, dtype: torch.dtype, widened: set[torch.dtype]) -> None:
        super().__init__()
        self._dtypes = {torch.float64: dtype}
        self._wide = widened

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, keywords = function.name().partition(".")[0].removeprefix("aten::"), kwargs or {}
        if name.startswith(_DRAWS) and not self.draws_as_asked:
            as_layer, named = tree_map(self._narrow, (args, keywords))
            drawn = function(*as_layer, **named)
            return args[0].copy_(drawn) if name.endswith("_") else _widened(drawn)
        if keywords.get("dtype") in self._wide:
            keywords["dtype"] = torch.float64
        dtypes = {value.dtype for value in (*args, *keywords.values()) if isinstance(value, Tensor) and value.dim()}
        if len(dtypes) > 1 and torch.float64 in dtypes and not function._schema.is_mutable:
            with suppress(RuntimeError):  # a fake quantization needs its scale in float32
                wide, named = tree_map(_widened, (args, keywords))
                return function(*wide, **named)
        return function(*args, **keywords)

    def _narrow(self, value: Any) -> Any:
        return value.to(self._narrow(value.dtype)) if isinstance(value, Tensor) else self._dtypes.get(value, value)


def _widened(value: Any) -> Any:
    return value.to(in_precision(value, torch.float64)) if isinstance(value, Tensor) else value


def with_either_draws(check: Callable[..., Any], *given: Any) -> Any:
    """Return `check(*given)`. If it fails, make it again with draws in the dtype that the reference asks for.

    A layer that asks for draws in float64 itself gets them so in any precision. Raises WrongResult if both fail.
    """
    try:
        return check(*given)
    except WrongResult:
        with suppress(WrongResult), patch.object(InFloat64, "draws_as_asked", True):
            return check(*given)
        raise


@contextmanager
def in_float64(case: Case, draws: bool = False) -> Iterator[None]:
    """Run a reference, uncompiled, in `InFloat64` unless the layer is the harness's own and draws no numbers."""
    # A layer shall compute in the precision that it is asked for, or in a higher one, unless it is an approximation.
    widened = {torch.float32, *HALVES}
    if layer_protocol.allowed_error(layer_lookup.load_class(case.impl)):
        widened.clear()
    mode = (
        InFloat64(getattr(torch, case.dtype), widened) if draws or layer_lookup.is_foreign(case.impl) else nullcontext()
    )
    with uncompiled_calls(), mode:
        yield


# A smaller error may be of a correct formula, in another order or with fewer bits.
_ROUNDING = 0.03
OTHER_LAYOUT = {"bhnd": "bnhd", "bnhd": "bhnd"}


def check_error(what: str, got: Tensor, want: Tensor, limit: float, largest: float = 0.0, hint: str = "") -> float:
    """The relative error ‖got − want‖ / ‖want‖. Raises WrongResult if it exceeds `limit` or is not finite.

    `largest` is the largest norm of the gradients that `want` is one of: see `scale_of`. `hint` ends the reason if the
    error may be of rounding.
    """
    scale = scale_of(want.norm().item(), largest, limit)
    error = (to_float64(got).to(want.device) - want.detach()).norm().item() / scale
    if not error < float("inf"):
        raise WrongResult(f"{what} is not finite")
    if error > limit:
        unit = torch.finfo(torch.float32).eps
        if limit < unit / 64 < error < 64 * unit:
            hint = ", as in float32: it computes in float32 though float64 was asked for"
        text = f"{what} is off by {error:.1e} of its norm, where at most {limit:.1e} is tolerated"
        raise WrongResult(text + hint if error < _ROUNDING else text)
    return error


def leaves_of(layer: nn.Module, described: Sequence[Any], inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """The inputs with gradients and the weights, by name."""
    return {one.name: x for one, x in zip(described, inputs, strict=True) if one.grad} | dict(layer.named_parameters())


def gradient_pairs(
    leaves: dict[str, Tensor], wanted: dict[str, Tensor], when: str = ""
) -> list[tuple[str, Tensor, Tensor]]:
    """(name, gradient, expected gradient) of the leaves of a layer and of its reference. `when` ends the names.

    A leaf to which the reference passes no gradient has zeros. Raises WrongResult if an expected gradient is missing.
    """
    pairs = []
    for name, leaf in leaves.items():
        gradient, expected = leaf.grad, wanted[name].grad
        if gradient is not None:
            pairs.append((name + when, gradient, torch.zeros_like(gradient) if expected is None else expected))
        elif expected is not None:
            raise WrongResult(f"no gradient reaches {name}{when}")
    return pairs


def move_neutral_weights(layer: nn.Module, reference: nn.Module) -> None:
    """Change the weights of both that are all alike, as 0 or 1, so that a layer which forgets one is found."""
    twins = dict(reference.named_parameters())
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            twin = twins.get(name)
            if twin is None or not twin.numel() or not (twin == twin.flatten()[0]).all():
                continue
            moved = twin.flatten() + torch.linspace(0.05, 0.15, twin.numel(), device=twin.device)
            weight.copy_(moved.view_as(twin))
            twin.copy_(weight)


def without_padding(y: Tensor, real: Tensor | None) -> Tensor:
    """The output with zeros where `real` is False, which is at padding; the output itself if all is real."""
    # No product, because outputs at padding may be NaN.
    return y if real is None else torch.where(real.to(y.device), y, 0)


def check_reference(name: str, want: Tensor, got: Tensor, real: Tensor | None = None) -> None:
    """Raise ValueError unless the reference's result has the shape of the layer's, and is finite where `real` is."""
    if want.shape != got.shape:
        raise ValueError(f"its reference {name} returned shape {tuple(want.shape)} instead of {tuple(got.shape)}")
    if (~without_padding(want, real).isfinite()).any():
        raise ValueError(f"its reference {name} is not finite")


def is_of_other_layout(case: Case, inputs: Sequence[Tensor], y: Tensor, limit: float) -> bool:
    """Whether the output is softmax attention of q, k and v whose dimensions of tokens and of heads are exchanged."""
    if case.mask == "padding" or len({one.shape for one in inputs}) > 1:
        return False
    q, k, v = (one.detach().transpose(1, 2) for one in inputs)
    want = softmax_attention(q, k, v, is_causal=case.mask == "causal").transpose(1, 2)
    return bool((y.detach().to(want) - want).norm() <= limit * want.norm())


def check_output(y: object, x: Tensor, wanted: tuple[int, ...], dtype: str, layer: nn.Module | None = None) -> Tensor:
    """Return the output `y` of a call of the layer on `x`, if it has the shape `wanted` and `dtype`.

    Raises WrongResult for any other output.
    """
    if not isinstance(y, Tensor):
        alone = ": return the output alone" if isinstance(y, tuple) else ""
        raise WrongResult(f"it returned a {type(y).__name__}, not a tensor{alone}")
    if y.shape != wanted:
        but = f", where {wanted} is wanted" if x.shape != wanted else ""
        other = OTHER_LAYOUT.get(getattr(layer, "layout", ""))
        if other and y.dim() == 4 and y.transpose(1, 2).shape == wanted:
            but = f'. Return y.transpose(1, 2), or set {type(layer).__name__}.layout = "{other}" if q, k, v are so too'
        elif y.numel() == x.numel() and (hint := getattr(layer, "layout_hint", "")):
            but = f", read as (b, h, n, head_dim), and {wanted} is wanted. {hint}"
        raise WrongResult(f"it returned shape {tuple(y.shape)} for an input of shape {tuple(x.shape)}{but}")
    return check_dtype(y, x, dtype)


def check_dtype(y: Tensor, x: Tensor, dtype: str) -> Tensor:
    """Return the output `y` for the input `x`. Raises WrongResult unless it is a plain tensor of `dtype`."""
    check_plain(y)
    if y.dtype != getattr(torch, dtype):
        got, given = (str(tensor.dtype).removeprefix("torch.") for tensor in (y, x))
        raise WrongResult(
            f"it returned {got} for an input of {given}, where {dtype} is expected "
            "(a layer that returns another dtype declares `output_dtype`)"
        )
    return y


def check_plain(y: Tensor) -> None:
    """Raise WrongResult for a sparse tensor, or a subclass of Tensor, which may compute its values when it is read."""
    if type(y) not in (Tensor, nn.Parameter) or y.layout != torch.strided:
        what = "a sparse tensor" if type(y) is Tensor else f"a {type(y).__name__}, a subclass of Tensor"
        raise WrongResult(f"it returned {what}, which may compute its values later: return a plain, dense tensor")


def check_finite(y: Tensor, real: Tensor | None, length: int) -> None:
    """Raise WrongResult if the output is not finite. `real` is False for padding, which is not checked."""
    if not without_padding(y.detach(), real).isfinite().all():
        raise WrongResult(f"its output is not finite at n = {length}")


# A gradient that fades until it underflows comes within this factor of its dtype's smallest normal number.
_FADED = 1e8


@torch.enable_grad()  # `build` has turned it off for a forward pass
def missing_path(work: Any, case: Case) -> str:
    """Return that no gradient leads from the last token to the first, in words; empty if one does.

    The last output then has a gradient by the first input. A gradient may fade until it underflows, as that of a
    recurrent layer does, and counts as a path. `work` is a `Workload` of `train`. Raises what the layer raises there.
    """
    work.layer.eval()  # without dropout
    y = work.forward()
    last = y.narrow(layer_protocol.output_dims(work.layer, case).index("n"), case.seq_len - 1, 1)
    norms = torch.zeros(case.seq_len, dtype=torch.float64)
    for x, one in zip(work.inputs, work.described, strict=True):
        at = one.dimension("n", "m")
        if x.requires_grad and at is not None:
            (rows,) = torch.autograd.grad(last, x, torch.randn_like(last), retain_graph=True, materialize_grads=True)
            norms += rows.movedim(at, 0).flatten(1).abs().amax(1).double().cpu()
    faded = norms[norms > 0] < _FADED * torch.finfo(last.dtype).tiny
    if norms[0] > 0 or faded.any():
        return ""
    return f"at n = {case.seq_len} the last output has no gradient by the first token"


def renew_inputs(work: Any, factor: float = 1.0) -> None:
    """Change the inputs, and what else varies: moved by an element, negated if not positive, times `factor`."""
    described = zip(work.inputs, work.described, strict=True)
    tensors = [*{*work.varying, *(tensor for tensor, one in described if one.is_renewed)}]
    signs = [-factor if (tensor < 0).any() else factor for tensor in tensors]
    fill_tensors(tensors, [sign * tensor.roll(1) for sign, tensor in zip(signs, tensors, strict=True)])
