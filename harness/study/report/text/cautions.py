"""What to know before trusting numbers: how well they were measured, remarks, failed cases, and the largest sizes."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from statistics import median
from typing import Any

from harness.core.config.machine import Machine, clock_advice, gpu_state_of, lock_advice, part
from harness.core.model import formatting
from harness.core.model.layer_options import NO_OPTIONS
from harness.core.model.sweep_axes import AXES, GROWING, SIZES, Case
from harness.core.results.columns import CaseResult
from harness.study.laws.crossovers import unlike_conditions
from harness.study.laws.roofline import TOO_WIDE, WIDEST, are_too_wide, interval_widths, roof_of, roofs, why_no_roof
from harness.study.report.document import Cell, Table, grouped, with_ranges, without_numbers
from harness.study.report.figure_panels import Lines
from harness.study.report.point_charts import approximations, is_by_itself, is_inexact

# Statuses that a large size can cause. Errors and incorrect results have other causes.
_OF_SIZE = ("oom", "timeout", "killed")


def limits_reached(lines: Lines) -> dict[str, list[CaseResult]]:
    """Find where a layer that was measured at a smaller size fails because of its size.

    Each limit is a sentence, with the first failed case of every grid line that ends alike, of whichever layer.
    """
    ends: dict[tuple[Any, ...], list[CaseResult]] = {}
    explained = set[Case]()
    for axis in GROWING:
        size = attrgetter(axis)
        for of_line in _along(axis, lines):
            last = max((size(line) for line in of_line if line.status == "ok"), default=math.inf)
            beyond = sorted((line for line in of_line if size(line) > last), key=size)
            cases = {line.case for line in beyond}
            if beyond and beyond[0].status in _OF_SIZE and explained.isdisjoint(cases):
                explained |= cases
                first = beyond[0]
                end = axis, int(last), size(first), first.status, without_numbers(first.reason or "")
                ends.setdefault(end, []).append(first)
    return {_limit(axis, last, ended, alike): alike for (axis, last, ended, *_), alike in ends.items()}


def _limit(axis: str, last: int, ended: int, alike: list[CaseResult]) -> str:
    """A limit as a sentence, with the first failed cases."""
    letter, impls = AXES[axis].letter, list(dict.fromkeys(line.impl for line in alike))
    cases = f"{len(alike)} cases"
    if len(alike) == 1:
        cases = " ".join(f"{letter}={getattr(alike[0], name)}" for letter, name in SIZES.items() if name != axis)
    go = "go" if len(impls) > 1 else "goes"
    reached = f"{formatting.listed(impls, 'layer')} {go} as far as {letter} = {last} ({cases})"
    return f"{reached}; at {letter} = {ended} {alike[0].status}: {_text_of(alike, 'reason')}"


def _along(axis: str, lines: Lines) -> Iterable[list[CaseResult]]:
    """Groups of lines that differ along the axis alone."""
    return grouped(lines, lambda line: line.case.at(axis, 1)).values()


# More than this is worth a sentence: the share of disturbed trials, and how much longer the probe took.
_MUCH_DISTURBED, _MUCH_SLOWER = 0.1, 0.15


# The precisions that a user can ask for, the strictest last.
_PRECISIONS = ("quick", "standard", "strict")


def stricter_precisions(precision: str) -> Sequence[str]:
    """The precisions with more trials than this one; empty for one of the user's own."""
    return _PRECISIONS[_PRECISIONS.index(precision) + 1 :] if precision in _PRECISIONS else ()


