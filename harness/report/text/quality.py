"""What to know before trusting the numbers of some lines: remarks about them, failed cases, and the largest sizes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness import formatting
from harness.analysis.claim_rules import is_masked
from harness.case import GROWING, Case
from harness.formatting import printable
from harness.results.table import CaseResult

# Statuses that a large size can cause. Errors and incorrect results have other causes.
_OF_SIZE = ("oom", "timeout", "killed")
_LETTERS = dict(zip(GROWING, ("n", "d", "b"), strict=True))


@dataclass(frozen=True)
class LimitReached:
    """How far one layer could be measured along `axis`, and why larger sizes fail.

    Size `last` was measured. At `first`, the next size, each of `lines` ended with `status`.
    """

    impl: str
    axis: str
    last: int
    first: int
    status: str
    reason: str
    lines: tuple[CaseResult, ...]

    def __str__(self) -> str:
        letter = _LETTERS[self.axis]
        sizes = f" ({len(self.lines)} cases)" if len(self.lines) > 1 else f" ({self._others()})"
        return (
            f"{self.impl} goes as far as {letter} = {self.last}{sizes}; "
            f"at {letter} = {self.first} {self.status}: {self.reason}"
        )

    def _others(self) -> str:
        line = self.lines[0]
        sizes = {"n": line.seq_len, "d": line.d_model, "h": line.num_heads, "b": line.batch_size}
        return " ".join(f"{name}={size}" for name, size in sizes.items() if name != _LETTERS[self.axis])


def limits_reached(lines: Sequence[CaseResult]) -> list[LimitReached]:
    """Find where a layer that was measured at a smaller size fails because of its size.

    Cases that fail alike share an entry.
    """
    found: dict[tuple[str, str, int, int, str, str], list[CaseResult]] = {}
    taken: set[Case] = set()
    for axis in GROWING:
        for of_line in _along(axis, lines):
            ok = [line for line in of_line if line.status == "ok"]
            beyond = [line for line in of_line if ok and _size(line, axis) > _size(ok[-1], axis)]
            if beyond and beyond[0].status in _OF_SIZE and not taken.intersection(line.case for line in beyond):
                taken.update(line.case for line in beyond)
                first = beyond[0]
                sizes = _size(ok[-1], axis), _size(first, axis)
                found.setdefault((first.impl, axis, *sizes, first.status, first.reason or ""), []).append(first)
    return [LimitReached(*what, tuple(cases)) for what, cases in found.items()]


def _along(axis: str, lines: Iterable[CaseResult]) -> Iterable[list[CaseResult]]:
    """Groups of lines that differ along the axis alone, each in ascending size."""
    groups: dict[Case, list[CaseResult]] = {}
    for line in lines:
        groups.setdefault(line.case.at(axis, 1), []).append(line)
    for group in groups.values():
        yield sorted(group, key=lambda line: _size(line, axis))


def _size(line: CaseResult, axis: str) -> int:
    return int(getattr(line, axis))


# The most remarks of one kind, after equal ones are merged; summary.csv has the rest.
_MOST = 6


def report_remarks(lines: Sequence[CaseResult]) -> list[str]:
    """One sentence for each thing to know; the cases that it concerns share the sentence."""
    return [*report_cautions(lines), *_failure_remarks(lines)]


def report_cautions(lines: Sequence[CaseResult]) -> list[str]:
    """What to know about the cases that have numbers."""
    kinds = (_bimodal, _fallbacks, _unknown, _wrong_claims, _host_bound)
    return [sentence for kind in kinds for sentence in kind(lines)]


def _bimodal(lines: Iterable[CaseResult]) -> list[str]:
    """One sentence for each bimodal case, since each cause gives numbers of its own, of page faults for example."""
    bimodal = [line for line in lines if line.bimodal]
    said = [
        f"bimodal: {_which_cases(line)}: {_seconds(line.bimodal_fast_s)} in some trials, "
        f"{_seconds(line.bimodal_slow_s)} in others; "
        f"{line.bimodal_cause or 'nothing that was recorded tells them apart'}."
        for line in bimodal[:_MOST]
    ]
    return [*said, *_more_text(len(bimodal), "bimodal cases")]


def _fallbacks(lines: Iterable[CaseResult]) -> list[str]:
    return _joined(((line.backend_fallback, line) for line in lines if line.backend_fallback), "fallback")


def _unknown(lines: Iterable[CaseResult]) -> list[str]:
    return _joined(((line.facts_unknown, line) for line in lines if line.facts_unknown), "not known")


def _wrong_claims(lines: Iterable[CaseResult]) -> list[str]:
    """Claims of FLOPs that the counted FLOPs contradict, one sentence for each layer."""
    wrong: dict[str, list[CaseResult]] = {}
    for line in lines:
        # On a GPU, kernels pad their operands, and the count includes the padding.
        if (
            line.device == "cpu"
            and None not in (line.flops, line.flops_claimed)
            and not is_masked(line)
            and line.flops_claimed not in (line.flops, line.flops_full)
        ):
            wrong.setdefault(line.impl, []).append(line)
    return [
        f"claim: {_which_cases(cases[0])}{_other_cases(cases)}: it claims {cases[0].flops_claimed:,} FLOPs and does "
        f"{cases[0].flops:,}."
        for cases in wrong.values()
    ]


def _host_bound(lines: Iterable[CaseResult]) -> list[str]:
    bound = [line for line in lines if line.host_bound]
    if not bound:
        return []
    slowest = max(bound, key=lambda line: line.wall_call_s or 0.0)
    wall = f", {formatting.seconds(slowest.wall_call_s)} for {_which_cases(slowest)}" if slowest.wall_call_s else ""
    return [
        f"host-bound: {_which_cases(bound[0])}{_other_cases(bound)}: launching takes longer than the GPU's work, "
        f"whose time the table shows; calls back to back take wall_call_s{wall}."
    ]


def _failure_remarks(lines: Sequence[CaseResult]) -> list[str]:
    ends = limits_reached(lines)
    told = {line.case for one in ends for line in one.lines}
    failed = [line for line in lines if line.status != "ok" and line.case not in told]
    said = [*map(str, ends[:_MOST]), *_more_text(len(ends), "ends of what was measured")]
    for status in dict.fromkeys(line.status for line in failed):
        said += _joined(((line.reason or "", line) for line in failed if line.status == status), status)
    return said


def _joined(reasons: Iterable[tuple[str, CaseResult]], kind: str) -> list[str]:
    """One sentence for each reason: `kind: the first case and how many more: reason`."""
    groups: dict[str, list[CaseResult]] = {}
    for reason, line in reasons:
        groups.setdefault(reason, []).append(line)
    said = [f"{kind}: {_which_cases(cases[0])}{_other_cases(cases)}: {reason}" for reason, cases in groups.items()]
    return [*said[:_MOST], *_more_text(len(said), "reasons")]


def _more_text(number: int, of_what: str) -> list[str]:
    return [f"and {number - _MOST} more {of_what}: see summary.csv"] if number > _MOST else []


def _which_cases(line: CaseResult) -> str:
    return f"{line.impl} n={line.seq_len} d={line.d_model} h={line.num_heads}"


def _other_cases(cases: Sequence[CaseResult]) -> str:
    return f" and {len(cases) - 1} more" if len(cases) > 1 else ""


def _seconds(value: float | None) -> str:
    return formatting.seconds(value) if value is not None else "not timed"


@dataclass(frozen=True)
class Failure:
    """Cases of one layer that ended with the same status and reason."""

    impl: str
    status: str
    reason: str
    lines: tuple[CaseResult, ...]


def failure_groups(lines: Iterable[CaseResult]) -> list[Failure]:
    """Group the cases that are not `ok` by layer, status and reason, in the order of the lines."""
    groups: dict[tuple[str, str, str], list[CaseResult]] = {}
    for line in lines:
        if line.status != "ok":
            groups.setdefault((line.impl, line.status, line.reason or ""), []).append(line)
    return [Failure(*what, tuple(cases)) for what, cases in groups.items()]


def expected_cost(n: int, known: Sequence[tuple[int, float]]) -> float | None:
    """Estimate what a failed case would have cost: a plot marks the case there.

    The estimate lies on the log-log line through the two measured (n, cost) nearest to `n`. A single measured cost is
    returned unchanged. Returns None if nothing was measured.
    """
    if len(known) < 2:
        return known[0][1] if known else None
    (n0, y0), (n1, y1) = sorted(sorted(known, key=lambda point: abs(math.log(point[0] / n)))[:2])
    return y1 * (n / n1) ** (math.log(y1 / y0) / math.log(n1 / n0))


def unsupported_layers(lines: Iterable[CaseResult]) -> set[str]:
    """Names of the layers that a run could not measure at all: all of their cases are unsupported.

    Either their package or device is missing, or they support no case of the run.
    """
    lines = list(lines)
    return {line.impl for line in lines} - {line.impl for line in lines if line.status != "unsupported"}


def unsupported_sentences(lines: Sequence[CaseResult]) -> tuple[list[CaseResult], str]:
    """Return the lines that still need remarks, and one sentence that names the absent layers.

    If all absent layers share one reason, all lines are returned and the sentence is empty. Those layers already share
    one remark, which gives the reason. The same holds if fewer than two layers are absent.
    """
    gone = unsupported_layers(lines)
    if len({line.reason for line in lines if line.impl in gone}) < 2 or len(gone) < 2:
        return list(lines), ""
    names = ", ".join(map(printable, sorted(gone)))
    return [line for line in lines if line.impl not in gone], f"unsupported in every case: {names}: see report.md"
