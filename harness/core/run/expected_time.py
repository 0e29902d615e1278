"""How long a sweep takes: from the exact facts of its calls, the machine's rates, and the trials measured so far.

A timed trial makes about five calls of `c` seconds or more, and the trial of its facts makes fourteen. Before any
trial, `c` follows from FLOPs, operations and bytes, which are known from facts, or from the claims of theory. As trials
end, their times correct the prediction.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from harness.core.config import Precision
from harness.core.layers import layer_lookup
from harness.core.model.case_grid import kinds_of
from harness.core.model.formatting import duration
from harness.core.model.sweep_axes import Case
from harness.core.stats.estimate import fewest
from impls.registry import IMPLS, OPS_A_TOKEN

from .executor import Executor


class CallCosts(NamedTuple):
    """What one call does: its FLOPs, dispatched operations, and least traffic with memory in bytes."""

    flops: float
    ops: float
    bytes: float


class Rates(NamedTuple):
    """The machine's peak rates: FLOP/s of a matrix product, and bytes per second to and from memory."""

    flops_per_s: float
    bytes_per_s: float


# Rates of two cores, and an estimate of those of a GPU, for a machine that was not measured.
USUAL_RATES, USUAL_GPU_RATES = Rates(1e11, 3e10), Rates(5e13, 2e12)
# How long to measure each of the machine's rates, in seconds, and the largest array on a CPU. Without this limit, new
# pages of the arrays take ten times as long as the measurement where a virtual machine names its host's cache.
_RATE_S, _FEW_BYTES = 0.2, {"cpu": {"most_bytes": 64 * 2**20}}
# Lengths at which a dry run counts what calls do, to extrapolate to the cases.
_SMALL_LENGTHS = (32, 64, 128)
# Layers reach these shares of the peak rates. An operation takes a few microseconds to dispatch. The figures are
# medians over the published runs on CPU; they predict the time of a whole run within a factor of 1.5.
_OF_FLOPS, _OF_BYTES, _OPERATION_S = 0.65, 0.35, 2e-6
# A backward pass reaches lower rates: its gradients lie in new memory.
_IN_TRAINING = 0.75
# Seconds that a process takes beside calls of its layer: to time it, to count its facts, to verify it. On a GPU, it
# starts CUDA, and a timed trial also runs under load (means of an H200).
_ON_CPU = {"time": 0.037, "facts": 0.045, "verify": 0.07}
_ON_GPU = {"time": 1.8, "facts": 1.0, "verify": 0.9}
# Calls of a timed trial beside its samples, and samples at least.
_OTHER_CALLS, _LEAST_SAMPLES = 1.7, 3
# The start of the processes, and the report.
START_S, REPORT_S = 3.0, 5.0
# The time to compile a case: once to verify it, and once before its facts.
_COMPILE_S = 5.0
# A few trials of a noisy case stop it early, and a few are repeated in a quiet moment.
_OF_MOST_ROUNDS = 0.95
# Seconds for an operation of a few numbers in float64, on a quiet CPU.
_REFERENCE_OPERATION_S = 2.2e-6
# The operations that a reference may take, and the tokens that the plain layer computes beside a loop. Repeated here
# because `harness.core.trial.accuracy` imports torch; the test compares both.
_MOST_OPS, _FEW = 200_000, 256
# Verification compares the outputs for two inputs.
_VERIFIED = 2


def measured_rates(executor: Executor, cases: Iterable[Case]) -> dict[tuple[str, str, int], Rates]:
    """The machine's rates now, by dtype, device and threads of the cases. Those that cannot be measured are missing."""
    rates = {}
    for kind, case in {(case.dtype, case.device, case.threads): case for case in cases}.items():
        flops_per_s = _measured_rate(executor, case, "flops", "flops_per_s")
        bytes_per_s = _measured_rate(executor, case, "bandwidth", "bandwidth_bytes_per_s")
        if flops_per_s and bytes_per_s:
            rates[kind] = Rates(flops_per_s, bytes_per_s)
    return rates


def _measured_rate(executor: Executor, case: Case, purpose: str, name: str) -> float:
    """The better of two measurements of a rate: one alone may meet a busy moment."""
    request = {"trial_s": _RATE_S, **_FEW_BYTES.get(case.device, {})}
    return max(executor.ask(purpose, case, request).values.get(name) or 0.0 for _ in range(2))


