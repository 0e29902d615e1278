"""The machine's peak rates for the roofline: FLOP/s of a large matrix product, and bytes per second to and from memory.

They are what torch's own kernels reach on this machine now, not what the data sheet says. The fastest sample counts. On
a GPU that is a burst: under load, power and heat lower its clock rate. So its sustained rates are measured besides.
"""

import math
import sys
from collections.abc import Callable, Iterable
from mmap import mmap
from pathlib import Path
from time import perf_counter  # bound before a layer may replace it
from typing import Any, NamedTuple

import torch

from harness.core.model.sweep_axes import Case

from .device import WAITS
from .device_kinds import GPU_KINDS
from .sandbox import Answer
from .workload import Call, Unsupported, exact_float32

SIZES = tuple(2**k for k in range(7, 15))  # 128 … 16384: from 0.01 ms of work to a second on a GPU
# Smaller products do not fill a GPU.
GPU_SIZES = (2048, 4096, 8192, 16384, 32768)
# On a GPU, a larger size that is faster by more than this share means that the peak is not reached yet.
_STILL_RISING = 0.03
# Each size gets this share of the budget. The next size starts only if this many of its calls still fit.
_SIZE_SHARE = 0.1
_LEAST_CALLS = 3
# Twice the side is eight times the work.
_GROWTH = 8
# STREAM (McCalpin 1995): every array at least four times the last cache.
CACHE_FACTOR = 4
_LEAST_BUFFER = 64 * 2**20
# On a GPU, launch and ramp of a kernel take some microseconds, so it must run for about a millisecond.
GPU_CACHE_FACTOR = 16
GPU_LEAST_BUFFER = 2**30
_UNKNOWN_CACHE = 64 * 2**20
# Three operands, plus room for what the kernels pack: each operand may take at most 1/8 of the allowed memory.
_OPERAND_SHARE = 8
# About 0.1 ms on any GPU, several times the duration of a launch.
_SPIN_CYCLES = 200_000
# A sustained rate is that of calls back to back for this many seconds, after others in which the clock rate falls.
SUSTAINED_S, _FALLING_S = 0.5, 0.25
# As many calls are timed at once as take this long. The host is one such part ahead.
_PART_S = 5e-3
# A call that returns the seconds it took.
_TimedCall = Callable[[], float]


class Rate(NamedTuple):
    """Best work per second, the size at which it was reached, and the total number of timed calls.

    `rises` is by how much the last size was faster than the best one before, as a share.
    """

    per_s: float
    size: int
    calls: int
    rises: float = 0.0


def best_rate(
    prepare: Callable[[int], _TimedCall],
    work: Callable[[int], float],
    sizes: Iterable[int],
    budget_s: float,
    rising: float = math.inf,
) -> Rate:
    """Return the best rate over growing sizes, in calls of about `budget_s` seconds in all, however slow a call is.

    `prepare(size)` returns a call that returns the seconds it took. `work(size)` is the work of one call. The budget
    does not pay for the first call of a size, and not for what is between calls. If a size is faster than the ones
    before by more than the share `rising`, the next one follows even beyond the budget.
    """
    rates, spent_s = [Rate(0.0, 0, 0)], 0.0
    for size in sizes:
        seconds = _warm_calls_s(prepare(size), 1, min(_SIZE_SHARE * budget_s, budget_s - spent_s))
        spent_s += sum(seconds)
        before = max(rates).per_s
        rates.append(Rate(work(size) / min(seconds), size, len(seconds)))
        still_rising = rates[-1].per_s > (1 + rising) * before
        if spent_s + _LEAST_CALLS * _GROWTH * min(seconds) > budget_s and not still_rising:
            break
    rises = rates[-1].per_s / before - 1 if before else 0.0
    return max(rates)._replace(calls=sum(rate.calls for rate in rates), rises=rises)


def _warm_calls_s(call: _TimedCall, least: int, budget_s: float) -> list[float]:
    """The seconds of each of at least `least` calls, which take about `budget_s` in all.

    A call before them wakes threads, loads libraries and kernels, and makes workspaces. On a GPU it takes longer than
    some budgets, which would leave no time for sizes that fill the GPU. So it does not count.
    """
    call()
    seconds = list[float]()
    spent_s = 0.0
    while len(seconds) < least or spent_s < budget_s:
        seconds.append(call())
        spent_s += seconds[-1]
    return seconds


