"""Calibrate a machine: its settings, what else runs on it, its peak rates, and its noise floor from an A/A run.

The peaks come first: they take a fraction of the time, and a calibration with peaks alone is valid.

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

from harness.core.config import Precision
from harness.core.config.machine import cpu_model, gpu_state_of
from harness.core.layers.layer_lookup import Layer
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import DTYPES, Case
from harness.core.results.row import StoredRow, trial_of_row
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome
from harness.core.run.scheduler import Watcher
from harness.core.run.session import Session
from harness.core.stats.estimate import Trial, are_quiet, best_probe, estimate
from harness.core.stats.interval import CONFIDENCE

from . import machine_state

# Three copies give three pairs for the cost of three measurements. Each repeat has its own fork server.
COPIES = 3
REPEATS = 3


@dataclass(frozen=True, order=True)
class Replicate(Case):
    """One of several copies of a case, which differ only in the number `copy`."""

    copy: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "copy": self.copy}


@dataclass
class Replicates:
    """The result of the A/A run. `times_s` holds one time per copy, in seconds, for each case and repeat.

    One reading of the clock takes `clock_s`. The share of trials during which the probe was slow is `disturbed_share`,
    and its shortest time `best_probe_s`; both are None without a probe. `sm_clock_mhz` is the lowest and highest clock
    rate of a GPU in any trial. The list `failures` says why trials gave no time.
    """

    times_s: dict[Case, list[list[float]]]
    clock_s: float | None
    disturbed_share: float | None
    best_probe_s: float | None
    sm_clock_mhz: tuple[float, float] | None
    failures: list[str]


class _Log:
    """A sink for the rows of one repeat. `rows` are those of `trials`."""

    def __init__(self) -> None:
        self.trials: dict[Replicate, list[Trial]] = {}
        self.rows: list[StoredRow] = []
        self.failures: dict[Replicate, str] = {}

    def write(self, row: StoredRow) -> None:
        twin = Replicate(**row["case"])
        if row["status"] != "ok":
            self.failures[twin] = f"{Case.from_dict(row['case'])}: {row['status']}: {row['reason']}"
        else:
            self.trials.setdefault(twin, []).append(trial_of_row(row))
            self.rows.append(row)


@dataclass(frozen=True)
class Plan:
    """What to calibrate with. All `cases` share device, threads and dtype. `name` is the precision's name.

    `executor_for(trial_s)` returns an executor with that sampling time, and `watcher_for(cases)` an object that follows
    a repeat's progress. `say` receives what comes next.
    """

    cases: Sequence[Case]
    layers: Mapping[str, Layer]
    precision: Precision
    name: str
    executor_for: Callable[[float], AbstractContextManager[Executor]]
    watcher_for: Callable[[Sequence[Case]], AbstractContextManager[Watcher]]
    say: Callable[[str], None]


def replicates_of(cases: Sequence[Case], copies: int = COPIES) -> list[Replicate]:
    """Every case, `copies` times."""
    return [Replicate(**case.as_dict(), copy=copy) for case in cases for copy in range(copies)]


def measure_replicates(plan: Plan, copies: int = COPIES, repeats: int = REPEATS) -> Replicates:
    """Make the A/A run. Each repeat has an executor and a watcher of its own."""
    twins = replicates_of(plan.cases, copies)
    logs = [_Log() for _ in range(repeats)]
    for number, log in enumerate(logs):
        plan.say(f"noise: repeat {number + 1} of {repeats}, {len(plan.cases)} cases {copies} times each")
        with plan.executor_for(plan.precision.trial_s) as executor, plan.watcher_for(twins) as watcher:
            session = Session(executor, plan.precision, seed=0)
            session.layers.update(plan.layers)
            session.measure(twins, log, watcher, "time", order=number)
    return _gathered(plan.cases, logs)


def _gathered(cases: Sequence[Case], logs: Sequence[_Log]) -> Replicates:
    """The estimates of all repeats, each computed as in a sweep of its own.

    A copy that failed has no estimate.
    """
    rows = [row for log in logs for row in log.rows]
    everything = [trial_of_row(row) for row in rows]
    best = best_probe(everything)
    rates_mhz = [row["sm_clock_mhz"] for row in rows if row.get("sm_clock_mhz") is not None]
    times_s: dict[Case, list[list[float]]] = {case: [] for case in cases}
    for log in logs:
        best_of_repeat = best_probe([trial_of_row(row) for row in log.rows])
        good = sorted(log.trials.keys() - log.failures.keys())
        for case in cases:
            twins = [twin for twin in good if Case.from_dict(twin.as_dict()) == case]
            times_s[case].append([estimate(log.trials[twin], best_of_repeat).time_s for twin in twins])
    return Replicates(
        times_s=times_s,
        clock_s=median(row["clock_s"] for row in rows) if rows else None,
        disturbed_share=None if best is None else 1 - float(are_quiet(everything, best).mean()),
        best_probe_s=best,
        sm_clock_mhz=(min(rates_mhz), max(rates_mhz)) if rates_mhz else None,
        failures=sorted({reason for log in logs for reason in log.failures.values()}),
    )


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
    not independent. A calibration has 18 blocks of three by default, and 6 on a GPU. In simulations with normal,
    exponential and unequal noise, the interval of 18 blocks contains the true quantile 8 to 9 times in ten, and that of
    6 blocks 5 times in ten. The true quantile lies above it more often than below: values that never occurred cannot be
    drawn. Of 6 blocks, the floor is 0.5 to 1.6 times the true one 8 times in ten. With fewer than 14 pairs the quantile
    is the largest ratio.
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
    pairs = [pair for repeats in cases for pair in itertools.combinations(repeats, 2)]
    every = [abs(math.log(a / b)) for pair in pairs for a, b in itertools.product(*pair)]
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
    two copies of each case is in `noise_by_case`. One reading of the clock takes `clock_s`. Until the noise floor is
    measured, all fields from `clock_s` on are None or empty, and `load` is that during the peaks.

    Both `peak_flops_per_s` and `peak_sizes` are by dtype. A dtype that cannot be multiplied here is missing, and
    `failures` has the reason. The result of `take_bandwidth` is in `bandwidth`.

    On CUDA, `sustained_flops_per_s` holds the peaks after a quarter of a second under load, by dtype, and `gpu_state`
    the result of `harness.core.trial.nvml.gpu_state`. `sm_clock_mhz` is the lowest and highest clock rate of a trial.
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
    peak_flops_per_s: dict[str, float]
    peak_sizes: dict[str, int]
    bandwidth: dict[str, Any]
    failures: tuple[str, ...]
    load: machine_state.BackgroundLoad
    state: machine_state.MachineState
    gpu_state: dict[str, Any] | None = None
    sustained_flops_per_s: dict[str, float] = field(default_factory=dict)
    clock_s: float | None = None
    noise: NoiseFloor | None = None
    noise_between_repeats: float | None = None
    noise_by_case: dict[str, float] = field(default_factory=dict)
    disturbed_share: float | None = None
    best_probe_s: float | None = None
    sm_clock_mhz: tuple[float, float] | None = None


# A peak needs a few calls at each of a few sizes. This is the sampling time of so many trials, and at least `PEAK_S`.
# Peaks are measured in rounds too, so that a burst of noise does not disturb every round of one dtype.
PEAK_TRIALS, PEAK_S, PEAK_ROUNDS = 4, 0.4, 3


def measure_peaks(plan: Plan) -> Calibration:
    """Read the machine's settings and measure its peak rates: a calibration without a noise floor."""
    before, state = machine_state.take_snapshot(), machine_state.read_machine_state()
    case = plan.cases[0]
    with plan.executor_for(max(PEAK_S, PEAK_TRIALS * plan.precision.trial_s)) as executor:
        torch = executor.run("machine").values
        outcomes = _peaks(case, executor)
    gpu_state = gpu_state_of({"torch": torch}, case.device)
    peaks = {name: outcome.values for name, outcome in outcomes.items() if outcome.ok}
    bandwidth, under_load = peaks.pop("bandwidth", {}), "sustained_flops_per_s"
    return Calibration(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        host=platform.node(),
        cpu_model=cpu_model(),
        gpu=gpu_state["name"] if gpu_state else torch["gpu"],
        torch_version=torch["version"],
        device=case.device,
        threads=case.threads,
        dtype=case.dtype,
        precision=plan.name,
        limits=asdict(plan.precision),
        took_s=round(time.monotonic() - before.at_s, 1),
        peak_flops_per_s={dtype: values["flops_per_s"] for dtype, values in peaks.items()},
        peak_sizes={dtype: values["size"] for dtype, values in peaks.items()},
        bandwidth=dict(bandwidth),
        failures=tuple(f"peak of {name}: {o.status}: {o.reason}" for name, o in outcomes.items() if not o.ok),
        load=machine_state.background_load(before, machine_state.take_snapshot()),
        state=state,
        gpu_state=gpu_state,
        sustained_flops_per_s={dtype: values[under_load] for dtype, values in peaks.items() if under_load in values},
    )


