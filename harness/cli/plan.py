"""`--dry-run`: what a sweep would measure, and about how long that would take."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from harness import catalog
from harness.case import Case
from harness.catalog import Traits
from harness.config import SweepConfig
from harness.stats.stopping import fewest
from harness.sweep.refusals import Refusal, refusals

# The time that a trial and a whole sweep take beside sampling, in seconds.
_TRIAL_COST_S = 0.05
_SWEEP_COST_S = 10.0
# The time to compile a case, once to verify it and once for its trials.
_COMPILE_S = 12.0


def show_plan(
    cases: Sequence[Case], traits: Mapping[str, Traits], config: SweepConfig, finished: Collection[Case] = ()
) -> None:
    """Print the cases, the reason for each refused one, and the expected time.

    `finished` are the cases that need no more trials.
    """
    refused = _refused(cases, traits, config.precision.timeout_s, finished)
    left = [case for case in cases if case not in refused and case not in finished]
    for case in cases:
        note = ": ".join(refused[case]) if case in refused else "finished" if case in finished else ""
        print(case.key + (f"   # {note}" if note else ""))
    p = config.precision
    once = _SWEEP_COST_S + _COMPILE_S * sum(catalog.is_compiled(case.impl) for case in left)
    rounds = (fewest(p), p.max_rounds)
    least, most = (once + len(left) * (r * (p.trial_s + _TRIAL_COST_S) + _TRIAL_COST_S) for r in rounds)
    to = f" to {_duration(most)}" if most > least else ""
    done = len(cases) - len(refused) - len(left)
    there = f", {done} finished, {len(left)} left to measure" if finished else ""
    ends = Counter(status for status, _ in refused.values())
    others = "".join(f", {number} {status}" for status, number in sorted(ends.items()) if status != "unsupported")
    print(
        f"{len(cases)} cases, {ends['unsupported']} of them unsupported{others}{there}; "
        f"about {_duration(least)}{to}, more where one call takes longer than {p.trial_s:g} s"
    )


def _refused(
    cases: Sequence[Case], traits: Mapping[str, Traits], timeout_s: float, finished: Collection[Case]
) -> dict[Case, Refusal]:
    """The status and reason of each refused case, judged by its numbers first and then by its layer."""
    by_numbers = {case: catalog.unsupported_reason(case, traits[case.impl].has_heads) for case in cases}
    refused = {case: ("unsupported", reason) for case, reason in by_numbers.items() if reason}
    return refused | refusals((case for case in cases if case not in refused and case not in finished), timeout_s)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
