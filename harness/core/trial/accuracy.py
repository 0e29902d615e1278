"""Measure the errors of a layer at the size that is timed, beside those of the plain layer in the same dtype.

The plain layer is the layer's reference in the dtype of the case. Both are compared with the reference in float64, in
the cheapest way that the reference allows:

1. The outputs of 64 query rows, if its `forward` takes `rows`: the references of attention do, and a function's own
   reference may. So does softmax attention, which stands for the reference of a function f(q, k, v).
2. All outputs, if the reference needs few enough operations and FLOPs: about half a second on two cores.
3. The outputs of as many first tokens, if no token sees a later one. If the layer can decode, its last 16 outputs are
   compared as well: with single steps in float64, from the state after the tokens before them.

A random row stands for each 64th of the sequence, and the last row is always among them. Gradients are those of a loss
over the same outputs, so they cost no more. Counts decide: the errors repeat exactly on one machine. A clock only ends
a reference of which the counts promised too much.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import flop_registry

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from impls.attention.reference import softmax_attention

from . import layer_protocol, packed_sequences, result_checks, verify, workload
from .device import EagerMode, cast_layer, has_drawn, seed_draws, to_float64
from .function_layer import FunctionLayer, is_softmax
from .layer_inputs import Input
from .result_checks import WrongResult, check_finite, check_reference, gradient_pairs, in_float64, leaves_of
from .sandbox import Answer, is_out_of_memory, one_line, time_limit
from .workload import Workload

_ROWS = 64
_LAST = 16  # tokens of a long sequence that a recurrent layer computes step by step in float64
# The most operations and FLOPs of a reference. It is not counted for so few tokens, which verification computes too.
_MOST_OPS, _MOST_FLOPS, _FEW = 200_000, 2e10, 256
# Lengths at which they are counted. An element that an operation writes counts as so many FLOPs.
_COUNTED, _FLOPS_AN_ELEMENT = (16, 32), 16
# A reference that takes longer is given up, whatever its counts promised.
_MOST_S, _TOO_SLOW = 10.0, "the float64 reference is too slow at this size"
# An error at the timed size is incorrect beyond 32 times the plain layer's, beyond what a small case tolerates, and
# beyond a limit: beside a plain layer, or without one, as against itself. Both are higher in half precision. A scan in
# log space loses two digits more than the plain recurrence. Wrong numbers in one row of 64 are an error of an eighth.
_TIMES_PLAIN, _WRONG, _WRONG_IN_HALF = 32, (1e-4, 1e-2), (1e-3, result_checks.MOST)
_ERRORS = ("output_error", "output_error_max", "gradient_error", "gradient_error_max")
NAMES = (*_ERRORS, "error_ratio", "accuracy_by", "allowed_error")


class NotCompared(Exception):
    """Raised with the reason why a case has no errors: a clause for the user."""


class _WorkCounter(EagerMode):
    """Counts the operations that torch dispatches, and their FLOPs."""

    operations = flops = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        out = function(*args, **keywords)
        products = flop_registry.get(function._overloadpacket)
        self.operations += 1
        self.flops += products(*args, **keywords, out_val=out) if products else 0
        self.flops += _FLOPS_AN_ELEMENT * out.numel() if isinstance(out, Tensor) and not function.is_view else 0
        return out


@dataclass(frozen=True)
class _Part:
    """The outputs that are compared: those in `rows`, those of the first tokens, or all. `name` says which.

    Tokens are along the dimension `dim`.
    """

    name: str
    rows: Tensor | None = None
    first: int | None = None
    dim: int = 1

    def of(self, y: Tensor) -> Tensor:
        """These outputs among all, or the same tokens of an input."""
        if self.rows is not None:
            return y.index_select(self.dim, self.rows)
        return y if self.first is None else y.narrow(self.dim, 0, self.first)

    def alone(self, gradient: Tensor) -> Tensor:
        """The gradient of all outputs for a loss over these alone."""
        kept = torch.zeros_like(gradient)
        if self.rows is not None:
            kept.index_copy_(self.dim, self.rows, self.of(gradient))
        else:
            self.of(kept).copy_(self.of(gradient))
        return kept


@dataclass(frozen=True)
class _Side:
    """The outputs of one module, and the leaves that have its gradients, by name."""

    y: Tensor
    leaves: dict[str, Tensor] = field(default_factory=dict)


def measure_accuracy(
    work: Workload, case: Case, seed: int, y: Tensor | None, flops: int | None, unknown: list[str]
) -> Answer:
    """The errors of one call of the case, by the names of their columns. None where unknown; `unknown` then says why.

    `y` is the output of an earlier call on the same input, to save another one, and `flops` are those of the call. Both
    may be unknown. `accuracy_s` is no column: the seconds that the comparison took. Raises WrongResult if the outputs
    or gradients are so far off that rounding cannot explain it.
    """
    began = time.perf_counter()
    errors = dict.fromkeys(NAMES)
    try:
        errors |= result_checks.with_either_draws(_measured, work, case, seed, y, flops, unknown)
    except Exception as error:  # the layer has run before, so only its reference fails
        unknown.append(f"output_error: {_reason(error, 'the reference fails')}")
    finally:
        work.forget()
    return {**errors, "accuracy_s": time.perf_counter() - began}


def _reason(error: Exception, what: str) -> str:
    """Why there is no comparison. Raises `error` again if it is the result of one."""
    if isinstance(error, WrongResult):
        raise error
    if isinstance(error, NotCompared):
        return str(error)
    return "out of memory" if is_out_of_memory(error) else f"{what}: {type(error).__name__}: {one_line(error)}"


def _measured(work: Workload, case: Case, seed: int, y: Tensor | None, flops: int | None, unknown: list[str]) -> Answer:
    reference, against = verify.reference_of(case, work.layer, seed)
    has_reference = against != layer_lookup.ITSELF
    case = layer_protocol.as_masked(case, work.layer)
    given = [tensor.detach().clone() for tensor in work.inputs]  # a layer may change its input
    inputs = [to_float64(tensor) for tensor in given]
    # A loop over time has small operations, on which several threads would only wait for each other.
    loops_over_time = has_reference and not _computes_rows(reference)
    threads = 1 if loops_over_time else torch.get_num_threads()
    with _limited(threads, _TOO_SLOW):
        part = _part(case, work, reference, inputs, flops, is_the_layer=not has_reference)
    seed_draws(seed)
    own = _own(work, case, seed, part) if y is None else _Side(part.of(y))
    draws = has_drawn(seed, case.device)
    if part.first is not None and draws:
        raise NotCompared(f"{_TOO_SLOW}, and the layer draws other random numbers for its first tokens alone")
    # `in_float64` would take longer than the small operations of a loop. This kernel takes a mask of any dtype.
    in_one_dtype = sdpa_kernel(SDPBackend.MATH) if loops_over_time and not draws else in_float64(case, draws)
    with _limited(threads, _TOO_SLOW), in_one_dtype:
        wanted = _side(reference, case, seed, inputs, part, work.gradient)
    real = workload.counted_tokens(work.layer, case) if case.mode != "decode" else None
    real = None if real is None else part.of(real)
    check_finite(own.y, real, case.seq_len)
    if has_reference:
        check_reference(against, wanted.y, own.y, real)
    errors = _errors(own, wanted, real)
    beside, of_plain, compared = list(errors), None, part.name
    if part.first is not None:
        try:
            if at_end := _errors_at_the_end(work, case, inputs[0], y):
                errors[:2] = (max(pair) for pair in zip(errors, at_end, strict=False))
                compared = f"{part.name} and the last {_LAST}"
        except Exception as error:  # the first tokens count all the same
            unknown.append(f"output_error of the last {_LAST} tokens: {_reason(error, 'prefill or step fails')}")
    if has_reference and case.dtype != "float64":
        by_first = part.rows is None and _sees_no_later(work, case) and own.y.shape[part.dim] > _FEW
        if loops_over_time and work.gradient is None and by_first:
            # A loop takes much longer than the layer, so a part of it must do for the comparison.
            part_of_plain = _Part("", first=min(_FEW, part.first or _FEW), dim=part.dim)
            own, wanted = (_Side(part_of_plain.of(side.y)) for side in (own, wanted))
            beside = _errors(own, wanted)
        else:
            part_of_plain = part
        plain: _Side | None = None
        # A kernel may be missing in half precision, and the reference may take no other dtype than float64.
        with _limited(threads, _TOO_SLOW), suppress(Exception):
            in_its_dtype = cast_layer(deepcopy(reference), getattr(torch, case.dtype))
            plain = _side(in_its_dtype, case, seed, given, part_of_plain, work.gradient)
        of_plain = _errors(plain, wanted, real) if plain else None
    # The gradients of an approximation are not those of its reference.
    allowed = layer_protocol.allowed_error(work.layer)
    judged = errors[:2] if allowed else errors
    _judge(judged, of_plain, result_checks.limits(case, work.layer, has_reference), case, compared)
    pairs = zip(beside[::2], (of_plain or ())[::2], strict=False)
    ratios = [own_part / plain_part for own_part, plain_part in pairs if plain_part]
    return {
        **dict(zip(_ERRORS, errors, strict=False)),
        "error_ratio": max(ratios, default=None),
        "accuracy_by": f"{compared}, {against}",
        "allowed_error": allowed or None,
    }


def _part(
    case: Case, work: Workload, reference: nn.Module, inputs: list[Tensor], flops: int | None, is_the_layer: bool
) -> _Part:
    """Which outputs to compare. Raises NotCompared if all of them are too many, and there is no cheaper way.

    The reference may be the layer itself. It is never too slow to count: the clock alone limits it.
    """
    n, by_rows, dim = case.seq_len, _computes_rows(reference), 1
    is_stepped, is_function = layer_protocol.decodes_in_steps(work.layer, case), layer_protocol.is_function(work.layer)
    if is_function and by_rows and (tokens := work.described[0].dimension("n", "t")) is not None:
        n, dim = work.x.shape[tokens], tokens
    elif is_function:  # of which a single step has no tokens
        by_rows, dim = False, Input("", layer_protocol.output_dims(work.layer, case)).dimension("n") or 0
    if not by_rows and not is_the_layer and n > _FEW:
        first = _affordable_tokens(case, reference, inputs, None if is_stepped else flops)
        if first < n:
            if not _sees_no_later(work, case):
                raise NotCompared(_TOO_SLOW)
            return _Part(f"first {first} tokens", first=first, dim=dim)
    if is_stepped:
        return _Part("last token", rows=torch.tensor([n - 1], device=case.device))
    if not by_rows or n <= _ROWS:
        return _Part("all tokens", dim=dim)
    ends = torch.arange(_ROWS + 1) * n // _ROWS
    draws = torch.rand(_ROWS, generator=torch.Generator().manual_seed(n))
    rows = ends[:-1] + (draws * (ends[1:] - ends[:-1])).long()
    rows[-1] = n - 1
    return _Part(f"{_ROWS} rows", rows=rows.to(case.device), dim=dim)


def _computes_rows(reference: nn.Module) -> bool:
    """Whether the reference can compute the outputs of a few rows alone."""
    return is_softmax(type(reference)) or layer_protocol.accepts(type(reference), "rows")


def _sees_no_later(work: Workload, case: Case) -> bool:
    """Whether the first tokens can be computed without the others."""
    is_causal = layer_protocol.is_causal(work.layer) or case.mask == "causal"
    words = {word for one in work.described for word in one.shape if set(word) & set("nmt")}
    is_cut = words <= {"n", "m"} and "n" in layer_protocol.output_dims(work.layer, case)
    is_whole = case.mode == "decode" or case.is_padded or case.kv_len or work.source is not None
    return is_causal and is_cut and not is_whole and all(tensor.is_floating_point() for tensor in work.inputs)


def _first_tokens(module: nn.Module, case: Case, inputs: Sequence[Tensor], length: int) -> list[Tensor]:
    """The inputs for the first tokens alone. A source is left whole."""
    letters = ("n", "m") if layer_protocol.is_function(module) and not case.kv_len else ("n",)
    shapes = [one.shape for one in layer_protocol.inputs_of(module, case)]
    cuts = [tuple(slice(length if word in letters else None) for word in shape) for shape in shapes]
    return [tensor[cut] for tensor, cut in zip(inputs, cuts, strict=True)]


def _affordable_tokens(case: Case, reference: nn.Module, inputs: list[Tensor], flops: int | None) -> int:
    """How many tokens the reference computes: a power of two from `_FEW`, or n. It has the layer's FLOPs or more."""
    n, passes = case.seq_len, 3 if case.trains else 1
    mode = case.mode if case.mode == "decode" and layer_protocol.is_function(reference) else "forward"
    counts = []
    for length in _COUNTED:
        small = replace(case, seq_len=length, mode=mode, mask="none" if case.mask == "none" else "causal")
        try:
            with in_float64(case), _WorkCounter() as counter, torch.no_grad():
                verify.expected_output(reference, small, _first_tokens(reference, case, inputs, length))
        except NotCompared:
            raise
        except Exception:  # it may refuse so few tokens: the FLOPs of the layer and the clock then limit it
            counts = [(0, 0)] * len(_COUNTED)
            break
        counts.append((passes * counter.operations, passes * counter.flops))
    ops, work = (_grown(*pair) for pair in zip(*counts, strict=True))
    sizes = [n, *(2**power for power in range(n.bit_length() - 1, -1, -1) if 2**power > _FEW)]
    return next((m for m in sizes if ops(m) <= _MOST_OPS and max(work(m), (flops or 0) * m / n) <= _MOST_FLOPS), _FEW)


