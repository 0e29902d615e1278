"""What to know before trusting some lines' numbers: bimodal times, fallbacks, false claims, failures."""

from collections.abc import Iterable, Sequence

from harness.findings.exact_claims import is_masked
from harness.report import units
from harness.report.reach import reaches
from harness.summary import Line

# The most remarks of one kind, after equal ones are merged; summary.csv has the rest.
_MOST = 6


def remarks(lines: Sequence[Line]) -> list[str]:
    """One sentence for each thing to know; the cases that it concerns share the sentence."""
    return [*cautions(lines), *_failures(lines)]


def cautions(lines: Sequence[Line]) -> list[str]:
    """What to know about the cases that have numbers."""
    kinds = (_humps, _fallbacks, _unknown, _wrong_claims, _host_bound)
    return [sentence for kind in kinds for sentence in kind(lines)]


def _humps(lines: Iterable[Line]) -> list[str]:
    """One sentence for each bimodal case, since each cause gives numbers of its own, of page faults for example."""
    humped = [line for line in lines if line.humps == 2]
    said = [
        f"two humps: {_which(line)}: {_seconds(line.hump_fast_s)} in some trials, {_seconds(line.hump_slow_s)} in "
        f"others; {line.hump_cause or 'nothing that was recorded tells them apart'}."
        for line in humped[:_MOST]
    ]
    return [*said, *_and_more(len(humped), "cases of two humps")]


def _fallbacks(lines: Iterable[Line]) -> list[str]:
    return _together(((line.backend_fallback, line) for line in lines if line.backend_fallback), "fallback")


def _unknown(lines: Iterable[Line]) -> list[str]:
    return _together(((line.facts_unknown, line) for line in lines if line.facts_unknown), "not known")


def _wrong_claims(lines: Iterable[Line]) -> list[str]:
    """Claims of FLOPs that the counted FLOPs contradict, one sentence for each layer."""
    wrong: dict[str, list[Line]] = {}
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
        f"claim: {_which(cases[0])}{_others(cases)}: it claims {cases[0].flops_claimed:,} FLOPs and does "
        f"{cases[0].flops:,}."
        for cases in wrong.values()
    ]


def _host_bound(lines: Iterable[Line]) -> list[str]:
    bound = [line for line in lines if line.host_bound]
    if not bound:
        return []
    slowest = max(bound, key=lambda line: line.wall_call_s or 0.0)
    wall = f", {units.seconds(slowest.wall_call_s)} for {_which(slowest)}" if slowest.wall_call_s else ""
    return [
        f"host-bound: {_which(bound[0])}{_others(bound)}: launching takes longer than the GPU's work, of which the "
        f"table tells; calls back to back take wall_call_s{wall}."
    ]


def _failures(lines: Sequence[Line]) -> list[str]:
    ends = reaches(lines)
    told = {line.case for one in ends for line in one.lines}
    failed = [line for line in lines if line.status != "ok" and line.case not in told]
    said = [*map(str, ends[:_MOST]), *_and_more(len(ends), "ends of what was measured")]
    for status in dict.fromkeys(line.status for line in failed):
        said += _together(((line.reason or "", line) for line in failed if line.status == status), status)
    return said


def _together(reasons: Iterable[tuple[str, Line]], kind: str) -> list[str]:
    """One sentence for each reason: `kind: the first case and how many more: reason`."""
    groups: dict[str, list[Line]] = {}
    for reason, line in reasons:
        groups.setdefault(reason, []).append(line)
    said = [f"{kind}: {_which(cases[0])}{_others(cases)}: {reason}" for reason, cases in groups.items()]
    return [*said[:_MOST], *_and_more(len(said), "reasons")]


def _and_more(number: int, of_what: str) -> list[str]:
    return [f"and {number - _MOST} more {of_what}: see summary.csv"] if number > _MOST else []


def _which(line: Line) -> str:
    return f"{line.impl} n={line.seq_len} d={line.d_model} h={line.num_heads}"


def _others(cases: Sequence[Line]) -> str:
    return f" and {len(cases) - 1} more" if len(cases) > 1 else ""


def _seconds(value: float | None) -> str:
    return units.seconds(value) if value is not None else "not timed"
