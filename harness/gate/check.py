"""`check`: compare a new measurement with a baseline. Both are tables; how they were made does not matter."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from harness.case import Case
from harness.gate.baseline import TIMED, Baseline, LawKept
from harness.gate.cases import METRIC_OF, judge_case
from harness.gate.keyed import Named, group
from harness.gate.laws import growth, judge_claims, judge_law
from harness.gate.outcome import IMPROVED, PASSED, REGRESSION, Outcome
from harness.gate.series import rises_no_more
from harness.stats.paired.verdicts import UNMEASURED

_Group = tuple[str, tuple[Any, ...]]


def judge(was: Baseline, now: Baseline, chosen: Collection[Case], timed: bool) -> list[Outcome]:
    """Return an outcome for everything that `was` holds about the `chosen` cases, then for cost models and claims.

    Cases come in sorted order. A cost model or claim covers all cases of an impl in one setting. It is judged only if
    all of them were measured again, and those about time only if `timed`.
    """
    note = _note(was, now)
    members, whole = was.members(), _whole(was, now, chosen)
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
            eased = partial(rises_no_more, was, now, members[of_it], name.what)
            found += judge_law(name, law, now.laws.get(name), (of_it, name.what) in grown, eased, note)
    claims = [name for name in was.claims if (name.impl, name.setting) in whole and (timed or name.what != TIMED)]
    return [*found, *judge_claims(was.claims, now.claims, claims, note)]


def is_of_time(outcome: Outcome) -> bool:
    """Whether the outcome depends on the clock: a claim or an exponent of time."""
    return outcome.quantity == f"claim of {TIMED}" or outcome.quantity.startswith(f"exponent of {TIMED} ")


def doubtful(was: Baseline, outcomes: Iterable[Outcome]) -> list[Case]:
    """The cases to time a second time.

    These are all cases of every impl and setting whose time seems to have got worse.
    """
    subjects = {outcome.subject for outcome in outcomes if outcome.verdict == REGRESSION and is_of_time(outcome)}
    return [case for case in was.cases if Named(*group(case), TIMED).subject in subjects]


def confirmed(first: Sequence[Outcome], second: Iterable[Outcome]) -> list[Outcome]:
    """Return the `first` outcomes, with each regression of time checked against the `second` measurement.

    A regression counts only if the second measurement shows it too. If that measurement is undecided or failed, the
    outcome becomes undecided or unmeasured, never passed.
    """
    again = {(one.subject, one.quantity): one.verdict for one in second}
    return [
        _twice(one, again.get((one.subject, one.quantity), UNMEASURED))
        if one.verdict == REGRESSION and is_of_time(one)
        else one
        for one in first
    ]


def _twice(one: Outcome, again: str) -> Outcome:
    if again == REGRESSION:
        return one
    if again in (PASSED, IMPROVED):
        return replace(one, verdict=PASSED, reason=f"not when measured a second time: {one.reason}")
    return replace(one, verdict=again, reason=f"worse at first, {again} when measured a second time: {one.reason}")


def remarks(was: Baseline, now: Baseline, chosen: Collection[Case], outcomes: Iterable[Outcome]) -> list[str]:
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
            name = Named(*of_it, "").subject
            said.append(
                f"{name}: {number - lacking[of_it]} of its {number} cases were chosen, so no law or claim is judged."
            )
    whole = _whole(was, now, chosen)
    for of_it in members:
        if not lacking[of_it] and of_it not in whole:
            name = Named(*of_it, "").subject
            said.append(f"{name}: not the same of its cases can be measured as before, so no law or claim is judged.")
    if any(outcome.verdict == IMPROVED for outcome in outcomes):
        said.append("Better than the baseline: write a new one, so that it stays so.")
    return said


def _whole(was: Baseline, now: Baseline, chosen: Collection[Case]) -> set[_Group]:
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