def quality_sentences(
    lines: Lines, machine: Machine, precision: str = _PRECISIONS[0], target: float = 0.0
) -> list[str]:
    """How good the measurement was: how wide the intervals are, and how disturbed the machine, with what to do.

    The best known state of the machine is that of its calibration, in `machine`. The run had this `precision`, which
    asked for intervals within ± `target`, a share; 0 if nothing was asked for.
    """
    timed = [line for line in lines if line.time_s is not None]
    widths = interval_widths(timed)
    text = []
    if are_too_wide(timed):
        text.append(f"Measurement: {TOO_WIDE}, on a machine that does nothing else. Do not compare these times.")
    elif widths:
        nine_in_ten = math.ceil(0.9 * len(widths)) - 1
        narrow = bisect_right(widths, (1 + target) ** 2)
        asked = f" {narrow} of {len(widths)} intervals are as narrow as asked for, ±{100 * target:g} %."
        text.append(
            f"Measurement: the 95 % interval of a time spans a factor of {_factor(median(widths))} in the median "
            f"case, and at most {_factor(widths[nine_in_ten])} in nine of ten.{asked if target else ''}"
        )
    if len(widths) < len(timed):
        number = f"{len(timed) - len(widths)} of {len(timed)} times"
        text.append(f"Measurement: {number} have no interval. An interval needs two trials of a case.")
    probed = [line for line in timed if line.disturbed_share is not None]
    trials = sum(line.trials for line in probed)
    share = sum((line.disturbed_share or 0.0) * line.trials for line in probed) / max(trials, 1)
    if share > _MUCH_DISTURBED:
        options = ", ".join(f"precision={name}" for name in stricter_precisions(precision))
        more = f", or ask for more trials ({options})" if options else ""
        text.append(
            f"The machine was slow in {formatting.share(share)} of the trials. Stop other work and measure again{more}."
        )
    calibration = part(machine, "calibration")
    best_s = calibration.get("best_probe_s")
    probes_s = [line.probe_s for line in probed if line.probe_s and line.threads == calibration.get("threads")]
    if best_s and probes_s and (slower := median(probes_s) / best_s - 1) > _MUCH_SLOWER:
        text.append(
            f"In the median case, the reference workload took {formatting.share(slower)} longer than the best at "
            "calibration. The machine was slower than it can be, and so are the times; their ratios are affected less."
        )
    return text


def _factor(width: float) -> str:
    return f"{width:.2f}" if width <= WIDEST else f"over {WIDEST:.0f}"


# Bytes of a first call's constants that are not worth a sentence.
_SMALL_TABLE = 4096
# A share of left out samples that is worth a sentence.
_MUCH_THROTTLED = 0.05
# The most remarks of one kind, after equal ones are merged; summary.csv has the rest.
_MOST = 6


def report_cautions(lines: Lines, machine: Machine | None = None) -> list[str]:
    """What to know about the cases that have numbers. The cases that a sentence concerns share the sentence.

    `machine` is the run's machine.json.
    """
    machine, bound = machine or {}, [*filter(_is_host_bound, lines)]
    why_bound = "launching takes longer than the GPU's work, whose time the table shows"
    by_itself = "compared with itself in float64, a wrong formula or gradient passes: give it a `reference`"
    return [
        *_bimodal(lines),
        *unlike_conditions(grouped(lines, attrgetter("series", "seq_len", "d_model", "batch_size")).values()),
        *other_kernels(lines),
        *_joined(filter(attrgetter("backend_fallback"), lines), "backend_fallback", "fallback"),
        *_joined(filter(attrgetter("facts_unknown"), lines), "facts_unknown", "not known"),
        *_kept_memory(lines),
        *_remark("host-bound", bound, f"{why_bound}; calls back to back take {_wall_call(bound)}."),
        *_without_gpu_time(lines),
        *_joined(filter(attrgetter("suspect"), lines), "suspect", "suspect, without a rank"),
        *approximations(lines),
        *_joined(filter(_is_by_first, lines), "accuracy_by", "later tokens not compared (give the reference `rows`)"),
        *_remark("no reference", [*filter(is_by_itself, lines)], f"{by_itself}."),
        *_inexact(lines),
        *_preparing(lines),
        *(_lowered_clock(lines, machine) or _free_clock(lines, machine)),
        *unchecked_times(lines, machine),
    ]