def extrapolated_costs(executor: Executor, cases: Iterable[Case]) -> dict[Case, CallCosts]:
    """What a call of each case does, from the facts of small calls; nothing for a layer that compiles or fails.

    The claims of a built-in layer tell how its FLOPs and operations grow.
    """
    costs, alike = dict[Case, CallCosts](), dict[Case, list[Case]]()
    for case in cases:
        alike.setdefault(replace(case, seq_len=1, d_model=1, num_heads=1, batch_size=1), []).append(case)
    for of_setting in alike.values():
        first = min(of_setting)
        if layer_lookup.is_compiled(first.impl) or first.kv_len:
            continue
        batch_size = min(case.batch_size for case in of_setting)
        most_heads = max(case.num_heads for case in of_setting if case.d_model == first.d_model)
        small = []
        for n in _SMALL_LENGTHS:
            at = replace(first, seq_len=n, num_heads=most_heads, batch_size=batch_size)
            facts = executor.ask("facts", at)
            if not facts.values.get("ops"):
                break  # a layer that fails or hangs does so once
            small.append((at, facts.values))
        if len(small) == len(_SMALL_LENGTHS):
            costs_of = costs_by_growth if layer_lookup.is_foreign(first.impl) else costs_by_claims
            costs |= {case: costs_of(case, small) for case in of_setting}
    return costs


def costs_of_facts(facts: Mapping[str, Any]) -> CallCosts | None:
    """The costs in a facts row or in the values of its trial; None if the operations are unknown."""
    flops, ops, least_bytes = (facts.get(name) for name in ("flops", "ops", "min_bytes"))
    return None if ops is None else CallCosts(flops or 0.0, ops, least_bytes or 0.0)


@cache
def claimed_costs(case: Case) -> CallCosts:
    """The costs by the claims of the layer. A layer without claims counts as attention: 8nd² + 4n²d FLOPs."""
    sizes = case.seq_len, case.d_model, case.num_heads
    claims = layer_lookup.claims_of_impl(case.impl, case)
    work = layer_lookup.work_of(claims, case.mode)
    n, d, _ = sizes
    passes = {"train": 3, "backward": 2}.get(case.mode, 1)
    flops = float(work(*sizes)) if work else passes * (8 * n * d**2 + 4 * n**2 * d)
    steps = float(claims["depth"](*sizes)) if "depth" in claims and case.mode != "decode" else 1.0
    words = float(claims["memory"](*sizes)) if "memory" in claims else n * d
    # Words at the peak are written and read a few times. A step of a loop has about four operations.
    return CallCosts(case.batch_size * flops, passes * (12 + 4 * steps), case.batch_size * passes * 16 * words)


# Powers of n, d and h in the terms that costs are assumed to consist of.
_Terms = Sequence[tuple[int, int, int]]
_FLOP_TERMS = ((1, 2, 0), (2, 1, 0))
_OPERATION_TERMS = ((0, 0, 0), (1, 0, 0))
# Gradients of weights, rows of the sequence, scores of attention.
_BYTE_TERMS = ((0, 2, 0), (1, 1, 0), (2, 0, 1))
# The facts of a layer's small cases, which differ in length alone. Three lengths determine all terms.
SmallFacts = Sequence[tuple[Case, Mapping[str, Any]]]


def costs_by_claims(case: Case, small: SmallFacts) -> CallCosts:
    """The costs of a built-in layer's case, from its claims and the facts of small cases.

    FLOPs are those that the layer claims, and operations grow with the claimed depth. Bytes are as in
    `costs_by_growth`.
    """
    at, facts = small[-1]
    claimed = claimed_costs(case)
    return CallCosts(claimed.flops, facts["ops"] * claimed.ops / claimed_costs(at).ops, _grown_bytes(case, small))


def costs_by_growth(case: Case, small: SmallFacts) -> CallCosts:
    """The costs of a case, from the facts of small ones.

    FLOPs are assumed to be a·nd² + b·n²d, operations a + b·n, and bytes a·d² + b·nd + c·n²h.
    """
    sequences = case.batch_size / small[0][0].batch_size
    flops, ops = ([facts.get(name) or 0.0 for _, facts in small] for name in ("flops", "ops"))
    return CallCosts(
        sequences * sum(_grown(flops, case, small, _FLOP_TERMS)),
        sum(_grown(ops, case, small, _OPERATION_TERMS)),
        _grown_bytes(case, small),
    )


