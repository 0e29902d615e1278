"""Calibrate a machine: its noise floor from an A/A run, its settings, what else runs on it, and its peak rates.

The A/A run measures the same cases several times over, side by side in the rounds of a real sweep. It uses the sweep's
own scheduler, executor, stopping rule and estimate, so the calibration covers what measures later.

Any difference between two measurements of the same case is noise. A slow-down that is no larger cannot be told from
noise.
"""

import itertools
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

import numpy as np

from harness.calibration import machine_state
from harness.config import Precision
from harness.errors import UsageError
from harness.layer_lookup import Traits
from harness.machine import cpu_model, gpu_state_of
from harness.measure.executor import Executor
from harness.measure.outcome import TrialOutcome
from harness.measure.scheduler import Watcher
from harness.measure.session import Session
from harness.results.row import trial_of_row
from harness.stats.estimate import Trial, are_quiet, best_probe, estimate
from harness.stats.interval import CONFIDENCE
from harness.sweep_axes import DTYPES, Case

# Three copies give three pairs for the cost of three measurements. Each repeat has its own fork server.
COPIES = 3
REPEATS = 3


@dataclass(frozen=True, order=True)
class Replicate(Case):
    """One of several copies of a case, which differ only in the number `copy`."""

    copy: int = 0


@dataclass
class Replicates:
    """The result of the A/A run. `times_s` holds one time per copy, in seconds, for each case and repeat.

    One reading of the clock takes `clock_s`. The share of trials during which the probe was slow is `disturbed_share`,
    and its shortest time `best_probe_s`; both are None without a probe. `sm_clock_mhz` is the lowest and highest clock
    rate of a GPU in any trial. The list `failures` says why trials gave no time.
    """

    times_s: dict[Case, list[list[float]]] = field(default_factory=dict)
    clock_s: float | None = None
    disturbed_share: float | None = None
    best_probe_s: float | None = None
    sm_clock_mhz: tuple[float, float] | None = None
    failures: list[str] = field(default_factory=list)


class _Log:
    """A sink for the rows of one repeat."""

    def __init__(self) -> None:
        self.trials: dict[Replicate, list[Trial]] = {}
        self.clocks_s: list[float] = []
        self.sm_clocks_mhz: list[float] = []
        self.failures: dict[Replicate, str] = {}

    def write(self, row: Mapping[str, Any]) -> None:
        twin = Replicate(**row["case"])
        if row["status"] != "ok":
            self.failures[twin] = f"{Case.from_dict(row['case'])}: {row['status']}: {row['reason']}"
            return
        self.trials.setdefault(twin, []).append(trial_of_row(row))
        self.clocks_s.append(row["clock_s"])
        if row.get("sm_clock_mhz") is not None:
            self.sm_clocks_mhz.append(row["sm_clock_mhz"])

    def all_trials(self) -> list[Trial]:
        return [trial for trials in self.trials.values() for trial in trials]


@dataclass(frozen=True)
class Plan:
    """What to calibrate with. All `cases` share device, threads and dtype. `name` is the precision's name."""

    cases: Sequence[Case]
    traits: Mapping[str, Traits]
    precision: Precision
    name: str
    seed: int


Executors = Callable[[float], AbstractContextManager[Executor]]
Watchers = Callable[[Sequence[Case]], AbstractContextManager[Watcher]]
Say = Callable[[str], None]


def replicates_of(cases: Sequence[Case], copies: int = COPIES) -> list[Replicate]:
    """Every case, `copies` times."""
    return [Replicate(**case.as_dict(), copy=copy) for case in cases for copy in range(copies)]


def measure_replicates(
    plan: Plan, executor_for: Executors, watcher_for: Watchers, say: Say, copies: int = COPIES, repeats: int = REPEATS
) -> Replicates:
    """Make the A/A run. Each repeat has an executor and a watcher of its own. The arguments are as for `calibrate`."""
    twins = replicates_of(plan.cases, copies)
    logs = [_Log() for _ in range(repeats)]
    for number, log in enumerate(logs):
        say(f"noise: repeat {number + 1} of {repeats}, {len(plan.cases)} cases {copies} times each")
        with executor_for(plan.precision.trial_s) as executor, watcher_for(twins) as watcher:
            session = Session(executor, plan.precision, seed=0)
            session.traits.update(plan.traits)
            session.measure(twins, log, watcher, "time", order=number)
    return _gathered(plan.cases, logs)


