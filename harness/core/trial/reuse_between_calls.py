"""Checks that a layer computes its results anew, and does not keep them from an earlier call.

`Renewal` changes the input between samples. A result kept by the input's address is then wrong, and `check_last_call`
detects it. Within a sample of several calls the input stays the same. A change would be timed, and alternating between
several inputs would make an honest layer read them from a slower cache. A result kept by the input's values is correct
there, but too fast. Therefore `check_call_times` compares calls on new and on repeated input, outside the samples.
"""

import gc
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from harness.core.model.sweep_axes import Case

from . import result_checks
from .compilation import compilations, functions_offered
from .counts.operations import Observer, Storages
from .device import fill_tensors, in_precision, seed_draws, tensors_in, to_float64
from .result_checks import WrongResult, check_error, check_plain, gradient_pairs, scale_of, tolerance, without_padding
from .sandbox import is_out_of_memory
from .workload import Call, Workload, build, check_switches, copy_weights, counted_tokens

# Factors are slices of a longer row, drawn once. A slice needs no copy to the GPU; a copy would wait for its queue.
_SPARE = 4096
# Magnitudes stay within this share of the drawn ones.
_SPREAD = 0.1


class Renewal:
    """A change of the input, after which the result of an earlier call is wrong.

    Calling the object multiplies rows and columns of all `tensors` by random factors. The factors are close to 1 or −1,
    and close to 1 for a tensor of positive values. The tensors are changed in place. Every value becomes one not seen
    before, and sums, hashes and the version counter change too. An honest layer costs the same. Zeros stay, no value
    becomes denormal, and no large memory is allocated. The tensor was just written, as after a preceding layer, and
    uses the cache as before.

    A layer may change its input. Call `look` once after the first call to find out. If it does, each renewal starts
    from the first values. Otherwise the input would grow or shrink from call to call.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._first = _copies(tensors)
        self._versions = [tensor._version for tensor in tensors]
        self._draw = random.Random(0)
        draws = torch.Generator().manual_seed(0)
        dims = [(tensor, dim) for tensor in tensors for dim in (-2, -1)[-tensor.dim() :]]
        self._rows = [(tensor, dim, _factors(tensor, dim, draws)) for tensor, dim in dims]
        # The present factors of the tensors. The next renewal divides by them.
        self._applied = [torch.ones_like(row.narrow(dim, 0, tensor.shape[dim])) for tensor, dim, row in self._rows]

    def look(self) -> None:
        """Drop the copies of the tensors if the calls since the construction have not changed the input."""
        if all(
            tensor._version == version and torch.equal(tensor, first)
            for tensor, version, first in zip(self._tensors, self._versions, self._first, strict=True)
        ):
            self._first.clear()

    @property
    def restores(self) -> bool:
        """Whether each renewal starts from the first values, because the layer changes its input."""
        return bool(self._first)

    def __call__(self) -> None:
        with torch.no_grad():
            for tensor, first in zip(self._tensors, self._first, strict=False):
                tensor.copy_(first)
            for number, (tensor, dim, row) in enumerate(self._rows):
                factors = row.narrow(dim, self._draw.randrange(_SPARE), tensor.shape[dim])
                tensor.mul_(factors if self._first else factors / self._applied[number])
                self._applied[number] = factors


def _factors(tensor: Tensor, dim: int, draws: torch.Generator) -> Tensor:
    """Random factors along one dimension of the tensor, `_SPARE` more than the dimension's size."""
    shape = [1] * tensor.dim()
    shape[dim] = tensor.shape[dim] + _SPARE
    signs = 2 * torch.randint(0, 2, shape, generator=draws) - 1
    signs = signs.abs() if bool((tensor >= 0).all()) else signs
    return (signs * (1 - _SPREAD / 2 + _SPREAD / 2 * torch.rand(shape, generator=draws))).to(tensor)


def check_second_input(
    work: Workload, expected: Callable[[list[Tensor]], Tensor], real: Tensor | None, seed: int, limit: float
) -> None:
    """Raise WrongResult if the output for a second input is not the expected one, as if kept from the first.

    The second input is written over the first one, which is restored afterwards. `expected` computes the output from
    inputs in float64. `real` (b, n, 1) is False for padding. `limit` is the largest relative error.
    """
    before = _copies(work.inputs)
    result_checks.renew_inputs(work)
    second = _copies(work.inputs)
    seed_draws(seed)
    got = work.forward().detach().clone()  # the output may share memory with an input, which is restored below
    fill_tensors(work.inputs, before)
    wanted = expected([to_float64(tensor) for tensor in second]).detach()
    try:
        check_error("its output", without_padding(got, real), without_padding(wanted, real), limit)
    except WrongResult as error:
        kept = "its prepare may use shapes and masks, not values" if hasattr(work.layer, "prepare") else ""
        raise WrongResult(f"with a second input {error}: {kept or 'does it keep anything of the first?'}") from None