def _grown(first: int, second: int) -> Callable[[int], float]:
    """The count at other lengths than `_COUNTED`, of a reference that is linear or quadratic in the length."""
    small, large = _COUNTED
    square = max(0.0, (second / large - first / small) / (large - small))
    linear = max(0.0, (second - first) / (large - small) - square * (small + large))
    return lambda length: linear * length + square * length**2


def _errors_at_the_end(work: Workload, case: Case, x: Tensor, y: Tensor | None) -> list[float] | None:
    """RMS and largest error of the last outputs. None if the layer has no state that can be computed at once.

    `x` (b, n, d) is the input in float64, and `y` (b, n, d) the output, if it is known. The state before the last
    tokens is that of the layer in float64, and each of them is a step of its recurrent form.
    """
    if not all(hasattr(work.layer, name) for name in ("start", "step", "prefill")):
        return None
    twin = cast_layer(deepcopy(work.layer), torch.float64)
    too_slow = f"the last {_LAST} tokens are too slow in float64"
    with _limited(torch.get_num_threads(), too_slow), torch.no_grad(), in_float64(case):
        state = twin.prefill(x[:, :-_LAST].clone(), workload.start_decoding(twin, case, None))  # type: ignore[operator]
        wanted, _ = verify.decode(twin, x[:, -_LAST:], state)
        got = work.forward() if y is None else y
    check_finite(wanted, None, case.seq_len)
    return _errors(_Side(got[:, -_LAST:]), _Side(wanted))