def _gathered(cases: Sequence[Case], logs: Sequence[_Log]) -> Replicates:
    """The estimates of all repeats, each computed as in a sweep of its own.

    A copy that failed has no estimate.
    """
    result = Replicates(times_s={case: [] for case in cases})
    everything = [trial for log in logs for trial in log.all_trials()]
    best = best_probe(everything)
    result.best_probe_s = best
    if best is not None:
        result.disturbed_share = 1 - float(are_quiet(everything, best).mean())
    clocks_s = [clock_s for log in logs for clock_s in log.clocks_s]
    result.clock_s = median(clocks_s) if clocks_s else None
    rates_mhz = [rate for log in logs for rate in log.sm_clocks_mhz]
    result.sm_clock_mhz = (min(rates_mhz), max(rates_mhz)) if rates_mhz else None
    for log in logs:
        best_of_repeat = best_probe(log.all_trials())
        for case in cases:
            good = [twin for twin in log.trials if twin not in log.failures and Case.from_dict(twin.as_dict()) == case]
            result.times_s[case].append([estimate(log.trials[twin], best_of_repeat).time_s for twin in sorted(good)])
    result.failures = sorted({reason for log in logs for reason in log.failures.values()})
    return result


# A slow-down is visible if it exceeds the noise floor four times in five, with noise in either direction.
POWER = 0.8
_DRAWS = 1000


@dataclass(frozen=True)
class NoiseFloor:
    """The noise floor as shares: 0.05 is a slow-down of 5 %. `lo` and `hi` are None with a single block.

    `floor` is exp(q) − 1, where q is the 95 % quantile of |log ratio| over all pairs of measurements within a block. A
    slow-down of exactly `floor` is seen half of the time, and one of `visible` four times in five. The result rests on
    `ratios` pairs from `blocks` independent blocks.
    """

    floor: float
    lo: float | None
    hi: float | None
    visible: float
    ratios: int
    blocks: int


def noise_floor(blocks: Sequence[Sequence[float]]) -> NoiseFloor:
    """The noise floor from blocks of times, in any unit. Raises ValueError if no block holds two times.

    A block holds the times of one case, measured side by side in the same rounds.

    The interval is the 95 % percentile bootstrap over blocks, because pairs within a block share measurements and are
    not independent. A calibration has 18 blocks of three. In simulations with normal, exponential and unequal noise,
    the interval then contains the true quantile 8 to 9 times in ten. The true quantile lies above it more often than
    below: values that never occurred cannot be drawn. With fewer than 14 pairs the quantile is the largest ratio.
    """
    ratios = [pairs for block in blocks if (pairs := log_distances(block))]
    if not ratios:
        raise ValueError("a noise floor needs two measurements of the same case")
    every = np.concatenate(ratios)
    lo, hi = _interval(ratios) if len(ratios) > 1 else (None, None)
    # Noise is as likely to hide a slow-down as to add to it. It hides more than this distance with probability 1 −
    # POWER.
    margin = _quantile(every, 1 - 2 * (1 - POWER))
    at = _quantile(every, CONFIDENCE)
    return NoiseFloor(math.expm1(at), lo, hi, math.expm1(at + margin), len(every), len(ratios))


def log_distances(times: Sequence[float]) -> list[float]:
    """|log ratio| of every pair of times."""
    return [abs(math.log(a / b)) for a, b in itertools.combinations(times, 2)]