_ROUNDS = 3


def check_operation_counts(work: Workload, seed: int) -> None:
    """Raise WrongResult if calls on an input seen before dispatch fewer operations than calls on a new input.

    A repeated call must repeat all of its work, as a timed call must. The check detects results that a layer kept by
    the input's address, version or values. It misses work that torch does not dispatch, as in numpy or in compiled
    code. For this work the timed trial compares seconds. The input has other values afterwards.
    """
    renewal = Renewal(work.varying)
    work.call()
    renewal.look()
    unchanged = Renewal([])
    seen, _ = _observed(work, [renewal, unchanged], seed)
    new, again = min(map(len, seen[renewal]), default=0), max(map(len, seen[unchanged]), default=0)
    if new > again:
        raise WrongResult(
            f"it returns the result of an earlier call: a new input takes {new} operations, "
            f"the same input again {again}"
        )


# A value of each call, by the renewal before the call.
_OfCalls = dict[Renewal, list[Any]]


def _observed(work: Workload, renewals: list[Renewal], seed: int) -> tuple[_OfCalls, _OfCalls]:
    """Call after each renewal, in rounds. Return the operations of its calls, and their seconds outside torch's own.

    Both are empty for calls that cannot be observed. Compiled code dispatches no operations, and the compiler would
    compile the observer too.
    """
    seen = defaultdict(list)
    outside_s = defaultdict(list)
    try:
        is_compiler_used = compilations() or functions_offered()
        # The order differs from round to round: a layer may do more at every second call.
        in_order = [*renewals, *reversed(renewals), *renewals]
        for renew in [] if is_compiler_used else in_order:
            renew()
            seed_draws(seed)
            with Observer(Storages(), ()) as observer:
                start = perf_counter()
                work.call()
                work.sync()
                outside_s[renew].append(perf_counter() - start - observer.inside_s)
            seen[renew].append(observer.seen)
    except MemoryError:
        raise
    except Exception:
        # The layer ran before, so it is the observer that it cannot run under. A GPU may lack memory for that.
        seen.clear()
        outside_s.clear()
    return seen, outside_s


def repeated_gradient_pairs(
    work: Workload, state: dict[str, Any], leaves: dict[str, Tensor], wanted: dict[str, Tensor]
) -> list[tuple[str, Tensor, Tensor]]:
    """The `gradient_pairs` of two more backward passes through one graph, as the timed call of `backward` repeats them.

    `state` is that of the layer before its first call: each forward pass may change buffers, as a power iteration does.
    """
    copy_weights(state, work.layer)
    work.call = work.remake()
    trained = [leaf for leaf in leaves.values() if leaf.requires_grad]
    pairs = []
    for _ in range(2):
        for leaf, gradient in zip(trained, work.call(), strict=True):
            leaf.grad = gradient
        pairs += gradient_pairs(leaves, wanted, " in a repeated backward pass")
    return pairs


_EARLIER = "it returned the result of an earlier call"
# Each round makes `_CALLS` calls of each kind in random order, and one passed round clears a layer. The calls of an
# honest layer may have two speeds by chance. It then fails one round in 50 at worst, and all rounds once in 100,000
# times.
_CALLS = 16
# Caches and branches cause a smaller factor, and keeping a result is not worthwhile if it saves less.
_SLOWER = 1.5


@dataclass
class LastCall:
    """A call's weights, inputs, varying tensors and gradient, copied before it, and its results."""

    weights: dict[str, Any]
    inputs: list[Tensor]
    varying: list[Tensor]
    gradient: Tensor | None
    results: list[Tensor | None]


