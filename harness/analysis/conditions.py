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


def slowdown(line: CaseResult, other: CaseResult) -> float:
    """The log of how much slower the machine was than for the other line, beyond the noise of probes; 0 if unknown."""
    same_probe = (line.device, line.threads, line.env) == (other.device, other.threads, other.env)
    if not (same_probe and line.probe_s and other.probe_s):
        return 0.0
    log_ratio = math.log(line.probe_s / other.probe_s)
    return math.copysign(max(0.0, abs(log_ratio) - _PROBE_NOISE), log_ratio)


def unlikeness(line: CaseResult, other: CaseResult) -> float:
    """The standard error that unlike conditions add to the log of a ratio of times; infinite if no host timed both."""
    hosts, of_other = ((one.host or "").split(",") for one in (line, other))
    elsewhere = line.host and other.host and not {*hosts} & {*of_other}
    return math.inf if elsewhere else abs(slowdown(line, other))


def unlike_conditions(groups: Iterable[Sequence[CaseResult]]) -> list[str]:
    """Sentences about layers that are compared under unlike conditions; none if all are alike.

    Each group holds the lines that are compared with each other.
    """
    elsewhere: dict[str, None] = {}
    slower: dict[str, float] = {}
    for group in groups:
        usual = min(group, key=lambda line: line.probe_s or math.inf)
        for line in group:
            if unlikeness(line, usual) == math.inf:
                elsewhere |= dict.fromkeys(one.impl for one in group)
            elif slowdown(line, usual):
                slower[line.impl] = max(slowdown(line, usual), slower.get(line.impl, 0.0))
    text = []
    if elsewhere:
        text.append(f"Not compared, because other hosts timed them: {formatting.listed([*elsewhere], 'layer')}.")
    if slower:
        most = formatting.share(math.expm1(max(slower.values()) + _PROBE_NOISE))
        names = formatting.listed([*slower], "layer")
        text.append(f"The machine was up to {most} slower while {names} ran: comparisons are uncertain by that.")
    return text
