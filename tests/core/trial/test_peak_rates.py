"""Peaks: growing sizes within a budget of times that the test makes, and real ones, small."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from core.trial.timing.cuda.simulated_gpu import SimClock, SimEvent, SimGpu

from harness.core.model.sweep_axes import DTYPES, Case
from harness.core.run.executor import Executor
from harness.core.trial import peak_rates
from harness.core.trial.peak_rates import Rate, best_rate, last_cache_bytes, products, wanted_buffer_bytes
from harness.core.trial.workload import Unsupported


class Machine:
    """Multiplies n³ numbers at `rate(n)` a second. `now` is the sum of its times."""

    def __init__(self, rate: Callable[[int], float]) -> None:
        self.rate, self.now, self.sizes = rate, 0.0, []

    def prepare(self, n: int) -> Callable[[], float]:
        self.sizes.append(n)
        slowness = iter([3.0])  # the first call of a size takes three times as long

        def call() -> float:
            seconds = next(slowness, 1.0) * n**3 / self.rate(n)
            self.now += seconds
            return seconds

        return call

    def best(self, budget_s: float, sizes=(16, 32, 64, 128)):
        return best_rate(self.prepare, lambda n: float(n**3), sizes, budget_s)


def test_the_best_size_counts_and_a_cold_first_call_does_not() -> None:
    machine = Machine(lambda n: 1e6 * n if n <= 64 else 1e6)
    rate = machine.best(budget_s=100.0)
    assert rate.per_s == pytest.approx(64e6)
    assert (rate.size, machine.sizes) == (64, [16, 32, 64, 128])


def test_an_absurdly_slow_machine_is_left_after_one_call_that_counts() -> None:
    machine = Machine(lambda n: 1.0)
    rate = machine.best(budget_s=1.0)
    assert machine.sizes == [16]
    assert (rate.calls, rate.per_s) == (1, pytest.approx(1.0))


def test_a_size_whose_calls_would_not_fit_is_not_begun() -> None:
    machine = Machine(lambda n: 2.5e5)
    machine.best(budget_s=10.0)
    assert machine.sizes == [16, 32, 64]
    assert machine.now <= 10.0


class Gpu:
    """Products on a GPU whose first one starts the libraries, and whose first of each size loads a kernel."""

    def __init__(self, start_s: float, peak: float, steps: bool = False) -> None:
        self.start_s, self.peak, self.steps = start_s, peak, steps

    def rate(self, n: int) -> float:
        """FLOP/s: a GPU is not filled by small products, and the largest are a little slower.

        With `steps`, some sizes are no faster than smaller ones: their last wave of blocks is nearly empty.
        """
        filled = 0.5 if self.steps and n < 8192 else min(1.0, (n / 8192) ** 0.5)
        return self.peak * filled * (0.97 if n > 8192 else 1.0)

    def best(self, sizes: Sequence[int], budget_s: float) -> Rate:
        return best_rate(self.prepare, products, sizes, budget_s, peak_rates._STILL_RISING)

    def prepare(self, n: int) -> Callable[[], float]:
        loading = iter([0.02])

        def call() -> float:
            seconds = 2 * n**3 / self.rate(n) + next(loading, 0.0) + self.start_s
            self.start_s = 0.0
            return seconds

        return call


@pytest.mark.parametrize(("peak", "steps"), [(760e12, False), (760e12, True), (50e12, False), (1e12, False)])
@pytest.mark.parametrize("budget_s", [0.4, 0.8])
@pytest.mark.parametrize("start_s", [0.05, 0.5, 2.0])
def test_the_peak_of_a_gpu_does_not_pay_for_its_start(
    start_s: float, budget_s: float, peak: float, steps: bool
) -> None:
    rate = Gpu(start_s, peak, steps).best(peak_rates.GPU_SIZES, budget_s)
    assert rate.per_s == pytest.approx(peak, rel=0.03)
    assert rate.size == 8192


def test_a_peak_that_still_rises_at_the_largest_product_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("rnn.torch", 1, 1, 1, device="cuda")
    sizes = peak_rates.GPU_SIZES[:2]  # a GPU with little free memory
    rising = Gpu(0.5, 760e12).best(sizes, 0.4)
    assert (rising.size, rising.rises) == (4096, pytest.approx(2**0.5 - 1))
    assert Gpu(0.5, 760e12).best(peak_rates.GPU_SIZES, 0.4).rises < 0.0
    monkeypatch.setattr(peak_rates, "_memory", lambda *_: 2**40)
    monkeypatch.setattr(peak_rates, "best_rate", lambda *_: rising)
    with pytest.raises(Unsupported, match=r"products of n=4096 are 41 % faster than smaller ones, and n=8192 is not"):
        peak_rates.take_flops(case, 0.4, None)


@pytest.mark.parametrize("kernel_s", [20e-6, 1e-3, 0.2])
def test_a_sustained_rate_is_that_of_the_clock_rate_to_which_a_power_cap_leads(
    monkeypatch: pytest.MonkeyPatch, kernel_s: float
) -> None:
    gpu = SimGpu(clock=SimClock(2e9, 1.5e9, tau_s=0.1), event_s=1e-6, gap_s=0.0, launch_s=3e-6, jitter=0.1)
    call = gpu.layer(1, kernel_s=kernel_s)

    def event() -> SimEvent:
        made = SimEvent(gpu, enable_timing=True)
        made.record()
        return made

    monkeypatch.setattr(peak_rates, "_event", event)
    monkeypatch.setattr(peak_rates.torch.cuda, "synchronize", gpu.sync)
    assert peak_rates.sustained_call_s(call, kernel_s) == pytest.approx(kernel_s * 2e9 / 1.5e9, rel=0.03)
    assert gpu.now >= peak_rates.SUSTAINED_S


def test_a_gpus_arrays_are_so_large_that_a_copy_takes_a_millisecond() -> None:
    assert wanted_buffer_bytes(50 * 2**20, on_gpu=True) == 2**30
    assert wanted_buffer_bytes(100 * 2**20, on_gpu=True) == 16 * 100 * 2**20
    assert wanted_buffer_bytes(8 * 2**20, on_gpu=False) == 64 * 2**20


def cache(root: Path, cpu: int, index: int, level: int, size: str, shared: str, kind: str = "Unified") -> None:
    directory = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    directory.mkdir(parents=True)
    for name, text in {"level": str(level), "type": kind, "size": size, "shared_cpu_list": shared}.items():
        (directory / name).write_text(text + "\n")


def test_the_last_caches_of_all_sockets_count_each_once(tmp_path: Path) -> None:
    for cpu, shared in ((0, "0-1"), (1, "0-1"), (2, "2-3")):
        cache(tmp_path, cpu, 0, 1, "64K", str(cpu), "Instruction")
        cache(tmp_path, cpu, 2, 2, "512K", str(cpu))
        cache(tmp_path, cpu, 3, 3, "8192K", shared)
    assert last_cache_bytes(tmp_path) == 2 * 8 * 2**20


def test_caches_that_the_kernel_does_not_tell_are_unknown(tmp_path: Path) -> None:
    assert last_cache_bytes(tmp_path) is None


@pytest.fixture(scope="module")
def small(forked_servers: None) -> Executor:
    with Executor(seed=0, trial_s=0.02, timeout_s=60, memory_limit=2**30) as runner:
        yield runner


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_has_a_rate(small: Executor, dtype: str) -> None:
    outcome = small.run("flops", Case("rnn.torch", 1, 1, 1, dtype=dtype))
    assert outcome.status == "ok", outcome.reason
    assert outcome.values["flops_per_s"] > 0
    assert outcome.values["size"] >= 128


def test_bandwidth_is_the_better_of_copy_and_triad_and_says_how_large_its_arrays_were(small: Executor) -> None:
    outcome = small.run("bandwidth", Case("rnn.torch", 1, 1, 1))
    assert outcome.status == "ok", outcome.reason
    found = outcome.values
    assert found["bandwidth_bytes_per_s"] == max(found["copy_bytes_per_s"], found["triad_bytes_per_s"])
    assert found["buffer_bytes"] <= 2**30 // 8


def test_arrays_shrink_to_what_the_trial_may_use() -> None:
    with Executor(seed=0, trial_s=0.01, timeout_s=60, memory_limit=2**28) as runner:
        outcome = runner.run("bandwidth", Case("rnn.torch", 1, 1, 1))
    assert (outcome.status, outcome.values["buffer_bytes"]) == ("ok", 2**25)


def test_arrays_of_an_estimate_are_small(small: Executor) -> None:
    outcome = small.run("bandwidth", Case("rnn.torch", 1, 1, 1), {"most_bytes": 2**22})
    assert (outcome.status, outcome.values["buffer_bytes"]) == ("ok", 2**22)