def _kept_memory(lines: Lines) -> list[str]:
    """Layers whose calls keep memory, and those whose first call has made what stays."""
    leaks = [line for line in lines if line.kept_bytes]
    leaked = formatting.size(max((line.kept_bytes or 0 for line in leaks), default=0))
    tables = [line for line in lines if (line.first_call_bytes or 0) > _SMALL_TABLE]
    largest = formatting.size(max((line.first_call_bytes or 0 for line in tables), default=0))
    return [
        *_remark("memory leak", leaks, f"each call keeps up to {leaked} beyond its results, on average."),
        *_remark("memory that stays", tables, f"the first call made up to {largest}, which is in the peak memory."),
    ]


def unchecked_times(lines: Lines, machine: Machine) -> list[str]:
    """The cases whose times have no limit in the calibration, as one sentence; none for an unknown machine."""
    limits = [roof for roof in roofs(machine) if roof.noise < math.inf]
    without = [line for line in lines if line.time_s is not None and roof_of(line, limits) is None]
    if "calibration" not in machine or not without:
        return []
    what = "Impossibly short times are not looked for"
    if limits:
        why = "the calibration has no peak for their dtype, device or threads, as `calibrate threads=1` would give"
        return [f"{what} in {_cases(without)}: {why}."]
    return [why_no_roof(machine, what) or f"{what}. Noise floor: not measured; type 'python -m harness calibrate'."]


def caution_summary(lines: Lines, above_roof: Sequence[str]) -> str:
    """All cautions in one sentence: how many cases each kind concerns, and the first of them. Empty without any."""
    concerns: dict[str, Callable[[CaseResult], Any]] = {
        "bimodal": attrgetter("bimodal"),
        "without a faster kernel": attrgetter("backend_fallback"),
        "with unknown facts": attrgetter("facts_unknown"),
        "host-bound": _is_host_bound,
        "without a GPU time": _is_without_gpu_time,
        "compared in their first tokens alone": _is_by_first,
        "without a reference": is_by_itself,
        "much less exact than the plain layer": is_inexact,
        "suspect": attrgetter("suspect"),
    }
    text = []
    for kind, is_concerned in concerns.items():
        if alike := [*filter(is_concerned, lines)]:
            why = f": {formatting.printable(alike[0].suspect or '')}" if kind == "suspect" else ""
            text.append(f"{formatting.counted(len(alike), 'case')} {kind} ({_cases(alike[:1])}{why})")
    text += ["speeds above the machine's peak"] if above_roof else []
    return f"Warning: {', '.join(text)}. See report.md." if text else ""


def other_kernels(lines: Lines) -> list[str]:
    """A sentence for each layer that ran different kernels in several environments, at the same sizes."""
    sentences = set[str]()
    for alike in grouped(lines, lambda line: line.case.at("env", 0)).values():
        kernels = {f"with env={line.env}": line.backend for line in alike}
        sentences.add(formatting.kernels_sentence(alike[0].impl, kernels))
    return sorted(sentences - {""})


def _is_by_first(line: CaseResult) -> bool:
    return bool(line.accuracy_by and line.accuracy_by.startswith("first ") and " and the last " not in line.accuracy_by)


def _inexact(lines: Lines) -> list[str]:
    """The layers whose errors may be more than rounding, at the largest ratio of each."""
    worst = {line.impl: line for line in sorted(filter(is_inexact, lines), key=lambda line: line.error_ratio or 0.0)}
    text = [
        f"less exact: {_cases([line])}: its error is {line.error_ratio:.0f} times the plain layer's. "
        "Is it right in every row and head?"
        for line in worst.values()
    ]
    return _at_most(text, "layer")


def _bimodal(lines: Lines) -> list[str]:
    """One sentence for each bimodal case, since each cause gives numbers of its own, of page faults for example."""
    text = []
    for line in filter(attrgetter("bimodal"), lines):
        groups_s = (line.bimodal_fast_s, line.bimodal_slow_s)
        fast, slow = (formatting.if_known(time_s, formatting.seconds) or "not timed" for time_s in groups_s)
        cause = line.bimodal_cause or "nothing that was recorded tells them apart"
        text.append(f"bimodal: {_cases([line])}: {fast} in some trials, {slow} in others; {cause}.")
    return _at_most(text, "bimodal case")


