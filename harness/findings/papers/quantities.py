"""The quantities of published figures, and how each follows from the measurements of one case."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from harness.findings.series import point_of
from harness.summary import Line

# A value and the ends of its 95 % interval. For an exact quantity all three are equal.
Known = tuple[float, float, float]

# FLOPs of attention without projections, in units of its forward pass. They are counted as in Dao 2023,
# "FlashAttention-2", section 4.1. The forward pass does 4n²d for each sequence. A causal mask halves this, whether the
# kernel skips the other half or not. The backward pass does 2.5 times as much, because it computes the scores again.
_PASSES = {"forward": 1.0, "backward": 2.5, "train": 3.5}


@dataclass(frozen=True)
class Quantity:
    """A quantity with its title and unit. `of` returns it for a line, in `unit`; None if it was not measured."""

    title: str
    unit: str
    of: Callable[[Line], Known | None]


def _time(line: Line) -> Known | None:
    point = point_of(line, "time")
    return None if point is None else (point.value, point.lo, point.hi)


def _memory(line: Line) -> Known | None:
    """The bytes alive at the peak, including weights and inputs, as in `torch.cuda.max_memory_allocated`."""
    parts = (line.peak_bytes, line.weights_bytes, line.inputs_bytes)
    return None if any(part is None for part in parts) else _exact(sum(part or 0 for part in parts))


def _attention_work(line: Line) -> float:
    of_all = 4.0 * line.batch_size * line.seq_len**2 * line.d_model * _PASSES[line.mode]
    return of_all / 2 if line.mask == "causal" else of_all


def _tflops(line: Line) -> Known | None:
    return _per(lambda one: _attention_work(one) / 1e12)(line) if line.mode in _PASSES else None


def _per(amount: Callable[[Line], float]) -> Callable[[Line], Known | None]:
    """A function that returns the amount per second of a line, with its interval."""

    def of(line: Line) -> Known | None:
        time = _time(line)
        if time is None:
            return None
        value, lo, hi = time
        done = amount(line)
        return done / value, done / hi, done / lo if lo > 0 else math.inf

    return of


def _in(part: Callable[[Line], Known | None], unit: float) -> Callable[[Line], Known | None]:
    def of(line: Line) -> Known | None:
        known = part(line)
        return None if known is None else (known[0] / unit, known[1] / unit, known[2] / unit)

    return of


def _count(column: str) -> Callable[[Line], Known | None]:
    def of(line: Line) -> Known | None:
        value = getattr(line, column)
        return None if value is None else _exact(value)

    return of


def _exact(value: float) -> Known:
    return float(value), float(value), float(value)


QUANTITIES = {
    "time_ms": Quantity("time of a call", "ms", _in(_time, 1e-3)),
    "memory_MiB": Quantity("peak memory, weights and inputs included", "MiB", _in(_memory, 2**20)),
    "memory_GB": Quantity("peak memory, weights and inputs included", "GB", _in(_memory, 1e9)),
    "attention_tflops": Quantity("4n²d a pass over the time", "TFLOP/s", _tflops),
    "calls_per_s": Quantity("calls a second", "1/s", _per(lambda line: 1.0)),
    "work": Quantity("work", "FLOPs", _count("flops")),
    "depth": Quantity("sequential operations", "", _count("depth")),
}
