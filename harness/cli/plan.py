"""What a sweep would measure, and about how long that would take: `--dry-run`."""

from collections.abc import Collection, Mapping, Sequence

from harness import catalog
from harness.case import Case
from harness.catalog import Traits
from harness.config import SweepConfig
from harness.stats.stopping import fewest

# What a trial and a whole sweep cost beside sampling, in seconds …
_TRIAL_COST_S = 0.05
_SWEEP_COST_S = 10.0
# … and to compile a case, once to verify it and once for its trials.
_COMPILE_S = 12.0


def show_plan(
    cases: Sequence[Case], traits: Mapping[str, Traits], config: SweepConfig, finished: Collection[Case] = ()
) -> None:
    """Print the cases, those that cannot be with the reason, and the expected time.

    `finished` are those that need no more trials.
    """
    unsupported = left = compiled = 0
    for case in cases:
        reason = catalog.unsupported_reason(case, traits[case.impl].has_heads)
        unsupported += reason is not None
        if reason is None and case not in finished:
            left += 1
            compiled += catalog.is_compiled(case.impl)
        note = f"unsupported: {reason}" if reason else "finished" if case in finished else ""
        print(case.key + (f"   # {note}" if note else ""))
    p = config.precision
    once = _SWEEP_COST_S + _COMPILE_S * compiled
    rounds = (fewest(p), p.max_rounds)
    least, most = (once + left * (r * (p.trial_s + _TRIAL_COST_S) + _TRIAL_COST_S) for r in rounds)
    to = f" to {_duration(most)}" if most > least else ""
    there = f", {len(cases) - unsupported - left} finished, {left} left to measure" if finished else ""
    print(
        f"{len(cases)} cases, {unsupported} of them unsupported{there}; "
        f"about {_duration(least)}{to}, more where one call takes longer than {p.trial_s:g} s"
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