def _is_host_bound(line: CaseResult) -> bool:
    return bool(line.host_bound) and not _is_without_gpu_time(line)


def _is_without_gpu_time(line: CaseResult) -> bool:
    """Whether the case ran on a GPU, and its launches could not be left out of the time."""
    return line.wall_call_s is not None and line.time_s is None


def _without_gpu_time(lines: Lines) -> list[str]:
    """The cases on a GPU without a time of it. Those with one reason share a sentence."""
    text = []
    for reason, alike in grouped(filter(_is_without_gpu_time, lines), attrgetter("graph_note")).items():
        why = f" ({reason})" if reason else ""
        what = f"the launches could not be left out of the time{why}. Calls back to back take {_wall_call(alike)}."
        text += _remark("no GPU time", alike, what)
    return _at_most(text, "reason")


def _wall_call(lines: Lines) -> str:
    slowest = max(lines, key=lambda line: line.wall_call_s or 0.0, default=None)
    if slowest is None or not slowest.wall_call_s:
        return "wall_call_s"
    return f"wall_call_s, {formatting.seconds(slowest.wall_call_s)} for {_cases([slowest])}"


# A shorter preparation is not worth a sentence, as a share of the time of a call.
_MUCH_PREPARED = 0.1


def _preparing(lines: Lines) -> list[str]:
    """How long each layer prepares outside its calls, at its largest n, and after how many calls that pays off."""
    largest = {}
    for line in sorted(lines, key=attrgetter("seq_len", "d_model")):
        if line.time_s and line.prepare_s and line.prepare_s > _MUCH_PREPARED * line.time_s:
            largest[line.impl, line.mode, line.mask] = line
    return _at_most([_prepared_sentence(line, lines) for line in largest.values()], "layer that prepares")


def _prepared_sentence(line: CaseResult, lines: Lines) -> str:
    time_s, prepare_s, at = line.time_s or 0.0, line.prepare_s or 0.0, line.case.at("impl", 0)
    usual = (other for other in lines if not (other.prepare_s or other.suspect) and other.case.at("impl", 0) == at)
    slower = {other.time_s: other.impl for other in usual if other.time_s and other.time_s > time_s}
    text = f"prepare: {_cases([line])}: it prepares for {formatting.seconds(prepare_s)} outside its calls"
    if not slower:
        return f"{text}."
    other_s = min(slower)
    calls = math.ceil(prepare_s / (other_s - time_s))
    return f"{text}. Beside {slower[other_s]}, that pays off after {formatting.counted(calls, 'call')}."


def _lowered_clock(lines: Lines, machine: Machine) -> list[str]:
    """GPU cases whose clock rate fell or that were not alone, and how to lock the clock rate."""
    shared = [line for line in lines if line.gpu_disturbed_share]
    worst = max((line.gpu_disturbed_share or 0.0 for line in shared), default=0.0)
    what = "other processes computed there, or heat or a fault lowered its clock rate, in up to"
    text = _remark("disturbed GPU", shared, f"{what} {formatting.share(worst)} of the trials.")
    lowered = [line for line in lines if (line.throttled_share or 0.0) > _MUCH_THROTTLED]
    if lowered:
        clocks = [line.sm_clock_mhz for line in lowered if line.sm_clock_mhz]
        rate = f"{min(clocks):.0f}" if clocks else "MHZ"
        how = f"Lock it below that: 'sudo nvidia-smi -lgc {rate}'."
        advice = clock_advice(how, gpu_state_of(machine, lowered[0].device) or {})
        what = f"over {formatting.share(_MUCH_THROTTLED)} of the samples were left out, because power or heat lowered"
        text += _remark("lowered clock", lowered, f"{what} the GPU's clock rate. {advice}")
    return text