def _own(work: Workload, case: Case, seed: int, part: _Part) -> _Side:
    """The layer's outputs and gradients. In `decode`, these are of the timed call."""
    seed_draws(seed)
    if layer_protocol.decodes_in_steps(work.layer, case):
        return _Side(work.call()[:, None].detach().clone())
    work.forget()
    y, leaves = work.forward(), {}
    if work.gradient is not None:
        y.backward(part.alone(work.gradient))
        leaves = leaves_of(work.layer, work.described, work.inputs)
    return _Side(part.of(y).detach().clone(), leaves)


def _side(
    module: nn.Module, case: Case, seed: int, inputs: Sequence[Tensor], part: _Part, gradient: Tensor | None
) -> _Side:
    """The same outputs and gradients of the reference, or of the plain layer, for inputs in its dtype."""
    described = layer_protocol.inputs_of(module, case)
    leaves = [
        tensor.detach().clone().requires_grad_(gradient is not None and one.grad)
        for tensor, one in zip(inputs, described, strict=True)
    ]
    seed_draws(seed)  # the same random numbers as the layer, as for dropout
    with torch.set_grad_enabled(gradient is not None):
        y = _outputs(module, case, leaves, part)
    if gradient is None:
        return _Side(y)
    module.zero_grad()
    y.backward(part.of(gradient).to(y.dtype))
    return _Side(y.detach(), leaves_of(module, described, leaves))


