"""Measure commits for `history`: the exact facts of each, and its time in paired blocks against the anchor commit.

Both sides of a ratio are measured in the same minutes on the same machine. The ratio therefore survives another runner
of the same kind, which a time does not.
"""

import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import harness
from harness.core.config import SweepConfig
from harness.core.config.machine import kind_of_machine, versions_text
from harness.core.model.case_grid import grid, kinds_of
from harness.core.model.errors import UsageError
from harness.core.model.formatting import duration
from harness.core.model.sweep_axes import Case
from harness.core.results.columns import lines_of_records
from harness.core.run.fork_client import Runtime
from harness.core.run.outcome import TrialOutcome
from harness.core.run.session import Session
from harness.extras import mean_interval
from harness.extras.compare.compared_sides import commit_lacks, layer_of, session_of_side
from harness.extras.compare.interleaved import Side, renew_servers, take_block
from harness.extras.compare.paired_evidence import Rules
from harness.extras.compare.paired_verdicts import BlockFailed
from harness.extras.compare.worktree import Commit, Worktree, place_of, worktree
from harness.study.check.baseline import FindingId
from harness.study.laws.fitted_laws import fit_laws
from harness.study.laws.laws import Range

from .history_file import ABSENT, FACT_NAMES, CommitLine, CostModel, DirectComparison, MeasuredCase, Ratio, Writer

# Numbers of generations: of a commit at least, whatever the time limit, and at most; and of a direct comparison.
_LEAST, _MOST, _DIRECT = 4, 10, 12


@dataclass(frozen=True)
class HistoryRequest:
    """What to measure of each of `commits`. With `exact`, nothing is timed.

    The timing of a commit stops after `minutes`, but not before `_LEAST` generations.
    """

    config: SweepConfig
    anchor: str
    commits: Sequence[Commit]
    minutes: float
    exact: bool