def _free_clock(lines: Lines, machine: Machine) -> list[str]:
    """How to lock the clock rate of a CUDA device, unless it is locked or the calibration says so already."""
    calibrated = " ".join(advice.get("text") or "" for advice in part(machine, "calibration").get("advice") or ())
    if "nvidia-smi -lgc" in calibrated or "clock rate is not locked" in calibrated:
        return []
    clocked = [line for line in lines if line.device.startswith("cuda") and line.sm_clock_mhz]
    advice = []
    for device, alike in grouped(clocked, attrgetter("device")).items():
        rates_mhz = map(attrgetter("sm_clock_mhz"), alike)
        advice.append(lock_advice(gpu_state_of(machine, device) or {}, [*rates_mhz]))
    return [f"clock rate: {text}" for text in dict.fromkeys(filter(None, advice))]


def failure_remarks(lines: Lines) -> list[str]:
    """One sentence for each limit, and for each reason of a failure."""
    ends = limits_reached(lines)
    shown = {line.case for alike in ends.values() for line in alike}
    failed = [line for line in lines if line.status != "ok" and line.case not in shown]
    by_status = grouped(failed, attrgetter("status")).items()
    return [*ends, *(text for status, alike in by_status for text in _joined(alike, "reason", status))]


def _joined(lines: Iterable[CaseResult], column: str, kind: str) -> list[str]:
    """One sentence for each text in the column: `kind: the first case and how many more: text`.

    Texts that differ in numbers alone are one, with the range of each number.
    """
    groups = grouped(lines, lambda line: without_numbers(getattr(line, column) or ""))
    return [text for alike in groups.values() for text in _remark(kind, alike, _text_of(alike, column))]


def _remark(kind: str, lines: Lines, text: str) -> list[str]:
    """A remark about the cases of the lines, as a list; empty without any."""
    return [f"{kind}: {_cases(lines)}: {text}"] if lines else []


def _text_of(lines: Lines, column: str) -> str:
    return with_ranges(getattr(line, column) or "" for line in lines)


def _at_most(remarks: Sequence[str], noun: str) -> list[str]:
    left = formatting.counted(len(remarks) - _MOST, f"more {noun}")
    return [*remarks[:_MOST], *([f"and {left}: see summary.csv"] if len(remarks) > _MOST else [])]


def _cases(lines: Lines) -> str:
    """The first case and how many more, or the names of several layers and how many cases."""
    impls = list(dict.fromkeys(line.impl for line in lines))
    if len(impls) > 1:
        return f"{formatting.listed(impls, 'layer')} ({formatting.counted(len(lines), 'case')})"
    more = f" and {formatting.counted(len(lines) - 1, 'more case')}" if len(lines) > 1 else ""
    return f"{impls[0]} {_sizes(lines[0])}{more}"


def _sizes(line: CaseResult) -> str:
    """The sizes and the options of a case. A report's lines state each own axis that varies."""
    options = "" if line.options == NO_OPTIONS else f" {line.options}"
    return f"n={line.seq_len} d={line.d_model} h={line.num_heads}{options}"


# The most cases to name among those that failed alike.
_MOST_NAMED = 8


def failures_table(lines: Lines) -> Table:
    """The cases that are not `ok`, with a row for each layer, status and reason, in the order of the lines.

    Reasons that differ in numbers alone share a row.
    """
    failed = [line for line in lines if line.status != "ok"]
    kinds = grouped(failed, lambda line: (line.impl, line.status, without_numbers(line.reason or "")))
    rows = [
        (impl, status, str(len(alike)), str(alike[0].seq_len), Cell(_text_of(alike, "reason"), aside=_named(alike)))
        for (impl, status, _), alike in kinds.items()
    ]
    return Table({"layer": "layer", "status": "bad", "cases": "n", "from n": "n", "why": "why"}, rows)


def _named(lines: Lines) -> str:
    named = [f"{_sizes(line)} {line.mode}" for line in lines[:_MOST_NAMED]]
    more = len(lines) - len(named)
    return ", ".join(named) + (f" and {formatting.counted(more, 'more case')}" if more else "")