def check_call_times(work: Workload, renewal: Renewal) -> None:
    """Raise WrongResult if calls on a new input take more than 1.5 times as long as calls on the same input again.

    Before a repeated call, other tensors of the same size are renewed. Both kinds of calls then find the same caches.
    A processor predicts the branches of a sort by the values that it sorted last. So the time that torch's own
    operations take does not count if both kinds of calls dispatch the same ones.
    """
    elsewhere = Renewal(_copies(work.varying))
    elsewhere.look()
    for _ in range(_ROUNDS):
        seconds: dict[Renewal, list[float]] = {renewal: [], elsewhere: []}
        for renew in random.sample([renewal, elsewhere] * _CALLS, 2 * _CALLS):
            renew()
            start = perf_counter()
            work.call()
            work.sync()
            seconds[renew].append(perf_counter() - start)
        new_s, again_s = sorted(seconds[renewal])[_CALLS // 4], median(seconds[elsewhere])
        if new_s <= _SLOWER * again_s:
            return
        seen, outside_s = _observed(work, [renewal, elsewhere], 0)
        skipped_s = min(outside_s[renewal], default=new_s) - median(outside_s[elsewhere] or [0.0])
        if seen[renewal] == seen[elsewhere] and skipped_s <= (_SLOWER - 1) * again_s:
            return
    raise WrongResult(
        f"{_EARLIER}: a new input takes {1e6 * new_s:.1f} µs, the same input again {1e6 * again_s:.1f} µs"
    )


def take_last_call(work: Workload, renewal: Renewal, seed: int) -> LastCall:
    """Make one more call, on an input that is changed after the call before. Return its data and results.

    A layer may compute again only after a pause. So nothing but the change of the input comes between two calls, and
    the data are copied afterwards. A layer that changes its input needs the copy before the call.
    """
    parameters = {name for name, _ in work.layer.named_parameters()}
    weights = work.layer.state_dict()
    buffers = [name for name, value in weights.items() if name not in parameters and isinstance(value, Tensor)]
    seed_draws(seed)
    work.call()
    weights.update((name, weights[name].clone()) for name in buffers)
    renewal()
    copied = work.inputs, work.varying
    before = list(map(_copies, copied)) if renewal.restores else []
    results = results_of(work, work.call, seed)
    inputs, varying = before or map(_copies, copied)
    gradient = None if work.gradient is None else work.gradient.clone()
    return LastCall(weights, inputs, varying, gradient, results)


def _copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def check_last_call(last: LastCall, case: Case, seed: int) -> bool:
    """Raise WrongResult unless a rebuilt layer with the same weights gives the same results for the same input.

    Return whether this could be checked: False if memory does not suffice for a second layer. The caller must have
    dropped its own layer.

    A kept result is as wrong as one input's result is for another input. So an error indicates a kept result if it
    exceeds rounding and half of that distance. A long recurrence may amplify rounding, but not as far.
    """
    check_switches()  # a new layer resets them
    gc.collect()  # the dropped layer may be part of a cycle
    try:
        _check_last_call(last, case, seed)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True


def _check_last_call(last: LastCall, case: Case, seed: int) -> None:
    work = build(case, seed, last.weights, last.inputs)
    last.weights.clear()
    fill_tensors(work.varying, last.varying)
    if work.gradient is not None and last.gradient is not None:
        fill_tensors([work.gradient], [last.gradient])
    real = counted_tokens(work.layer, case) if case.mode in ("forward", "train") else None
    renewal = Renewal(work.varying)
    expected = results_of(work, work.call, seed)
    for got, want in zip(last.results, expected, strict=True):
        if got is not None:
            check_plain(got)
        if got is not None and want is not None and got.dtype != want.dtype:
            raise WrongResult(f"it returned {want.dtype} at first and {got.dtype} later")
    off = _distances(last.results, expected, real)
    rounding = [0.0 if want is None else tolerance(want.dtype, case.d_model) for want in expected]
    if all(distance <= limit for distance, limit in zip(off, rounding, strict=True)):
        return
    expected = [None if want is None else want.clone() for want in expected]
    renewal.look()
    renewal()
    apart = _distances(results_of(work, work.call, seed), expected, real)
    if any(a > limit and a > 0.5 * b for a, b, limit in zip(off, apart, rounding, strict=True)):
        raise WrongResult(f"{_EARLIER}: its output does not follow its input")


def results_of(work: Workload, call: Call, seed: int) -> list[Tensor | None]:
    """The tensors that a call of the workload returns, and the gradients that it leaves behind."""
    seed_draws(seed)
    returned = call()
    gradients = [leaf.grad for leaf in (*work.inputs, *work.layer.parameters())]
    tensors = map(_dense, returned) if isinstance(returned, tuple) else tensors_in(returned)  # a backward pass alone
    return [*tensors, *map(_dense, gradients)]


def _dense(gradient: Tensor | None) -> Tensor | None:
    """A gradient with all its elements: that of an embedding may be sparse."""
    return gradient.to_dense() if gradient is not None and gradient.is_sparse else gradient


def _distances(got: list[Tensor | None], want: list[Tensor | None], real: Tensor | None) -> list[float]:
    """‖got − want‖ / ‖want‖ of each pair, or 0 if one is None. The first pair is the output, without its padding.

    A gradient that is zero but for rounding is compared with the largest norm: see `scale_of`.
    """
    norms, off = [0.0] * len(want), [0.0] * len(want)
    for number, (one, other) in enumerate(zip(got, want, strict=True)):
        if one is not None and other is not None:
            pair = [one.detach() - other.detach(), other.detach()]
            if number == 0:
                pair = [without_padding(tensor, real) for tensor in pair]
            on_cpu = (t.cpu() if t.is_mps else t for t in pair)  # Apple's GPUs have no float64
            norm = torch.linalg.vector_norm
            off[number], norms[number] = (norm(t, dtype=in_precision(t, torch.float64)).item() for t in on_cpu)
    largest = max(norms)
    rounding = [0.0 if tensor is None else 32 * torch.finfo(tensor.dtype).eps for tensor in want]
    return [part / scale_of(norm, largest, eps) for part, norm, eps in zip(off, norms, rounding, strict=True)]