def add(request: HistoryRequest, writer: Writer, tell: Callable[[str], None]) -> list[CommitLine]:
    """Append a line for each commit that has none, and return these. `tell` receives the progress after each commit.

    Raises UsageError if a layer is not of this repository, or if the anchor cannot be measured.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-history-")))
        anchor: _OpenCommit | None = None
        missing = [commit for commit in request.commits if writer.history.find(commit.hash) is None]
        for commit in request.commits:
            if commit not in missing:
                tell(f"{commit.name}: skipped, it has a line already")
        began = time.monotonic()
        lines = []
        for number, commit in enumerate(missing, 1):
            if not request.exact and anchor is None:
                anchor = stack.enter_context(_open_commit(request.config, request.anchor, scratch))
                if anchor.reason or not anchor.cases:
                    why = anchor.reason or "; ".join(f"{impl}: {reason}" for impl, reason in anchor.layers.items())
                    raise UsageError(f"the anchor {request.anchor[:10]} cannot be measured ({why}): name another one")
            with _open_commit(request.config, commit.hash, scratch) as opened:
                line = _measured(request, commit, opened, anchor)
            writer.append(line)
            lines.append(line)
            left_s = (len(missing) - number) * (time.monotonic() - began) / number
            left = f", {duration(left_s)} left" if left_s else ""
            tell(f"{number} of {len(missing)}{left}: {commit.name}: {_summary(line)}")
    return lines


def compare_directly(
    config: SweepConfig, before: str, after: str, key: str, writer: Writer, tell: Callable[[str], None]
) -> None:
    """Append a line with the time of a case at the commit `after` over that at `before`."""
    with (
        tempfile.TemporaryDirectory(prefix="harness-history-") as scratch,
        _open_commit(config, before, Path(scratch)) as base,
        _open_commit(config, after, Path(scratch)) as head,
    ):
        cases = [case for case in head.cases if case.key == key and case in base.cases]
        about = _machine_of(head)
        ratio = Ratio(reason="one of the commits does not have the case")
        if cases:
            (ratio,) = _ratios(base, head, cases, _DIRECT, float("inf")).values()
    writer.append(DirectComparison(before=before, after=after, case=key, at=_now(), time=ratio, **about))
    tell(f"{after[:10]} directly compared with {before[:10]}: {ratio.text}")


@dataclass
class _OpenCommit:
    """A checkout, ready to run trials.

    Its layers have the `cases`. `layers` says why others could not be loaded, and `reason` why nothing can be measured.
    """

    commit: str
    session: Session
    cases: list[Case] = field(default_factory=list)
    layers: dict[str, str] = field(default_factory=dict)
    reason: str | None = None


@contextmanager
def _open_commit(config: SweepConfig, commit: str, scratch: Path) -> Iterator[_OpenCommit]:
    """Check the commit out, and find its layers. Raises UsageError if a layer is not of this repository."""
    with worktree(commit) as tree:
        session = session_of_side(config, scratch / tree.commit, Runtime(path=tree.path(sys.path)))
        with session:
            opened = _OpenCommit(commit, session)
            try:
                session.executor.run("machine")
            except UsageError as error:  # the harness cannot import this commit's own registry of layers
                opened.reason = str(error)
            else:
                _find_layers(config, tree, opened)
            yield opened


def _find_layers(config: SweepConfig, tree: Worktree, opened: _OpenCommit) -> None:
    has_heads = {}
    for impl in config.axes["impl"]:
        described = opened.session.executor.ask("describe", Case(impl, 1, 1, 1))
        if commit_lacks(tree, impl, described):
            opened.layers[impl] = ABSENT
        elif not described.ok:
            opened.layers[impl] = f"{described.status}: {described.reason}"
        else:
            has_heads[impl] = layer_of(impl, described).has_heads
    axes = {**config.axes, "impl": tuple(has_heads)}
    every = grid(axes, has_heads.__getitem__, config.points) if has_heads else ()
    opened.cases = opened.session.distinct_cases(replace(config, axes=axes), every, is_strict=False)


def _measured(request: HistoryRequest, commit: Commit, opened: _OpenCommit, anchor: _OpenCommit | None) -> CommitLine:
    number, date = place_of(commit)
    about: dict[str, Any] = {"commit": commit.hash, "number": number, "date": date}
    about |= {"subject": commit.subject, "at": _now()}
    if opened.reason is not None:
        return CommitLine(**about, machine={}, versions={}, reason=opened.reason)
    about |= _machine_of(opened)
    cases = _facts(opened)
    if anchor is not None:
        timed = [case for case in opened.cases if cases[case].reason is None]
        both = [case for case in timed if case in anchor.cases]
        ratios = _ratios(anchor, opened, both, _MOST, 60 * request.minutes)
        lacking = Ratio(reason="the anchor does not have the case")
        cases |= {case: cases[case].model_copy(update={"time": ratios.get(case, lacking)}) for case in timed}
    by_key = {case.key: measured for case, measured in cases.items()}
    return CommitLine(**about, layers=opened.layers, cases=by_key, models=_models(cases))


def _machine_of(opened: _OpenCommit) -> dict[str, dict[str, str]]:
    """The kind of machine, and the versions that matter for times."""
    machine = opened.session.machine(impls={case.impl for case in opened.cases})
    versions = dict(text.rsplit(" ", 1) for text in versions_text(machine).split(", "))
    return {"machine": kind_of_machine(machine), "versions": {**versions, "harness": harness.__version__}}


def _facts(opened: _OpenCommit) -> dict[Case, MeasuredCase]:
    """The facts of each case. An incorrect layer has none, since its work is not that of the layer."""
    executor, measured = opened.session.executor, dict[Case, MeasuredCase]()
    for kind, of_kind in kinds_of(opened.cases).items():
        refused = executor.refused(of_kind)
        measured |= {case: MeasuredCase(reason=": ".join(why)) for case, why in refused.items()}
        left = [case for case in of_kind if case not in refused]
        verified = executor.ask("verify", kind) if left else None
        for case in left:
            counted = verified if verified and not verified.ok else executor.ask("facts", case)
            measured[case] = _counted_case(counted)
    return {case: measured[case] for case in opened.cases}


def _counted_case(counted: TrialOutcome) -> MeasuredCase:
    if not counted.ok:
        return MeasuredCase(reason=f"{counted.status}: {counted.reason}")
    own_axes = counted.values.get("own_axes")
    facts = {name: counted.values.get(name) for name in FACT_NAMES}
    return MeasuredCase(facts=facts | ({"own_axes": own_axes} if own_axes else {}))


def _models(cases: Mapping[Case, MeasuredCase]) -> dict[str, CostModel]:
    """The cost models of the counts, by key. Exponents have six digits, since others depend on libraries."""
    records = [{**case.as_dict(), **measured.facts} for case, measured in cases.items() if measured.reason is None]
    models = {}
    for fitted in fit_laws(lines_of_records(records, bounded=False)):
        own_exponents = {axis: _six_digits(exponent) for axis, exponent in fitted.own_exponents.items()}
        exponent_n = _six_digits(fitted.exponent_n) if fitted.exponent_n else None
        key = FindingId(fitted.series.impl, fitted.series.setting, fitted.series.metric).key
        models[key] = CostModel(law=str(fitted.law), exponent_n=exponent_n, own_exponents=own_exponents)
    return models


def _six_digits(exponent: Range) -> float:
    return round(exponent.value, 6) + 0.0  # no negative zero


def _ratios(
    base: _OpenCommit, head: _OpenCommit, cases: Sequence[Case], most: int, limit_s: float
) -> dict[Case, Ratio]:
    """The ratio of each case, head over base, from generations of blocks.

    A generation has new fork servers, and blocks of all cases in random order. None begins once `limit_s` seconds
    have passed, except the first `_LEAST`.
    """
    means: dict[Case, list[float]] = defaultdict(list)
    failed: dict[Case, list[str]] = defaultdict(list)
    rng = random.Random(f"{base.commit} {head.commit}")
    began = time.monotonic()
    for number in range(most):
        left = [case for case in cases if len(failed[case]) < 2]
        if not left or (number >= _LEAST and time.monotonic() - began > limit_s):
            break
        renew_servers((base.session.executor, head.session.executor))
        blocks: dict[Case, list[float]] = defaultdict(list)
        for case in rng.sample(left * Rules().generation, len(left) * Rules().generation):
            a, b = (Side(opened.commit[:10], case, opened.session.executor) for opened in (base, head))
            try:
                blocks[case].append(take_block(a, b, rng).log_ratio)
            except BlockFailed as error:  # one failure is tolerated: a trial may be killed by chance
                failed[case].append(str(error))
        for case, logs in blocks.items():
            if logs:
                means[case].append(round(statistics.mean(logs), 6))
    return {case: _ratio(means[case], failed[case]) for case in cases}


def _ratio(means: Sequence[float], failed: Sequence[str]) -> Ratio:
    if len(means) < 2 or len(failed) > 1:
        return Ratio(reason=failed[-1] if failed else "too few blocks were measured")
    middle, lo, hi = (round(end, 6) for end in mean_interval(means))
    return Ratio(log_ratio=middle, lo=lo, hi=hi, generations=list(means))


def _now() -> float:
    return round(time.time(), 3)


def _summary(line: CommitLine) -> str:
    if line.reason is not None:
        return f"not measurable: {line.reason}"
    failed = Counter(case.reason for case in line.cases.values() if case.reason is not None)
    parts = [f"facts of {line.measured} of {len(line.cases)} cases"]
    parts += [f"{line.timed} timed"] if line.timed else []
    parts += [f"{number} not measurable: {reason}" for reason, number in failed.most_common()]
    parts += [f"{impl}: {reason}" for impl, reason in line.layers.items()]
    return "; ".join(parts)
