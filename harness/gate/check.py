"""The judgement of `check`: a new measurement compared with a baseline. Both are tables, however they were made."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from harness import formatting
from harness.case import Case
from harness.gate.baseline import TIMED, Baseline, Facts, FindingId, LawKept, group, size_label, subject_of
from harness.gate.check_rules import (
    IMPROVED,
    PASSED,
    PEAK_TOLERANCE,
    REGRESSION,
    Finding,
    Outcome,
    growth,
    judge_claims,
    judge_count,
    judge_kernel,
    judge_law,
    no_longer_rises,
)
from harness.stats.paired_verdicts import UNMEASURED

KERNEL = "kernel"
# By column: the quantity's name, and the function that formats its numbers.
_COUNTS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "flops": ("flops", formatting.count),
    "flops_full": ("flops without a mask", formatting.count),
    "ops": ("operations", formatting.count),
    "depth": ("depth", formatting.count),
    "peak_bytes": ("peak memory", formatting.size),
}
# The metric in `laws.csv` that shows how a quantity grows.
METRIC_OF = {"flops": "flops", "flops without a mask": "flops", "depth": "depth", "peak memory": "memory"}
# A change to one of these statuses is reported, whatever the status was before.
_BAD = ("incorrect", "error", "killed")


def judge_case(case: Case, was: Facts, now: Facts | None, growth: Mapping[str, str], note: str) -> Iterator[Outcome]:
    """Yield an outcome for everything the baseline knows about the case: its counts, its peak memory and its kernel.

    `now` is None if the case was not measured. `growth` maps a metric to the change of its exponents, if any. `note` is
    added to the reason of every difference.
    """
    name = subject_of(case)
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
            change = f"{quantity} {_two(before, after, written)}{_times_text(before, after)} at {size_label(case)}"
            grows = growth.get(METRIC_OF.get(quantity, ""), "") if found[0] != PASSED else ""
            reason = f"{change}{grows}{note}"
        yield Outcome(name, quantity, found[0], texts[0], texts[1], reason)


def _kernel(case: Case, found: Finding, was: str, now: str, note: str) -> Outcome:
    reason = f"{found[1]}, at {size_label(case)}{note}" if found[1] else ""
    return Outcome(subject_of(case), KERNEL, found[0], was, now, reason)


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


def _times_text(was: int, now: int) -> str:
    """The factor as `(×4.0)`. Empty if `was` is 0 or the change is below 0.5 %."""
    if was == 0:
        return ""
    factor = now / was
    return f" (×{factor:.1f})" if factor >= 1.95 else f" (×{factor:.3g})" if abs(factor - 1) >= 0.005 else ""


_Group = tuple[str, tuple[Any, ...]]


def judge_baseline(was: Baseline, now: Baseline, chosen: Collection[Case], timed: bool) -> list[Outcome]:
    """Return an outcome for everything that `was` holds about the `chosen` cases, then for cost models and claims.

    Cases come in sorted order. A cost model or claim covers all cases of an impl in one setting. It is judged only if
    all of them were measured again, and those about time only if `timed`.
    """
    note = _note(was, now)
    members, whole = was.members(), _complete(was, now, chosen)
    found: list[Outcome] = []
    grown: set[tuple[_Group, str]] = set()
    for case in sorted(chosen):
        said = growth(_laws(was, group(case)), _laws(now, group(case))) if group(case) in whole else {}
        for outcome in judge_case(case, was.cases[case], now.cases.get(case), said, note):
            found.append(outcome)
            if outcome.verdict == REGRESSION and outcome.quantity in METRIC_OF:
                grown.add((group(case), METRIC_OF[outcome.quantity]))
    for name, law in was.laws.items():
        of_it = (name.impl, name.setting)
        if of_it in whole and (timed or name.what != TIMED):
            eased = partial(no_longer_rises, was, now, members[of_it], name.what)
            found += judge_law(name, law, now.laws.get(name), (of_it, name.what) in grown, eased, note)
    claims = [name for name in was.claims if (name.impl, name.setting) in whole and (timed or name.what != TIMED)]
    return [*found, *judge_claims(was.claims, now.claims, claims, note)]


def is_of_time(outcome: Outcome) -> bool:
    """Whether the outcome depends on the clock: a claim or an exponent of time."""
    return outcome.quantity == f"claim of {TIMED}" or outcome.quantity.startswith(f"exponent of {TIMED} ")


def doubtful_cases(was: Baseline, outcomes: Iterable[Outcome]) -> list[Case]:
    """The cases to time a second time.

    These are all cases of every impl and setting whose time seems to have got worse.
    """
    subjects = {outcome.subject for outcome in outcomes if outcome.verdict == REGRESSION and is_of_time(outcome)}
    return [case for case in was.cases if FindingId(*group(case), TIMED).subject in subjects]


def with_confirmation(first: Sequence[Outcome], second: Iterable[Outcome]) -> list[Outcome]:
    """Return the `first` outcomes, with each regression of time checked against the `second` measurement.

    A regression counts only if the second measurement shows it too. If that measurement is undecided or failed, the
    outcome becomes undecided or unmeasured, never passed.
    """
    again = {(one.subject, one.quantity): one.verdict for one in second}
    return [
        _judged_twice(one, again.get((one.subject, one.quantity), UNMEASURED))
        if one.verdict == REGRESSION and is_of_time(one)
        else one
        for one in first
    ]


def _judged_twice(one: Outcome, again: str) -> Outcome:
    if again == REGRESSION:
        return one
    if again in (PASSED, IMPROVED):
        return replace(one, verdict=PASSED, reason=f"not when measured a second time: {one.reason}")
    return replace(one, verdict=again, reason=f"worse at first, {again} when measured a second time: {one.reason}")


def check_remarks(was: Baseline, now: Baseline, chosen: Collection[Case], outcomes: Iterable[Outcome]) -> list[str]:
    """Sentences to print beside the outcomes.

    They name another torch version, other CPU instructions, and groups whose cost models and claims cannot be judged.
    They also suggest a new baseline if anything improved.
    """
    said = []
    if was.torch != now.torch:
        said.append(
            f"The baseline was measured with torch {was.torch}, this with {now.torch}: what differs may be torch's."
        )
    before, after = (of.machine.get("instructions") for of in (was, now))
    if before and after and before != after:
        said.append(f"The baseline's CPU had {before}, this one has {after}: kernels may choose other workspaces.")
    members = was.members()
    lacking = {of_it: sum(case not in chosen for case in cases) for of_it, cases in members.items()}
    for of_it in {group(case): None for case in sorted(chosen)}:
        if lacking[of_it]:
            number = len(members[of_it])
            name = FindingId(*of_it, "").subject
            said.append(
                f"{name}: {number - lacking[of_it]} of its {number} cases were chosen, so no law or claim is judged."
            )
    whole = _complete(was, now, chosen)
    for of_it in members:
        if not lacking[of_it] and of_it not in whole:
            name = FindingId(*of_it, "").subject
            said.append(f"{name}: not the same of its cases can be measured as before, so no law or claim is judged.")
    if any(outcome.verdict == IMPROVED for outcome in outcomes):
        said.append("Better than the baseline: write a new one, so that it stays so.")
    return said


def _complete(was: Baseline, now: Baseline, chosen: Collection[Case]) -> set[_Group]:
    """The groups (impl and setting) whose cost models and claims cover the same cases in both baselines.

    All cases of the group were chosen, and the same ones have status `ok`. A case that could be measured only before,
    or only now, would give another cost model.
    """
    return {
        of_it
        for of_it, cases in was.members().items()
        if all(case in chosen and _is_ok(was, case) == _is_ok(now, case) for case in cases)
    }


def _is_ok(of: Baseline, case: Case) -> bool:
    return case in of.cases and of.cases[case].status == "ok"


def _laws(of: Baseline, of_it: _Group) -> dict[str, LawKept]:
    return {name.what: law for name, law in of.laws.items() if (name.impl, name.setting) == of_it}


def _note(was: Baseline, now: Baseline) -> str:
    return f" (torch {was.torch} before, {now.torch} now)" if was.torch != now.torch else ""
