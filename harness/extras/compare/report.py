"""The judgement of `compare`: each pair's time from its blocks, and its memory and FLOPs from exact counts.

The results are outcomes of a gate, where a slower head, or one that takes more, is a regression.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from harness.core.model import formatting
from harness.core.model.layer_options import NO_OPTIONS
from harness.core.model.sweep_axes import AXES, Case
from harness.core.results.columns import CaseResult
from harness.study.check.check_rules import Outcome, Verdict, judge_count
from harness.study.check.reporters import COLORS, GateReport
from harness.study.report.document import Cell, Row, Table, grouped, show

from .paired_evidence import Rules, pseudomedian, ratio_text, signed_rank_interval, walsh_averages
from .paired_verdicts import Control, MeasuredBlocks, PairedResult, controls_of, invalidated, verdicts_of

if TYPE_CHECKING:
    import pandas as pd

    from .explanation import Explanation


# Statuses that another trial would only repeat.
_NOT_FOR_IT = "unsupported"
_FOR_GOOD = (_NOT_FOR_IT, "oom", "incorrect", "error")

# The result of the A/A controls for the whole comparison.
HELD, FAILED, NONE = "held", "failed", "none"


@dataclass(frozen=True)
class Amount:
    """Peak memory in bytes, or FLOPs, of both sides. A side is None if its value is unknown."""

    verdict: Verdict
    was: int | None
    now: int | None

    @property
    def ratio(self) -> float | None:
        """Head over base; None if either is unknown or the base is 0."""
        return self.now / self.was if self.was and self.now is not None else None


@dataclass(frozen=True)
class ComparedCase:
    """One pair. `time` is None if a side could not be measured at all. `verdict` and its `reason` are on the time.

    `kernels` is a sentence if both sides are of one layer that ran different kernels.
    """

    base: Case
    head: Case
    time: PairedResult | None
    memory: Amount
    flops: Amount
    verdict: Verdict
    reason: str
    kernels: str = ""

    @property
    def label(self) -> str:
        """The pair in readable form."""
        return pair_label(self.head, self.base)


@dataclass(frozen=True)
class Comparison:
    """All pairs and the A/A controls. `control` is `held`, `failed`, or `none` if nothing could be timed.

    `explanations` tell where each slower pair differs, or why one could not be traced. `scaling` are sentences on
    ratios that grow or fall with n, which count only if the control held.
    """

    compared: tuple[ComparedCase, ...]
    controls: tuple[tuple[Case, Control], ...]
    explanations: tuple["Explanation", ...] = ()
    scaling: tuple[str, ...] = ()

    @property
    def control(self) -> str:
        """Whether the base, measured against itself, shows no difference.

        The value is `failed` also if no control could be measured.
        """
        if not self.controls:
            return NONE
        return FAILED if invalidated([control for _, control in self.controls]) else HELD


def compare_sides(
    pairs: Sequence[tuple[Case, Case]],
    timed: Sequence[int],
    measured: MeasuredBlocks,
    base: Mapping[Case, CaseResult],
    head: Mapping[Case, CaseResult],
    rules: Rules,
) -> Comparison:
    """Judge every pair.

    `timed` are the numbers of the pairs in `measured`, in its order. `base` and `head` map each case to its line.
    """
    times = dict(zip(timed, verdicts_of(measured, rules), strict=True))
    compared = []
    for number, (a, b) in enumerate(pairs):
        was, now = base.get(a), head.get(b)
        peaks, flops = _amount(was, now, "peak_bytes"), _amount(was, now, "flops")
        time, kernels = times.get(number), ""
        if time is not None:
            verdict, reason = time.verdict, time.reason
            if a.impl == b.impl:
                backends = {"on the base": was and was.backend, "on the head": now and now.backend}
                kernels = formatting.kernels_sentence(a.impl, backends)
        else:
            # If nothing at all could be timed, nothing passes.
            is_excused = bool(times) and _is_excused(was, now)
            verdict = Verdict.UNDECIDED if is_excused else Verdict.UNMEASURED
            reason = _why_not(was, now)
        compared.append(ComparedCase(a, b, time, peaks, flops, verdict, reason, kernels))
    controls = [(pairs[timed[control.case]][0], control) for control in controls_of(measured, rules)]
    of_timed = [pairs[number] for number in timed]
    return Comparison(tuple(compared), tuple(controls), scaling=tuple(_scaling_sentences(of_timed, measured, rules)))


# Without a trend of this share of the variance between the lengths, they differ, but not with n.
_LEAST_EXPLAINED = 0.5


def _scaling_sentences(pairs: Sequence[tuple[Case, Case]], measured: MeasuredBlocks, rules: Rules) -> Iterator[str]:
    """Sentences on ratios that grow or fall with n, over three lengths or more. One run in 20 has a wrong one.

    Each generation before the first look gives one slope of the log ratios over log n. Their signed-rank test needs no
    correction for looks: no ratio ends a case before the first one.
    """
    first = [blocks.first[: rules.fewest_blocks] for blocks in measured.cases]
    tested = sorted((*pair, logs) for pair, logs in zip(pairs, first, strict=True) if len(logs) == rules.fewest_blocks)
    by_setting = grouped(tested, lambda each: tuple(case.at("seq_len", 1) for case in each[:2]))
    series = [members for members in by_setting.values() if len({head.seq_len for _, head, _ in members}) > 2]
    for members in series:
        bases, heads, logs = zip(*members, strict=True)
        log_n = np.log([case.seq_len for case in heads])
        averages = walsh_averages(rules.means(np.polyfit(log_n, logs, 1)[0].round(9)))
        lo, hi = signed_rank_interval(averages, rules.alpha / len(series))
        if (lo > 0 or hi < 0) and np.corrcoef(log_n, np.mean(logs, axis=1))[0, 1] ** 2 > _LEAST_EXPLAINED:
            power = f"n^{pseudomedian(averages):.2g} ({lo:.2g} to {hi:.2g}) from n={heads[0].seq_len} on"
            yield f"{pair_label(heads[-1], bases[-1])}: its scaling differs: the ratio of the times goes as {power}."


def _amount(was: CaseResult | None, now: CaseResult | None, column: str) -> Amount:
    before, after = getattr(was, column, None), getattr(now, column, None)
    finding = judge_count(column, before, after) if before is not None else None
    return Amount(finding[0] if finding else Verdict.UNMEASURED, before, after)


def _is_excused(was: CaseResult | None, now: CaseResult | None) -> bool:
    """Whether the head is not to blame for a missing time.

    Either both sides do not support the case. Or the head is measured, and the base fails in a way that another trial
    would repeat. Then the head has nothing to be compared with.
    """
    if was is None or now is None:
        return False
    return now.status == was.status == _NOT_FOR_IT or (was.status in _FOR_GOOD and now.status == "ok")


def _why_not(was: CaseResult | None, now: CaseResult | None) -> str:
    sides = {"base": was, "head": now}
    failed = [f"{name}: {line.status}: {line.reason}" for name, line in sides.items() if line and line.status != "ok"]
    return "; ".join(failed) or "no trial of it ended"


TIME = "time"


def outcomes_of(comparison: Comparison) -> list[Outcome]:
    """List an outcome of time for every pair, and of memory and FLOPs if the base's value is known.

    If only the head's value is unknown, the outcome of a timed pair is `unmeasured`.
    """
    return [outcome for pair in comparison.compared for outcome in _outcomes(pair)]


def pair_label(case: Case, base: Case | None = None) -> str:
    """A case in readable form, as `str` gives it, but with `steady` as the allocator that is not named.

    Options that another layer, the base, has alone are named as the base's.
    """
    if base is not None and base.impl != case.impl and base.options not in (case.options, NO_OPTIONS):
        return f"{pair_label(case)} (base: {base.options})"
    if case.allocator == "steady":
        return str(replace(case, allocator="default"))
    # The C library's allocator does not manage a GPU's memory, so it is not named there.
    return str(case) + (" allocator=default" if case.allocator == "default" and case.device == "cpu" else "")


def _outcomes(pair: ComparedCase) -> Iterator[Outcome]:
    name = pair.label
    yield _time_outcome(name, pair)
    amounts = ("peak memory", pair.memory, formatting.size), ("flops", pair.flops, formatting.count)
    for quantity, amount, text in amounts:
        if amount.was is None:
            continue
        was = text(amount.was)
        if amount.now is not None:
            now = text(amount.now)
            times = formatting.if_known(amount.ratio, " (×{:.3g})".format)
            reason = f"{quantity} {was} → {now}{times}" if amount.verdict is not Verdict.EQUIVALENT else ""
            yield Outcome(name, quantity, amount.verdict, was, now, reason)
        elif pair.time is not None:
            yield Outcome(name, quantity, Verdict.UNMEASURED, was, "", "known of the base, and not of the head")


def _time_outcome(name: str, pair: ComparedCase) -> Outcome:
    verdict, reason, ratio = pair.verdict, pair.reason, ""
    if pair.time is not None:
        ratio, reason = ratio_text(pair.time.evidence), f"{verdict.time}: {reason}"
        if verdict is Verdict.UNDECIDED:
            reason = f"{reason}; {smallest_visible_difference(pair.time)}"
    return Outcome(name, TIME, verdict, "", ratio, reason)


def smallest_visible_difference(time: PairedResult) -> str:
    """A phrase that names the smallest slow-down this measurement would have detected."""
    if math.isinf(time.smallest_detectable):
        return f"{time.blocks} blocks are too few to see anything"
    return f"a slow-down of {formatting.share(time.smallest_detectable)} would have been seen"


# The axes are the head's. `base` is the impl of the base side; it equals the head's when two commits of one layer are
# compared.
COLUMNS = (
    *AXES,
    *("verdict", "ratio", "ratio_lo", "ratio_hi", "blocks", "smallest_detectable", "control", "base", "reason"),
    *("memory_verdict", "memory_ratio", "flops_verdict", "flops_ratio"),
    *("base_side", "head_side", "base_versions", "head_versions", "base_options"),
)


# Columns about the sides, and the properties that fill them.
_SIDES = {"base_side": "base", "head_side": "head", "base_versions": "base versions", "head_versions": "head versions"}


def comparison_table(comparison: Comparison, properties: Mapping[str, str] | None = None) -> "pd.DataFrame":
    """The pairs as a tidy DataFrame, one row each: `comparison.csv`.

    Ratios are head over base; `smallest_detectable` is a fraction, 0.05 for 5 %. `properties` name the sides and their
    versions.
    """
    import pandas as pd

    about = {column: (properties or {}).get(name) for column, name in _SIDES.items()}
    rows = [_row(pair, comparison.control) | about for pair in comparison.compared]
    return pd.DataFrame(rows, columns=list(COLUMNS)).convert_dtypes()


def _row(pair: ComparedCase, control: str) -> dict[str, Any]:
    time = pair.time
    of_time: dict[str, Any] = {"blocks": 0}
    if time is not None:
        ends = {"ratio": time.evidence.ratio, "ratio_lo": time.evidence.lo, "ratio_hi": time.evidence.hi}
        ends["smallest_detectable"] = time.smallest_detectable
        numbers = {name: float(f"{value:.6g}") for name, value in ends.items() if math.isfinite(value)}
        of_time = {**numbers, "blocks": time.blocks}
    return {
        **pair.head.as_dict(),
        **of_time,
        "verdict": pair.verdict.time,
        "reason": pair.reason or None,
        "control": control,
        "base": pair.base.impl,
        "base_options": pair.base.options,
        "memory_verdict": pair.memory.verdict.amount,
        "memory_ratio": pair.memory.ratio,
        "flops_verdict": pair.flops.verdict.amount,
        "flops_ratio": pair.flops.ratio,
    }


# What to do about a time that is undecided.
ADVICE = ". To decide, repeat it with more blocks= or minutes=, on a quiet machine."
# The property that tells whether both sides have equal outputs in float64.
FLOAT64 = "outputs in float64"


def versions_sentences(properties: Mapping[str, str]) -> list[str]:
    """Sentences that name the versions of each side of a comparison, and say if the sides compute different outputs."""
    base, head = (properties[f"{side} versions"] for side in ("base", "head"))
    sentences = [f"Both sides run {base}."] if base == head else [f"The base runs {base}.", f"The head runs {head}."]
    if properties.get(FLOAT64) == "different":
        sentences.append(
            "The outputs of both sides differ in float64: the layer computes something else, or draws other weights "
            "from the same seed."
        )
    return sentences


def show_comparison(title: str, comparison: Comparison, console: Console) -> None:
    """Print a comparison: a table with one row per pair, then sentences about the results.

    The column `detectable` holds the smallest slow-down that this measurement would have detected.
    """
    columns = {"head": "", "time, 95 % interval": "whole", "detectable": "n", "memory": "", "flops": ""}
    table = Table(columns, [_comparison_row(pair) for pair in comparison.compared], title=title)
    explained = (explanation.parts(brief=True) for explanation in comparison.explanations)
    show([table, *comparison_sentences(comparison), *chain.from_iterable(explained)], console)


def _comparison_row(pair: ComparedCase) -> Row:
    # The impl gets its own line: on one line, impl and sizes are too wide for a narrow terminal.
    impl, _, sizes = pair.label.partition(" ")
    time, detectable = "", ""
    if pair.time is not None:
        least = pair.time.smallest_detectable
        time, detectable = ratio_text(pair.time.evidence), formatting.share(least)
        if math.isinf(least):
            detectable = "nothing"
    cells: list[Cell | str] = [Cell(impl, below=sizes)]
    cells += [Cell(pair.verdict.time, COLORS.get(pair.verdict, ""), below=time), detectable]
    for amount in (pair.memory, pair.flops):
        times = f" ×{amount.ratio:.3g}" if amount.ratio not in (None, 1) else ""
        cells.append(Cell(amount.verdict.amount + times, COLORS.get(amount.verdict, "")))
    return cells


def comparison_sentences(comparison: Comparison) -> Iterator[str]:
    """Sentences to print below the table."""
    for pair in comparison.compared:
        if pair.verdict is not Verdict.EQUIVALENT:
            yield f"{pair.label}: {pair.verdict.time}: {pair.reason}."
    yield from dict.fromkeys(pair.kernels for pair in comparison.compared if pair.kernels)
    for case, control in comparison.controls:
        if control.failure is not None:
            yield f"The A/A control of {pair_label(case)} could not be measured: {control.failure}."
        if control.differs:
            yield (
                f"The A/A control failed: {pair_label(case)}, measured against itself, came out "
                f"{ratio_text(control.evidence)}. Nothing is concluded about time: measure again when the machine is "
                "quiet."
            )
    if comparison.control == HELD:
        cases = formatting.counted(sum(control.held for _, control in comparison.controls), "case")
        yield f"The A/A control held: {cases}, measured against the base once more."
        yield from comparison.scaling


def closing_sentence(report: GateReport) -> str:
    """How many times of a comparison were decided, and why it has this exit status."""
    times = Counter(outcome.verdict for outcome in report.outcomes if outcome.quantity == TIME)
    open_ones = times[Verdict.UNDECIDED] + times[Verdict.UNMEASURED]
    counted = ", ".join(f"{times[verdict]} {verdict.time}" for verdict in Verdict if times[verdict])
    worse, failed = (
        list(dict.fromkeys(outcome.quantity for outcome in report.outcomes if outcome.verdict is verdict))
        for verdict in (Verdict.WORSE, Verdict.UNMEASURED)
    )
    why = f"got worse: {', '.join(worse)}" if worse else f"could not be measured: {', '.join(failed) or 'anything'}"
    of_time = f"{times.total() - open_ones} of {times.total()} times decided ({counted or 'none'})"
    return f"{of_time}; exit status {report.exit_status}: {why if report.exit_status else 'nothing got worse'}."