def _grown_bytes(case: Case, small: SmallFacts) -> float:
    terms = _BYTE_TERMS if _may_hold_scores(case) else _BYTE_TERMS[:2]
    of_weights, *of_tokens = _grown([facts.get("min_bytes") or 0.0 for _, facts in small], case, small, terms)
    return of_weights + sum(of_tokens) * case.batch_size / small[0][0].batch_size


def _may_hold_scores(case: Case) -> bool:
    """Whether memory may grow as n²; False if it grows by less than n^1.5, as the layer claims."""
    words = layer_lookup.claims_of_impl(case.impl, case).get("memory")
    n, d, h = case.seq_len, case.d_model, case.num_heads
    return words is None or float(words(16 * n, d, h)) > 64 * float(words(n, d, h))


def _grown(values: Sequence[float], case: Case, small: SmallFacts, terms: _Terms) -> list[float]:
    """Each term of a value at the case. Their factors, none negative, fit the values at the small cases best."""
    from scipy.optimize import nnls  # slow to import, and only a dry run needs it

    def powers(at: Case) -> list[float]:
        return [float(at.seq_len**n * at.d_model**d * at.num_heads**h) for n, d, h in terms]

    scale = powers(small[-1][0])  # without it, terms of very different size spoil the fit
    scaled = np.array([powers(at) for at, _ in small]) / scale
    factors, _ = nnls(scaled, values)
    return [float(factor) * value / unit for factor, value, unit in zip(factors, powers(case), scale, strict=True)]


def reference_verify_s(case: Case) -> float:
    """Seconds that the reference takes while the small case of `case` is verified."""
    small = case.small()
    return _REFERENCE_OPERATION_S * _loop_ops(small) * _VERIFIED * small.seq_len


def reference_accuracy_s(case: Case) -> float:
    """Seconds that the reference takes to measure the accuracy of the case, in float64 and in the dtype of the case."""
    n, ops = case.seq_len, 0 if case.mode == "decode" else _loop_ops(case)
    most = _MOST_OPS / ops if ops else math.inf
    tokens = n if n <= max(most, _FEW) else 2 ** int(math.log2(most))
    beside = min(tokens, _FEW) if case.mode == "forward" else tokens
    return _REFERENCE_OPERATION_S * ops * (tokens + beside)


def _loop_ops(case: Case) -> int:
    """The operations for each token of a reference that loops over tokens; 0 of any other."""
    reference = IMPLS[case.impl].reference if case.impl in IMPLS else ""
    return OPS_A_TOKEN.get(reference, 0) * (3 if case.trains else 1)


# Of the two other kinds of trials: seconds for each operation, the number of calls, and the seconds of the reference.
# Counting takes longer than the operations that are counted.
_UNTIMED = {"facts": (25e-6, 14, reference_accuracy_s), "verify": (40e-6, 12, reference_verify_s)}


