"""What unlike conditions add to the error of a comparison of two times.

The probe is timed beside every trial. If it took longer beside one layer than beside another, the machine was slower,
and so was the layer: by less or by more than the probe, which is another piece of work.
"""

import math
from collections.abc import Iterable, Sequence

from harness import formatting
from harness.results.columns import CaseResult

# The median probe time of a case on a quiet machine varies by about 3 %. The log of a larger ratio is a slowdown.
_PROBE_NOISE = 0.05


def unlikeness(line: CaseResult, other: CaseResult) -> float:
    """The standard error that unlike conditions add to the log of a ratio of times.

    It is infinite if no host timed both, and 0 if the conditions are alike or unknown.
    """
    if line.host and other.host and set(line.host.split(",")).isdisjoint(other.host.split(",")):
        return math.inf
    same_probe = (line.device, line.threads, line.env) == (other.device, other.threads, other.env)
    if not (same_probe and line.probe_s and other.probe_s):
        return 0.0
    return max(0.0, abs(math.log(line.probe_s / other.probe_s)) - _PROBE_NOISE)


def unlike_conditions(groups: Iterable[Sequence[CaseResult]]) -> list[str]:
    """Sentences about layers that are compared under unlike conditions; none if all are alike.

    Each group holds the lines that are compared with each other.
    """
    pairs = [(line, min(group, key=lambda one: one.probe_s or math.inf)) for group in groups for line in group]
    unlike = [(unlikeness(*pair), pair) for pair in pairs]
    hosts = {line.impl for error, pair in unlike for line in pair if error == math.inf}
    slowdowns = [(error, line.impl) for error, (line, _) in unlike if 0 < error < math.inf]
    text = []
    if hosts:
        names = formatting.listed(sorted(hosts), "layer")
        text.append(f"Different hosts timed {names}: a difference may be that of the hosts.")
    if slowdowns:
        most = formatting.share(math.expm1(max(slowdowns)[0] + _PROBE_NOISE))
        names = formatting.listed(sorted({name for _, name in slowdowns}), "layer")
        text.append(f"The machine was up to {most} slower while {names} ran: comparisons are uncertain by that.")
    return text