def noise_floor_between(cases: Sequence[Sequence[Sequence[float]]]) -> float | None:
    """The same quantile over pairs of measurements from different repeats, a share; None without two repeats.

    `cases` holds each case's repeats, and each repeat its times. A few repeats within one or two minutes are only an
    indication, so the result has no interval. It does not include changes from day to day.
    """
    every = [
        abs(math.log(a / b))
        for repeats in cases
        for one, other in itertools.combinations(repeats, 2)
        for a, b in itertools.product(one, other)
    ]
    return math.expm1(_quantile(np.array(every), CONFIDENCE)) if every else None


def _interval(ratios: Sequence[Sequence[float]]) -> tuple[float, float]:
    draws = np.random.default_rng(0)
    drawn = [
        _quantile(np.concatenate([ratios[i] for i in draws.integers(0, len(ratios), len(ratios))]), CONFIDENCE)
        for _ in range(_DRAWS)
    ]
    tail = (1 - CONFIDENCE) / 2
    lo, hi = np.quantile(drawn, (tail, 1 - tail))
    return math.expm1(lo), math.expm1(hi)


def _quantile(values: np.ndarray, share: float) -> float:
    # Plain interpolation is too low in small samples: Hyndman and Fan 1996, "Sample quantiles", type 8.
    return float(np.quantile(values, share, method="median_unbiased"))


@dataclass(frozen=True)
class Calibration:
    """Everything measured and read for one machine, one device, one number of threads and one precision.

    Shares are fractions of one. The noise floor between measurements side by side is `noise`. The one between
    measurements some time apart is `noise_between_repeats`, None with a single repeat. The largest difference between
    two copies of each case is in `noise_by_case`. One reading of the clock takes `clock_s`.

    Both `peak_flops_per_s` and `peak_sizes` are by dtype. A dtype that cannot be multiplied here is missing, and
    `failures` has the reason. The result of `take_bandwidth` is in `bandwidth`.

    On CUDA, `sustained_flops_per_s` holds the peaks after a quarter of a second under load, by dtype, and `gpu_state`
    the result of `harness.trial.nvml.gpu_state`. `sm_clock_mhz` is the lowest and highest clock rate of a trial.
    """

    date: str
    host: str
    cpu_model: str
    gpu: str | None
    torch_version: str
    device: str
    threads: int
    dtype: str
    precision: str
    limits: dict[str, float]
    took_s: float
    clock_s: float
    noise: NoiseFloor
    noise_between_repeats: float | None
    noise_by_case: dict[str, float]
    disturbed_share: float | None
    peak_flops_per_s: dict[str, float]
    peak_sizes: dict[str, int]
    bandwidth: dict[str, Any]
    failures: tuple[str, ...]
    load: machine_state.BackgroundLoad
    state: machine_state.MachineState
    best_probe_s: float | None = None
    gpu_state: dict[str, Any] | None = None
    sustained_flops_per_s: dict[str, float] = field(default_factory=dict)
    sm_clock_mhz: tuple[float, float] | None = None


# A peak needs a few calls at each of a few sizes. This is the sampling time of so many trials, and at least `PEAK_S`.
# Peaks are measured in rounds too, so that a burst of noise does not disturb every round of one dtype.
PEAK_TRIALS, PEAK_S = 4, 0.4
PEAK_ROUNDS = 3