class ExpectedTime:
    """The expected time of the phases of a sweep.

    `costs` holds what is known of the calls of some cases; the claims of theory supply the rest. `rates` maps a dtype,
    device and number of threads to the rates there. With `learn`, measured trials correct the expectation.
    """

    def __init__(
        self,
        precision: Precision,
        rates: Mapping[tuple[str, str, int], Rates] | None = None,
        costs: Mapping[Case, CallCosts] | None = None,
    ) -> None:
        self.precision, self._rates, self._costs = precision, rates or {}, dict(costs or {})
        self._walls: dict[Case, list[float]] = {}
        # For each kind of trial, the seconds that were expected and those that it took.
        self._sums: dict[str, list[float]] = {}

    def call_s(self, case: Case) -> float:
        """The expected time of one call, in seconds."""
        costs, rates = self._known(case)
        share = _IN_TRAINING if case.trains else 1.0
        computing = costs.flops / (_OF_FLOPS * share * rates.flops_per_s)
        return computing + costs.bytes / (_OF_BYTES * share * rates.bytes_per_s) + costs.ops * _OPERATION_S

    def least_call_s(self, case: Case) -> float:
        """A lower bound of the time of one call: its FLOPs at the machine's peak rate; 0 if either is unknown.

        The FLOPs of a user's own layer are unknown until they are counted.
        """
        if case not in self._costs and layer_lookup.is_foreign(case.impl):
            return 0.0
        costs, _ = self._known(case)
        rates = self._rates.get((case.dtype, case.device, case.threads))
        return costs.flops / rates.flops_per_s if rates else 0.0

    def times_out(self, case: Case) -> bool:
        """Whether a single call certainly takes longer than a trial may."""
        return self.least_call_s(case) > self.precision.timeout_s

    def timeouts(self, cases: Iterable[Case]) -> list[str]:
        """A sentence for each case that certainly times out."""
        limit = f"a trial may take precision.timeout_s={self.precision.timeout_s:g} s"
        return [
            f"{case}: certain timeout. One call takes at least {duration(self.least_call_s(case))}; {limit}."
            for case in cases
            if self.times_out(case)
        ]

    def trials(self, case: Case) -> int:
        """The expected number of timed trials of a case. One that times out has one."""
        if self.times_out(case):
            return 1
        p = self.precision
        most = max(fewest(p), round(_OF_MOST_ROUNDS * p.max_rounds))
        return min(most, max(p.min_rounds, math.ceil(p.case_s / self.trial_s(case))))

    def trial_s(self, case: Case) -> float:
        """The expected time of one timed trial of a case."""
        if walls := self._walls.get(case):
            return sum(walls) / len(walls)
        return self._corrected_s("time", case)

    def facts_s(self, case: Case) -> float:
        """The expected time of the trial that counts a case's facts."""
        return self._corrected_s("facts", case)

    def verify_s(self, kind: Case) -> float:
        """The expected time of the verification of a kind of cases."""
        return self._corrected_s("verify", kind)

    def sweep_s(self, cases: Collection[Case]) -> float:
        """The expected time of a whole sweep of these cases, in seconds, including its report."""
        before = sum(map(self.verify_s, kinds_of(cases))) + sum(map(self.facts_s, cases))
        return START_S + before + sum(self.trials(case) * self.trial_s(case) for case in cases) + REPORT_S

    def learn(self, purpose: str, case: Case, values: Mapping[str, Any], wall_s: float) -> None:
        """Take a trial into account: its time, and the facts that it may have counted."""
        if purpose not in _ON_CPU:
            return
        sums = self._sums.setdefault(purpose, [0.0, 0.0])
        sums[0] += self._expected_s(purpose, case)
        sums[1] += wall_s
        if purpose == "time":
            self._walls.setdefault(case, []).append(wall_s)
        if purpose == "facts" and (costs := costs_of_facts(values)):
            self._costs[case] = costs

    def _corrected_s(self, purpose: str, case: Case) -> float:
        """The expected time of a trial, corrected by how much longer trials of this kind took than expected.

        If trials of the other kinds take longer than expected, that counts as two seconds of this kind: a busy machine
        slows down all of them.
        """
        of_other_kinds = [sums for kind, sums in self._sums.items() if kind != purpose]
        slower = max(1.0, _ratio(of_other_kinds, 1.0))
        return _ratio([self._sums.get(purpose, (0.0, 0.0))], slower) * self._expected_s(purpose, case)

    def _known(self, case: Case) -> tuple[CallCosts, Rates]:
        usual = USUAL_RATES if case.device == "cpu" else USUAL_GPU_RATES
        rates = self._rates.get((case.dtype, case.device, case.threads), usual)
        return self._costs.get(case) or claimed_costs(case), rates

    def _expected_s(self, purpose: str, case: Case) -> float:
        """The expected time of a trial of one of the kinds in `_ON_CPU`, whatever trials have shown."""
        process_s = (_ON_CPU if case.device == "cpu" else _ON_GPU)[purpose]
        call_s, timeout_s = self.call_s(case), self.precision.timeout_s
        if purpose == "time":
            samples_s = max(self.precision.trial_s, _LEAST_SAMPLES * call_s)
            return min(timeout_s, process_s + _OTHER_CALLS * call_s + samples_s)
        operation_s, calls, reference_s = _UNTIMED[purpose]
        process_s += _COMPILE_S if layer_lookup.is_compiled(case.impl) else 0.0
        counting_s = self._known(case)[0].ops * operation_s
        return process_s + counting_s + min(timeout_s, calls * call_s) + reference_s(case)


def _ratio(sums: Iterable[Sequence[float]], before: float) -> float:
    """Measured over expected seconds. Two seconds with the ratio `before` are added: a few short trials say little."""
    expected, measured = 2.0, 2.0 * before
    for expected_s, measured_s in sums:
        expected, measured = expected + expected_s, measured + measured_s
    return measured / expected