def _outputs(module: nn.Module, case: Case, inputs: list[Tensor], part: _Part) -> Tensor:
    is_function = layer_protocol.is_function(module)
    if is_function and part.rows is None and part.first is None:
        return verify.expected_output(module, case, inputs)
    if case.mode == "decode":  # no token sees a later one, and all see the whole source
        case = replace(case, mode="forward", mask="causal")
    if part.first is not None:
        first = _first_tokens(module, case, inputs, part.first)
        return verify.expected_output(module, replace(case, seq_len=part.first), first)
    if part.rows is None or not _computes_rows(module):
        return part.of(verify.expected_output(module, case, inputs))
    if isinstance(module, FunctionLayer) and not is_softmax(type(module)):
        keywords = {**module.options, **workload.forward_keywords(module, case, None)}
        if not packed_sequences.is_packed(module) and (mask := keywords.get("attn_mask")) is not None:
            keywords["attn_mask"] = mask if mask.shape[-2] == 1 else mask.index_select(-2, part.rows)
        return module(*inputs, **keywords, rows=part.rows)
    if packed_sequences.is_packed(module):
        q, (k, v, starts) = part.of(inputs[0]), inputs[1:4]
        return packed_sequences.of_rows(softmax_attention, part.rows, q, k, v, starts, case.mask == "causal")
    source = inputs[1] if len(inputs) > 1 and not is_function else None
    is_own = layer_protocol.sees_a_chunk(module, case) or not layer_protocol.kv_len(module, case)
    if case.mask == "causal" and is_own and not layer_protocol.is_causal(module):
        place = torch.arange(case.kv_len or case.seq_len, device=case.device)
        last_seen = part.rows[:, None] + len(place) - case.seq_len
        keywords = {"attn_mask": (place <= last_seen)[None, None]}  # without n × n pairs
    else:
        keywords = workload.forward_keywords(module, case, source)
    y: Tensor
    if is_function:
        y = module(part.of(inputs[0]), *inputs[1:], **keywords)
    else:
        y = module(inputs[0], **keywords, rows=part.rows)
    return y