def with_noise(peaks: Calibration, plan: Plan) -> Calibration:
    """Make the A/A run and return `peaks` with a noise floor. What else runs is recorded meanwhile.

    Raises UsageError if no case could be timed twice.
    """
    before = machine_state.take_snapshot()
    twins = measure_replicates(plan)
    blocks = [times for repeats in twins.times_s.values() for times in repeats]
    if all(len(times) < 2 for times in blocks):
        raise UsageError(f"no case could be timed twice: {'; '.join(twins.failures)}")
    return replace(
        peaks,
        took_s=round(peaks.took_s + time.monotonic() - before.at_s, 1),
        failures=(*peaks.failures, *twins.failures),
        load=machine_state.background_load(before, machine_state.take_snapshot()),
        clock_s=twins.clock_s,
        noise=noise_floor(blocks),
        noise_between_repeats=noise_floor_between(list(twins.times_s.values())),
        noise_by_case=_by_case(twins.times_s),
        disturbed_share=twins.disturbed_share,
        best_probe_s=twins.best_probe_s,
        sm_clock_mhz=twins.sm_clock_mhz,
    )


def _peaks(like: Case, executor: Executor) -> dict[str, TrialOutcome]:
    """Return the outcome of each dtype's `flops` and of `bandwidth`, as `_best` chooses it from all rounds.

    They run on the device and with the threads of `like`. Only the last round measures sustained rates.
    """
    rounds = []
    for number in range(PEAK_ROUNDS):
        more = {"with_sustained": number == PEAK_ROUNDS - 1}
        outcomes = {dtype: executor.run("flops", replace(like, dtype=dtype), more) for dtype in DTYPES}
        rounds.append({**outcomes, "bandwidth": executor.run("bandwidth", like, more)})
    return {name: _best([outcomes[name] for outcomes in rounds]) for name in rounds[0]}


def _best(outcomes: Sequence[TrialOutcome]) -> TrialOutcome:
    """The first outcome that failed, or else the fastest, with the sustained rate of the last."""
    for outcome in outcomes:
        if not outcome.ok:
            return outcome
    fastest = max(outcomes, key=lambda o: o.values.get("flops_per_s") or o.values["bandwidth_bytes_per_s"])
    sustained = {name: value for name, value in outcomes[-1].values.items() if name.startswith("sustained")}
    return replace(fastest, values={**fastest.values, **sustained})


def _by_case(times_s: Mapping[Case, Sequence[Sequence[float]]]) -> dict[str, float]:
    distances = {case: [*itertools.chain.from_iterable(map(log_distances, times))] for case, times in times_s.items()}
    return {case.key: math.expm1(max(of_case)) for case, of_case in distances.items() if of_case}