def calibrate(plan: Plan, executor_for: Executors, watcher_for: Watchers, say: Say) -> Calibration:
    """Measure the machine, in about a minute with `quick`: read its settings, make the A/A run, then measure its peaks.

    What else runs is recorded during the A/A run.

    `executor_for(trial_s)` returns an executor with that sampling time. `watcher_for(cases)` returns an object that
    follows a repeat's progress. `say` receives what comes next. Raises UsageError if no case could be timed twice.
    """
    began = time.monotonic()
    state = machine_state.read_machine_state()
    one = plan.cases[0]
    before = machine_state.take_snapshot()
    twins = measure_replicates(plan, executor_for, watcher_for, say)
    load = machine_state.background_load(before, machine_state.take_snapshot())
    blocks = [times for repeats in twins.times_s.values() for times in repeats]
    if twins.clock_s is None or all(len(times) < 2 for times in blocks):
        raise UsageError(f"no case could be timed twice: {'; '.join(twins.failures)}")
    say("peaks: matrix products and memory")
    with executor_for(max(PEAK_S, PEAK_TRIALS * plan.precision.trial_s)) as executor:
        torch = executor.run("machine").values
        flops, bandwidth, sustained = _peaks(one, executor)
    outcomes = {**{f"peak of {dtype}": outcome for dtype, outcome in flops.items()}, "bandwidth": bandwidth}
    failures = [f"{what}: {o.status}: {o.reason}" for what, o in outcomes.items() if not o.ok]
    gpu_state = gpu_state_of({"torch": torch}, one.device)
    good = {dtype: outcome.values for dtype, outcome in flops.items() if outcome.ok}
    return Calibration(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        host=platform.node(),
        cpu_model=cpu_model(),
        gpu=gpu_state["name"] if gpu_state else torch["gpu"],
        torch_version=torch["version"],
        device=one.device,
        threads=one.threads,
        dtype=one.dtype,
        precision=plan.name,
        limits=asdict(plan.precision),
        took_s=round(time.monotonic() - began, 1),
        clock_s=twins.clock_s,
        noise=noise_floor(blocks),
        noise_between_repeats=noise_floor_between(list(twins.times_s.values())),
        noise_by_case=_by_case(twins),
        disturbed_share=twins.disturbed_share,
        peak_flops_per_s={dtype: outcome["flops_per_s"] for dtype, outcome in good.items()},
        peak_sizes={dtype: outcome["size"] for dtype, outcome in good.items()},
        bandwidth={name: value for name, value in bandwidth.values.items() if bandwidth.ok and name != "start_s"},
        failures=(*failures, *twins.failures),
        load=load,
        state=state,
        best_probe_s=twins.best_probe_s,
        gpu_state=gpu_state,
        sustained_flops_per_s=sustained,
        sm_clock_mhz=twins.sm_clock_mhz,
    )


def _peaks(like: Case, executor: Executor) -> tuple[dict[str, TrialOutcome], TrialOutcome, dict[str, float]]:
    """Return the best outcome of `flops` by dtype, the best of `bandwidth`, and the sustained FLOP/s by dtype.

    A measurement that failed in any round counts as failed. Only the last round measures sustained rates.
    """
    rounds = []
    for number in range(PEAK_ROUNDS):
        more = {"with_sustained": number == PEAK_ROUNDS - 1}
        flops = {dtype: executor.run("flops", _carrier(like, dtype), more) for dtype in DTYPES}
        rounds.append((flops, executor.run("bandwidth", _carrier(like, "float32"), more)))
    best = {dtype: _best([flops[dtype] for flops, _ in rounds], "flops_per_s") for dtype in DTYPES}
    bandwidth, name = _best([one for _, one in rounds], "bandwidth_bytes_per_s"), "sustained_bytes_per_s"
    if name in rounds[-1][1].values:
        bandwidth = replace(bandwidth, values={**bandwidth.values, name: rounds[-1][1].values[name]})
    sustained = {dtype: one.values.get("sustained_flops_per_s") for dtype, one in rounds[-1][0].items()}
    return best, bandwidth, {dtype: rate for dtype, rate in sustained.items() if rate is not None}


def _best(outcomes: Sequence[TrialOutcome], rate: str) -> TrialOutcome:
    failed = [outcome for outcome in outcomes if not outcome.ok]
    return failed[0] if failed else max(outcomes, key=lambda outcome: outcome.values[rate])


def _carrier(like: Case, dtype: str) -> Case:
    """A case that carries device, threads and dtype to a peak measurement, which ignores the rest."""
    return Case(like.impl, 1, 1, 1, dtype=dtype, device=like.device, threads=like.threads)


def _by_case(twins: Replicates) -> dict[str, float]:
    apart = {
        case: max((distance for times in repeats for distance in log_distances(times)), default=None)
        for case, repeats in twins.times_s.items()
    }
    return {case.key: math.expm1(most) for case, most in apart.items() if most is not None}
