"""The result of each pair of a comparison: time from its blocks, memory and FLOPs from exact counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.case import Case
from harness.gate.judged import PEAK_TOLERANCE, judge_count
from harness.gate.outcome import IMPROVED, PASSED, REGRESSION
from harness.stats.paired.procedure import Measured
from harness.stats.paired.rules import Rules
from harness.stats.paired.verdicts import UNDECIDED, UNMEASURED, Control, Verdict, controls_of, disarmed, verdicts_of
from harness.summary import Line

MORE, LESS, ALIKE, UNKNOWN = "more", "less", "equivalent", "unknown"
_SIGNS = {REGRESSION: MORE, IMPROVED: LESS, PASSED: ALIKE, UNMEASURED: UNKNOWN}

# Statuses that another trial would only repeat.
_NOT_FOR_IT = "unsupported"
_FOR_GOOD = (_NOT_FOR_IT, "oom", "wrong", "error")

# The result of the A/A controls for the whole comparison.
HELD, FAILED, NONE = "held", "failed", "none"


@dataclass(frozen=True)
class Amount:
    """Peak memory in bytes, or FLOPs, of both sides. A side is None if its value is unknown.

    `verdict` is `more`, `less`, `equivalent` or `unknown`.
    """

    verdict: str
    was: int | None
    now: int | None

    @property
    def ratio(self) -> float | None:
        """Head over base; None if either is unknown or the base is 0."""
        return self.now / self.was if self.was and self.now is not None else None


@dataclass(frozen=True)
class Compared:
    """One pair. `time` is None if a side could not be measured at all; `reason` then says why.

    `is_excused`: the head is not to blame for that, and another attempt would end the same way.
    """

    base: Case
    head: Case
    time: Verdict | None
    memory: Amount
    flops: Amount
    reason: str = ""
    is_excused: bool = False

    @property
    def verdict(self) -> str:
        """The verdict on time: slower, faster, equivalent, undecided or unmeasured."""
        return self.time.verdict if self.time is not None else UNMEASURED


@dataclass(frozen=True)
class Comparison:
    """All pairs and the A/A controls. `control` is `held`, `failed`, or `none` if nothing could be timed."""

    compared: tuple[Compared, ...]
    controls: tuple[tuple[Case, Control], ...]
    rules: Rules

    @property
    def control(self) -> str:
        """Whether the base, measured against itself, shows no difference.

        The value is `failed` also if no control could be measured.
        """
        if not self.controls:
            return NONE
        return FAILED if disarmed([control for _, control in self.controls]) else HELD


def compared_of(
    pairs: Sequence[tuple[Case, Case]],
    timed: Sequence[int],
    measured: Measured,
    base: Mapping[Case, Line],
    head: Mapping[Case, Line],
    rules: Rules,
) -> Comparison:
    """Judge every pair.

    `timed` are the numbers of the pairs in `measured`, in its order. `base` and `head` map each case to its line.
    """
    times = dict(zip(timed, verdicts_of(measured, rules), strict=True))
    found = []
    for number, (a, b) in enumerate(pairs):
        was, now = base.get(a), head.get(b)
        peaks, flops = (_amount(was, now, column) for column in ("peak_bytes", "flops"))
        if number in times:
            found.append(Compared(a, b, times[number], peaks, flops))
        else:
            found.append(Compared(a, b, None, peaks, flops, _why_not(was, now), _excused(was, now)))
    controls = tuple((pairs[timed[control.case]][0], control) for control in controls_of(measured, rules))
    return Comparison(tuple(found), controls, rules)


def is_disarmed(one: Compared, control: str) -> bool:
    """Whether the pair is undecided while a control failed: its time then has no verdict."""
    return control == FAILED and one.verdict == UNDECIDED


def _amount(was: Line | None, now: Line | None, column: str) -> Amount:
    before, after = (getattr(line, column) if line is not None else None for line in (was, now))
    found = judge_count(before, after, PEAK_TOLERANCE if column == "peak_bytes" else 0.0)
    return Amount(_SIGNS[found[0]] if found is not None and before is not None else UNKNOWN, before, after)


def _excused(was: Line | None, now: Line | None) -> bool:
    """Whether the head is not to blame for a missing time.

    Either both sides do not support the case. Or the head is measured, and the base fails in a way that another trial
    would repeat. Then the head has nothing to be compared with.
    """
    if was is None or now is None:
        return False
    return now.status == was.status == _NOT_FOR_IT or (was.status in _FOR_GOOD and now.status == "ok")


def _why_not(was: Line | None, now: Line | None) -> str:
    sides = (("base", was), ("head", now))
    failed = [
        f"{name}: {line.status}: {line.reason}" for name, line in sides if line is not None and line.status != "ok"
    ]
    return "; ".join(failed) or "no trial of it ended"