def products(n: int) -> float:
    """FLOPs of a product of two square matrices."""
    return 2.0 * n**3


def sustained_call_s(call: Call, once_s: float) -> float:
    """Return the seconds per call of calls back to back on a CUDA device, by its own events, at a steady clock rate.

    `once_s` is about how long a call takes.
    """
    calls = max(1, round(_PART_S / once_s))
    begin, passed_s = _event(), 0.0
    ends = [begin]
    while passed_s < _FALLING_S + SUSTAINED_S:
        for _ in range(calls):
            call()
        ends.append(_event())
        ends[-2].synchronize()
        passed_s = begin.elapsed_time(ends[-2]) / 1000
    torch.cuda.synchronize()
    steady = [end for end in ends if begin.elapsed_time(end) >= 1000 * _FALLING_S]
    return steady[0].elapsed_time(steady[-1]) / 1000 / calls / (len(steady) - 1)


def _event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


@torch.no_grad()
def take_flops(case: Case, budget_s: float, memory_limit: int | None, with_sustained: bool = False) -> Answer:
    """Return `flops_per_s` of square matrix products in the case's dtype: 2n³ FLOPs per product, at the fastest n.

    float32 is used as for layers: on a GPU, without TF32. `with_sustained` adds `sustained_flops_per_s` on a CUDA
    device, at the same n. Raises Unsupported if the largest product that fits into a GPU's memory is still much faster
    than the smaller ones: the peak is then unknown.
    """
    exact_float32()
    dtype = getattr(torch, case.dtype)
    most = _memory(case, memory_limit) // _OPERAND_SHARE
    on_gpu = case.device != "cpu"
    known = GPU_SIZES if on_gpu else SIZES
    sizes = [n for n in known if n == known[0] or n * n * dtype.itemsize <= most]

    def product(n: int) -> Call:
        # Outer products are random enough; drawing n² random numbers would take longer than the product.
        a, b = (torch.outer(*torch.randn(2, n, device=case.device)).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        return lambda: torch.matmul(a, b, out=out)

    rising = _STILL_RISING if on_gpu else math.inf
    rate = best_rate(lambda n: _timer(product(n), case.device), products, sizes, budget_s, rising)
    if rate.rises > rising:
        raise Unsupported(
            f"the peak is not reached: products of n={rate.size} are {100 * rate.rises:.0f} % faster than smaller "
            f"ones, and n={2 * rate.size} is not measured: free the GPU's memory, and calibrate again"
        )
    found = {"flops_per_s": rate.per_s, "size": rate.size, "calls": rate.calls}
    if with_sustained and case.device == "cuda":
        work = products(rate.size)
        found["sustained_flops_per_s"] = work / sustained_call_s(product(rate.size), work / rate.per_s)
    return found


def take_bandwidth(
    case: Case, budget_s: float, memory_limit: int | None, most_bytes: int | None = None, with_sustained: bool = False
) -> Answer:
    """Return the bytes read and written per second by a copy (a = b) and a triad (a = b + 2c) of float32 arrays.

    They are counted as in STREAM: the arrays that the operation names (2 and 3), not the lines that the cache may read
    before overwriting them (write-allocate). `bandwidth_bytes_per_s` is the better of the two. Arrays are four times
    `cache_bytes` and at least 64 MiB, or smaller if memory is short. On a GPU they are 16 times `cache_bytes` and at
    least 1 GiB, and `sum_bytes_per_s` is added, which only reads. It counts for the best, too. `most_bytes` limits each
    array, for an estimate in a fraction of the time: a virtual machine names the cache of its whole host.
    `with_sustained` adds `sustained_bytes_per_s` of the fastest operation on a CUDA device.
    """
    on_gpu = case.device != "cpu"
    cache = GPU_KINDS[case.device].cache_size() if on_gpu else last_cache_bytes()
    wanted = min(wanted_buffer_bytes(cache, on_gpu), most_bytes or sys.maxsize)
    length = min(wanted, _memory(case, memory_limit) // _OPERAND_SHARE) // 4
    # All threads write the arrays, so that they get real pages: untouched memory is read from one page of zeros.
    a, b, c = (torch.full((length,), value, device=case.device) for value in (0.0, 1.0, 2.0))
    kernels = {"copy": (2, lambda: a.copy_(b)), "triad": (3, lambda: torch.add(b, c, alpha=2.0, out=a))}
    if on_gpu:
        total = torch.empty((), device=case.device)
        kernels["sum"] = (1, lambda: torch.sum(b, dim=0, out=total))
    works = {name: float(arrays * 4 * length) for name, (arrays, _) in kernels.items()}
    with torch.no_grad():
        rates = {}
        for name, (_, call) in kernels.items():
            seconds = _warm_calls_s(_timer(call, case.device), _LEAST_CALLS, budget_s / len(kernels))
            rates[name] = works[name] / min(seconds)
        best, sustained = max(rates, key=rates.__getitem__), {}
        if with_sustained and case.device == "cuda":
            call_s = sustained_call_s(kernels[best][1], works[best] / rates[best])
            sustained = {"sustained_bytes_per_s": works[best] / call_s}
    return {
        "bandwidth_bytes_per_s": rates[best],
        **{f"{name}_bytes_per_s": rate for name, rate in rates.items()},
        **sustained,
        "buffer_bytes": 4 * length,
        "cache_bytes": cache,
    }


def wanted_buffer_bytes(cache: int | None, on_gpu: bool) -> int:
    """The size of the arrays of a bandwidth measurement beside a cache of this size."""
    factor, least = (GPU_CACHE_FACTOR, GPU_LEAST_BUFFER) if on_gpu else (CACHE_FACTOR, _LEAST_BUFFER)
    return max(factor * (cache or _UNKNOWN_CACHE), least)


# The new memory that `page_fault_s` touches, and what it counts as a page.
_TOUCHED_BYTES = 8 * 2**20
_PAGE_BYTES = 4096


def page_fault_s() -> float:
    """Return the seconds that 4 KiB of new memory cost more than memory in use, with the present threads.

    It takes 2 to 5 ms. The page is filled with zeros by the operating system's kernel, which is part of the cost.
    """
    new = torch.frombuffer(mmap(-1, _TOUCHED_BYTES), dtype=torch.float32)
    seconds = []
    for _ in range(3):
        start = perf_counter()
        new.fill_(1.0)
        seconds.append(perf_counter() - start)
    return max(0.0, seconds[0] - min(seconds[1:])) * _PAGE_BYTES / _TOUCHED_BYTES


def last_cache_bytes(root: Path = Path("/")) -> int | None:
    """Return the total size of the machine's last-level caches in bytes, or None if the kernel does not report it."""
    caches = {}
    for index in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cache/index[0-9]*"):
        files = (index / name for name in ("level", "type", "size", "shared_cpu_list"))
        texts = {file.name: file.read_text().strip() if file.is_file() else "" for file in files}
        if all(texts.values()) and texts["type"] != "Instruction" and texts["size"].endswith("K"):
            caches[int(texts["level"]), texts["shared_cpu_list"]] = int(texts["size"][:-1]) * 1024
    last = max((level for level, _ in caches), default=None)
    return sum(size for (level, _), size in caches.items() if level == last) or None


def _memory(case: Case, memory_limit: int | None) -> int:
    """Return the bytes that the trial may use."""
    if case.device != "cpu":
        return GPU_KINDS[case.device].free_memory()
    return memory_limit if memory_limit is not None else 2**30


def _timer(call: Call, device: str) -> _TimedCall:
    """Return a call that returns the seconds it took.

    On a CUDA device, its own events measure them, so that no launch is counted. Other devices cannot be held, and are
    timed with a wait before and after.
    """

    def on_gpu() -> float:
        # The host enqueues both events while the GPU spins. On an idle GPU, the launch would fall between them.
        torch.cuda._sleep(_SPIN_CYCLES)
        start = _event()
        call()
        end = _event()
        end.synchronize()
        return start.elapsed_time(end) / 1000

    def with_a_wait() -> float:
        wait()
        start = perf_counter()
        call()
        wait()
        return perf_counter() - start

    wait = WAITS[device]
    return on_gpu if device == "cuda" else with_a_wait
