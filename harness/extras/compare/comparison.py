"""The judgement of `compare`: each pair's time from its blocks, and its memory and FLOPs from exact counts.

The results are outcomes of a gate, where a slower head, or one that takes more, is a regression.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness import formatting
from harness.extras.compare import paired_verdicts
from harness.extras.compare.paired_evidence import Rules, ratio_text
from harness.extras.compare.paired_verdicts import Control, MeasuredBlocks, PairedResult, Verdict
from harness.gate.check_rules import Outcome, judge_count
from harness.layer_options import NO_OPTIONS
from harness.results.columns import CaseResult
from harness.sweep_axes import AXES, Case

if TYPE_CHECKING:
    import pandas as pd

    from harness.extras.compare.explanation import Explanation


# Statuses that another trial would only repeat.
_NOT_FOR_IT = "unsupported"
_FOR_GOOD = (_NOT_FOR_IT, "oom", "incorrect", "error")

# The result of the A/A controls for the whole comparison.
HELD, FAILED, NONE = "held", "failed", "none"


@dataclass(frozen=True)
class Amount:
    """Peak memory in bytes, or FLOPs, of both sides. A side is None if its value is unknown."""

    verdict: Verdict
    was: int | None
    now: int | None

    @property
    def ratio(self) -> float | None:
        """Head over base; None if either is unknown or the base is 0."""
        return self.now / self.was if self.was and self.now is not None else None


@dataclass(frozen=True)
class ComparedCase:
    """One pair. `time` is None if a side could not be measured at all; `reason` then says why.

    `is_excused`: the head is not to blame for that, and another attempt would end the same way. `kernels` is a
    sentence if both sides are of one layer that ran different kernels.
    """

    base: Case
    head: Case
    time: PairedResult | None
    memory: Amount
    flops: Amount
    reason: str = ""
    is_excused: bool = False
    kernels: str = ""

    @property
    def label(self) -> str:
        """The pair in readable form."""
        return pair_label(self.head, self.base)

    @property
    def verdict(self) -> Verdict:
        """The verdict on time."""
        return self.time.verdict if self.time is not None else Verdict.UNMEASURED


@dataclass(frozen=True)
class Comparison:
    """All pairs and the A/A controls. `control` is `held`, `failed`, or `none` if nothing could be timed.

    `explanations` tell where each slower pair differs, or why one could not be traced.
    """

    compared: tuple[ComparedCase, ...]
    controls: tuple[tuple[Case, Control], ...]
    explanations: tuple["Explanation", ...] = ()

    @property
    def control(self) -> str:
        """Whether the base, measured against itself, shows no difference.

        The value is `failed` also if no control could be measured.
        """
        if not self.controls:
            return NONE
        return FAILED if paired_verdicts.invalidated([control for _, control in self.controls]) else HELD


def compare_sides(
    pairs: Sequence[tuple[Case, Case]],
    timed: Sequence[int],
    measured: MeasuredBlocks,
    base: Mapping[Case, CaseResult],
    head: Mapping[Case, CaseResult],
    rules: Rules,
) -> Comparison:
    """Judge every pair.

    `timed` are the numbers of the pairs in `measured`, in its order. `base` and `head` map each case to its line.
    """
    times = dict(zip(timed, paired_verdicts.verdicts_of(measured, rules), strict=True))
    found = []
    for number, (a, b) in enumerate(pairs):
        was, now = base.get(a), head.get(b)
        peaks, flops = (_amount(was, now, column) for column in ("peak_bytes", "flops"))
        if number not in times:
            found.append(ComparedCase(a, b, None, peaks, flops, _why_not(was, now), _is_excused(was, now)))
            continue
        backends = {"on the base": was and was.backend, "on the head": now and now.backend}
        kernels = formatting.kernels_sentence(a.impl, backends) if a.impl == b.impl else ""
        found.append(ComparedCase(a, b, times[number], peaks, flops, kernels=kernels))
    controls = tuple(
        (pairs[timed[control.case]][0], control) for control in paired_verdicts.controls_of(measured, rules)
    )
    return Comparison(tuple(found), controls)


def is_invalidated(one: ComparedCase, control: str) -> bool:
    """Whether the pair is undecided while a control failed: its time then has no verdict."""
    return control == FAILED and one.verdict is Verdict.UNDECIDED


def _amount(was: CaseResult | None, now: CaseResult | None, column: str) -> Amount:
    before, after = (getattr(line, column, None) for line in (was, now))
    found = judge_count(column, before, after) if before is not None else None
    return Amount(found[0] if found is not None else Verdict.UNMEASURED, before, after)


def _is_excused(was: CaseResult | None, now: CaseResult | None) -> bool:
    """Whether the head is not to blame for a missing time.

    Either both sides do not support the case. Or the head is measured, and the base fails in a way that another trial
    would repeat. Then the head has nothing to be compared with.
    """
    if was is None or now is None:
        return False
    return now.status == was.status == _NOT_FOR_IT or (was.status in _FOR_GOOD and now.status == "ok")


def _why_not(was: CaseResult | None, now: CaseResult | None) -> str:
    sides = (("base", was), ("head", now))
    failed = [
        f"{name}: {line.status}: {line.reason}" for name, line in sides if line is not None and line.status != "ok"
    ]
    return "; ".join(failed) or "no trial of it ended"


TIME = "time"


def outcomes_of(comparison: Comparison) -> list[Outcome]:
    """List an outcome of time for every pair, and of memory and FLOPs if the base's value is known.

    If only the head's value is unknown, the outcome of a timed pair is `unmeasured`.
    """
    return [outcome for one in comparison.compared for outcome in _outcomes(one, comparison.control)]


def pair_label(case: Case, base: Case | None = None) -> str:
    """A case in readable form, as `str` gives it, but with `steady` as the allocator that is not named.

    Options that another layer, the base, has alone are named as the base's.
    """
    if base is not None and base.impl != case.impl and base.options not in (case.options, NO_OPTIONS):
        return f"{pair_label(case)} (base: {base.options})"
    if case.allocator == "steady":
        return str(replace(case, allocator="default"))
    # The C library's allocator does not manage a GPU's memory, so it is not named there.
    return str(case) + (" allocator=default" if case.allocator == "default" and case.device == "cpu" else "")


def _outcomes(one: ComparedCase, control: str) -> Iterator[Outcome]:
    name = one.label
    yield _time_outcome(name, one, control)
    amounts = ("peak memory", one.memory, formatting.size), ("flops", one.flops, formatting.count)
    for quantity, amount, written in amounts:
        if amount.was is None:
            continue
        was = written(amount.was)
        if amount.now is not None:
            now, times = written(amount.now), f" (×{amount.ratio:.3g})" if amount.ratio is not None else ""
            reason = f"{quantity} {was} → {now}{times}" if amount.verdict is not Verdict.EQUIVALENT else ""
            yield Outcome(name, quantity, amount.verdict, was, now, reason)
        elif one.time is not None:
            yield Outcome(name, quantity, Verdict.UNMEASURED, was, "", "known of the base, and not of the head")


def _time_outcome(name: str, one: ComparedCase, control: str) -> Outcome:
    if one.time is None:
        # A pair that can never be measured is not the head's failure. But if nothing at all could be timed, nothing
        # passes.
        excused = one.is_excused and control != NONE
        return Outcome(name, TIME, Verdict.UNDECIDED if excused else Verdict.UNMEASURED, "", "", one.reason)
    verdict = Verdict.UNMEASURED if is_invalidated(one, control) else one.verdict
    reason = f"{one.verdict.time}: {one.time.reason}"
    if verdict is Verdict.UNDECIDED:
        reason = f"{reason}; {smallest_visible_difference(one.time)}"
    return Outcome(name, TIME, verdict, "", ratio_text(one.time.evidence), reason)


def smallest_visible_difference(time: PairedResult) -> str:
    """A phrase that names the smallest slow-down this measurement would have detected."""
    if math.isinf(time.smallest_detectable):
        return f"{time.blocks} blocks are too few to see anything"
    return f"a slow-down of {formatting.share(time.smallest_detectable)} would have been seen"


# The axes are the head's. `base` is the impl of the base side; it equals the head's when two commits of one layer are
# compared.
COLUMNS = (
    *AXES,
    *("verdict", "ratio", "ratio_lo", "ratio_hi", "blocks", "smallest_detectable", "control", "base", "reason"),
    *("memory_verdict", "memory_ratio", "flops_verdict", "flops_ratio"),
    *("base_side", "head_side", "base_versions", "head_versions", "base_options"),
)


# Columns about the sides, and the properties that fill them.
_SIDES = {"base_side": "base", "head_side": "head", "base_versions": "base versions", "head_versions": "head versions"}


def comparison_table(comparison: Comparison, properties: Mapping[str, str] | None = None) -> "pd.DataFrame":
    """The pairs as a tidy DataFrame, one row each: `comparison.csv`.

    Ratios are head over base; `smallest_detectable` is a fraction, 0.05 for 5 %. `properties` name the sides and their
    versions.
    """
    import pandas as pd

    about = {column: (properties or {}).get(name) for column, name in _SIDES.items()}
    rows = [_row(one, comparison.control) | about for one in comparison.compared]
    return pd.DataFrame(rows, columns=list(COLUMNS)).convert_dtypes()


def _row(one: ComparedCase, control: str) -> dict[str, Any]:
    time = one.time
    of_time: dict[str, Any] = {"blocks": 0, "reason": one.reason or None}
    if time is not None:
        ends = {"ratio": time.evidence.ratio, "ratio_lo": time.evidence.lo, "ratio_hi": time.evidence.hi}
        ends["smallest_detectable"] = time.smallest_detectable
        numbers = {name: float(f"{value:.6g}") for name, value in ends.items() if math.isfinite(value)}
        of_time = {**numbers, "blocks": time.blocks, "reason": time.reason or None}
    return {
        **one.head.as_dict(),
        **of_time,
        "verdict": one.verdict.time,
        "control": control,
        "base": one.base.impl,
        "base_options": one.base.options,
        "memory_verdict": one.memory.verdict.amount,
        "memory_ratio": one.memory.ratio,
        "flops_verdict": one.flops.verdict.amount,
        "flops_ratio": one.flops.ratio,
    }
