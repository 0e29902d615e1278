"""Complete the lines of a run with what follows from the other lines, the machine's peaks and the fitted cost models.

measured times → suspects and bounds from physics → speeds → ratios to a baseline → times with the cost model
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from harness.core.config.machine import Machine
from harness.core.model import own_axes
from harness.core.model.errors import UsageError, did_you_mean
from harness.core.results.columns import CaseResult

from .laws.crossovers import layers_without_heads, ratio_at
from .laws.fitted_laws import FittedLaw, fit_laws
from .laws.roofline import Roof, roof_of, roofs, with_possible_times, with_suspects
from .laws.series import unlikeness
from .laws.smoothing import with_times_in_law


def complete_lines(
    lines: Sequence[CaseResult], machine: Machine, baseline: str | None = None
) -> tuple[list[CaseResult], list[FittedLaw]]:
    """The lines of a run with all derived columns, and sizes along own axes stated where they vary; and their laws.

    `machine` is the run's machine.json.

    Raises UsageError if the run has no layer named `baseline`.
    """
    machine_roofs = roofs(machine)
    bounded = with_possible_times(with_suspects(lines, machine_roofs), machine_roofs)
    timed = with_speeds(bounded, machine_roofs)
    stated = with_stated_sizes(with_ratios(timed, baseline) if baseline else timed)
    laws = fit_laws(stated)
    return with_times_in_law(stated, laws), laws


def with_stated_sizes(lines: Sequence[CaseResult]) -> list[CaseResult]:
    """The lines, whose options state the sizes along the own axes that vary of a layer: for readers, not as keys.

    Lines that differ in these sizes alone are in their order.
    """
    varied = own_axes.varied_of_layers(lines)
    stated = [
        replace(line, options=own_axes.stated_options(line.own_axes, line.options, varied.get(line.impl, frozenset())))
        for line in lines
    ]
    in_order = sorted(stated, key=lambda line: (replace(line.case, options=line.series.options), line.own_size))
    return in_order if any(varied.values()) else stated


def with_speeds(lines: Sequence[CaseResult], machine_roofs: Sequence[Roof]) -> list[CaseResult]:
    """The lines with `head_dim`, `tflops_per_s`, `gb_per_s`, and shares of the peak where that is known."""
    headless = layers_without_heads(lines)
    return [_with_speed(line, machine_roofs, line.impl in headless) for line in lines]


def _with_speed(line: CaseResult, machine_roofs: Sequence[Roof], is_headless: bool) -> CaseResult:
    head_dim = None if is_headless or line.d_model % line.num_heads else line.d_model // line.num_heads
    if not line.time_s:
        return replace(line, head_dim=head_dim)
    roof = roof_of(line, machine_roofs)
    flops_per_s = line.flops / line.time_s if line.flops else None
    sustained_of_peak = None
    if roof and line.flops and line.sustained_s and roof.sustained_flops_per_s:
        # The peak of a burst would make every layer look slow.
        sustained_of_peak = line.flops / line.sustained_s / roof.sustained_flops_per_s
    return replace(
        line,
        head_dim=head_dim,
        tflops_per_s=flops_per_s / 1e12 if flops_per_s else None,
        gb_per_s=line.min_bytes / line.time_s / 1e9 if line.min_bytes else None,
        of_peak=flops_per_s / roof.peak_flops_per_s if flops_per_s and roof else None,
        sustained_of_peak=sustained_of_peak,
    )


def with_ratios(lines: Sequence[CaseResult], baseline: str) -> list[CaseResult]:
    """The lines with the `ratio` of each time to that of the layer `baseline` at the same sizes, and its interval.

    The times are independent: their trials run in processes of their own, in random order. A baseline without heads is
    compared with layers of any number of heads, and one without an own axis with layers of any size along it. Raises
    UsageError for an unknown baseline.
    """
    impls = list(dict.fromkeys(line.impl for line in lines))
    if baseline not in impls:
        raise UsageError(f"baseline={baseline}: this run has no such layer{did_you_mean(baseline, impls)}")
    any_heads = baseline in layers_without_heads(lines)
    timed = {line.case: line for line in lines if line.impl == baseline and line.time_s and not line.suspect}
    compared = []
    for line in lines:
        place = replace(line.case, impl=baseline, num_heads=1 if any_heads else line.num_heads)
        base = timed.get(place) or timed.get(replace(place, options=line.series.options))
        compared.append(with_ratio_to(line, base) if base else line)
    return compared


def with_ratio_to(line: CaseResult, base: CaseResult) -> CaseResult:
    """The line with the ratio of its time to that of `base`; unchanged without a time, or if other hosts timed it."""
    unlike = unlikeness(line, base)
    if not line.time_s or not base.time_s or line.suspect or unlike == math.inf:
        return line
    if line.case == base.case:
        return replace(line, ratio=1.0, ratio_lo=1.0, ratio_hi=1.0)
    with_ratio = replace(line, ratio=line.time_s / base.time_s)
    own, other = ((one.time_s or 0.0, one.time_lo_s or 0.0, one.time_hi_s or math.inf) for one in (line, base))
    _, lo, hi = ratio_at(line.seq_len, own, other, unlike).ratio
    return replace(with_ratio, ratio_lo=lo, ratio_hi=hi) if lo > 0 and hi < math.inf else with_ratio
