"""Outcomes of each case: its counts, its peak memory, and the kernel that ran."""

from collections.abc import Callable, Iterator, Mapping

from harness.case import Case
from harness.gate.baseline import Facts
from harness.gate.judged import PEAK_TOLERANCE, Found, judge_count, judge_kernel
from harness.gate.keyed import subject, where
from harness.gate.outcome import IMPROVED, PASSED, Outcome
from harness.report import units
from harness.stats.paired.verdicts import UNMEASURED

KERNEL = "kernel"
# By column: the quantity's name, and the function that formats its numbers.
_COUNTS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "flops": ("flops", units.count),
    "flops_full": ("flops without a mask", units.count),
    "ops": ("operations", units.count),
    "depth": ("depth", units.count),
    "peak_bytes": ("peak memory", units.size),
}
# The metric in `laws.csv` that shows how a quantity grows.
METRIC_OF = {"flops": "flops", "flops without a mask": "flops", "depth": "depth", "peak memory": "memory"}
# A change to one of these statuses is reported, whatever the status was before.
_BAD = ("wrong", "error", "killed")


def judge_case(case: Case, was: Facts, now: Facts | None, growth: Mapping[str, str], note: str) -> Iterator[Outcome]:
    """Yield an outcome for everything the baseline knows about the case. `now` is None if it was not measured.

    `growth` maps a metric to the change of its exponents, if any. `note` is added to the reason of every difference.
    """
    name = subject(case)
    if now is None or now.status != "ok" or was.status != "ok":
        yield _status(name, was, now, note)
        return
    # The kernel comes first, because other differences often follow from it.
    kernel = judge_kernel(was.backend, now.backend)
    if kernel is not None:
        yield _kernel(case, kernel, was.backend or "", now.backend or "", note)
    for column, (quantity, written) in _COUNTS.items():
        before, after = getattr(was, column), getattr(now, column)
        if column == "flops_full" and (before, after) == (was.flops, now.flops):
            continue  # without a mask both columns are equal
        found = judge_count(before, after, PEAK_TOLERANCE if column == "peak_bytes" else 0.0)
        if found is None:
            continue
        texts = ["" if value is None else written(value) for value in (before, after)]
        reason = found[1]
        if before is not None and after is not None and before != after:
            change = f"{quantity} {_two(before, after, written)}{_times(before, after)} at {where(case)}"
            grows = growth.get(METRIC_OF.get(quantity, ""), "") if found[0] != PASSED else ""
            reason = f"{change}{grows}{note}"
        yield Outcome(name, quantity, found[0], texts[0], texts[1], reason)


def _kernel(case: Case, found: Found, was: str, now: str, note: str) -> Outcome:
    reason = f"{found[1]}, at {where(case)}{note}" if found[1] else ""
    return Outcome(subject(case), KERNEL, found[0], was, now, reason)


def _status(name: str, was: Facts, now: Facts | None, note: str) -> Outcome:
    status, why = (now.status, now.reason or "") if now is not None else ("not measured", "no trial of it ended")
    said = f"{status}: {why}" if why else status
    if status == "ok":
        return Outcome(
            name, "status", IMPROVED, was.status, status, f"{was.status} before, now it can be measured{note}"
        )
    if was.status == "ok" or status == "not measured" or (status in _BAD and status != was.status):
        return Outcome(name, "status", UNMEASURED, was.status, status, f"{said}{note}")
    return Outcome(
        name,
        "status",
        PASSED,
        was.status,
        status,
        f"as before, {said}" if status == was.status else f"{was.status} before, {said}",
    )


def _two(was: int, now: int, written: Callable[[float], str]) -> str:
    """Both numbers, written in full if rounding would make them equal."""
    texts = written(was), written(now)
    return " → ".join(texts if texts[0] != texts[1] else (f"{was:,}", f"{now:,}"))


def _times(was: int, now: int) -> str:
    """The factor as `(×4.0)`. Empty if `was` is 0 or the change is below 0.5 %."""
    if was == 0:
        return ""
    factor = now / was
    return f" (×{factor:.1f})" if factor >= 1.95 else f" (×{factor:.3g})" if abs(factor - 1) >= 0.005 else ""