def _errors(got: _Side, want: _Side, real: Tensor | None = None) -> list[float]:
    """RMS and largest error of the outputs, then of the gradients if there are any: of the worst of them."""
    y, wanted = (result_checks.without_padding(side.y, real) for side in (got, want))
    found = list(_error(y, wanted, 0.0, 0.0))
    pairs = gradient_pairs(got.leaves, want.leaves)
    if pairs:
        largest = result_checks.largest_norm(expected for _, _, expected in pairs)
        rounding = 32 * torch.finfo(got.y.dtype).eps
        errors = [_error(gradient, expected, largest, rounding) for _, gradient, expected in pairs]
        found += [max(column) for column in zip(*errors, strict=True)]
    return found


def _error(got: Tensor, want: Tensor, largest: float, rounding: float) -> tuple[float, float]:
    """The RMS and the largest error, both relative to the RMS of the expected values."""
    scale = result_checks.scale_of(want.norm().item(), largest, rounding)
    off = to_float64(got) - to_float64(want)
    return off.norm().item() / scale, off.abs().max().item() * want.numel() ** 0.5 / scale


def _judge(
    errors: Sequence[float], of_plain: Sequence[float] | None, limits: Sequence[float], case: Case, compared: str
) -> None:
    """Raise WrongResult for an error that neither rounding nor the plain layer's own error explains."""
    wrong, alone = _WRONG_IN_HALF if case.dtype in result_checks.HALF else _WRONG
    for what, at, limit in zip(("output", "gradient"), (0, 2), limits, strict=True):
        if at >= len(errors):
            return
        plain = None if of_plain is None else of_plain[at]
        most = alone if plain is None else max(wrong, 2 * plain, min(_TIMES_PLAIN * plain, result_checks.MOST))
        if not errors[at] <= max(limit, most):
            beside = "" if plain is None else f"; the plain layer is off by {plain:.1e}"
            raise WrongResult(
                f"{what} is off by {errors[at]:.1e} of its norm at n = {case.seq_len} ({compared}), where at most "
                f"{max(limit, most):.1e} is tolerated{beside}"
            )


@contextmanager
def _limited(threads: int, too_slow: str) -> Iterator[None]:
    """Run the body with so many threads. Raise NotCompared in it after `_MOST_S`; `too_slow` begins its reason."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with time_limit(_MOST_S, NotCompared(f"{too_slow}: more than {_MOST_S:g} s")):
            yield
    finally:
        torch.set_num_threads(before)
