"""The judgement of `check`: a new measurement compared with a baseline. Both are tables, however they were made."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import yaml
from rich.console import Console

import harness
from harness.core.config import SweepConfig, hydra_adapter, key_value_options
from harness.core.config.schema import HEAD_DIM
from harness.core.layers import layer_lookup
from harness.core.model import formatting, own_axes
from harness.core.model.errors import UsageError
from harness.core.model.formatting import NumberText
from harness.core.model.layer_options import NO_OPTIONS, options_of, with_options, without_defaults
from harness.core.model.sweep_axes import AXES, BAD_STATUSES, Case, readable
from harness.core.results import run_directory, summarise
from harness.core.results.columns import COLUMNS, COUNTS
from harness.core.results.row import row_of
from harness.core.run.outcome import TrialOutcome
from harness.core.run.session import COMPILE_CACHE, Phase, Session
from harness.study.report.document import grouped

from . import check_rules
from .baseline import ERRORS, TIMED, Baseline, Facts, FindingId, Group, LawKept, baseline_of
from .check_rules import Outcome, Verdict

# The counts that are judged, by their columns in `summary.csv`, and the metrics in `laws.csv` that show how they grow.
_GATED = {name: COLUMNS[name].gated for name in COUNTS if COLUMNS[name].gated}
_METRICS = {"flops": "flops", "flops_full": "flops", "depth": "depth", "peak_bytes": "memory"}
_COLUMN_OF = {"flops": "flops", "depth": "depth", "memory": "peak_bytes"}


def judge_case(
    case: Case, was: Facts, now: Facts | None, growth: Mapping[str, str], note: str, error_factor: float
) -> Iterator[Outcome]:
    """Yield an outcome for everything the baseline knows about the case: its counts, peak memory, kernel and errors.

    `now` is None if the case was not measured. `growth` maps a metric to the change of its exponents, if any. `note` is
    added to the reason of every difference.
    """
    if not now or now.status != "ok" or was.status != "ok":
        yield _status(str(case), was, now, note)
        return
    at = readable(case.as_dict())
    # The kernel comes first, because other differences often follow from it.
    if finding := check_rules.judge_kernel(was.backend, now.backend):
        verdict, why = finding
        reason = f"{why}, at {at}{note}" if why else ""
        yield Outcome(str(case), "kernel", verdict, was.backend or "", now.backend or "", reason)
    for column, quantity in _GATED.items():
        before, after = was.count(column), now.count(column)
        if column == "flops_full" and (before, after) == (was.count("flops"), now.count("flops")):
            continue  # without a mask both columns are equal
        if not (finding := check_rules.judge_count(column, before, after)):
            continue
        verdict, reason = finding
        written = formatting.size if COLUMNS[column].unit == "B" else formatting.count
        if before is not None and after is not None and before != after:
            grows = growth.get(_METRICS.get(column, ""), "") if verdict is not Verdict.EQUIVALENT else ""
            reason = f"{quantity} {_change(before, after, written)} at {at}{grows}{note}"
        earlier, later = (formatting.if_known(value, written) for value in (before, after))
        yield Outcome(str(case), quantity, verdict, earlier, later, reason)
    for column in ERRORS:
        errors = getattr(was, column), getattr(now, column)
        if not (finding := check_rules.judge_error(case.dtype, *errors, error_factor)):
            continue
        verdict, reason = finding
        earlier, later = (formatting.if_known(error, "{:.1e}".format) for error in errors)
        quantity = column.replace("_", " ")
        if verdict is Verdict.WORSE:
            reason = f"{quantity} {earlier} → {later} at {at}, by more than error_factor={error_factor:g}{note}"
        yield Outcome(str(case), quantity, verdict, earlier, later, reason)


def _status(name: str, was: Facts, now: Facts | None, note: str) -> Outcome:
    status, why = (now.status, now.reason or "") if now else ("not measured", "no trial of it ended")
    text = f"{status}: {why}" if why else status
    if status == "ok":
        verdict, reason = Verdict.BETTER, f"{was.status} before, now it can be measured{note}"
    elif was.status == "ok" or status == "not measured" or (status in BAD_STATUSES and status != was.status):
        verdict, reason = Verdict.UNMEASURED, f"{text}{note}"
    else:
        before = "as before" if status == was.status else f"{was.status} before"
        verdict, reason = Verdict.EQUIVALENT, f"{before}, {text}"
    return Outcome(name, "status", verdict, was.status, status, reason)


def _change(was: int, now: int, written: NumberText) -> str:
    """Both numbers, in full if rounding would make them equal, and the factor, as `(×4.0)`, of a change above 0.5 %."""
    texts = [written(was), written(now)]
    change = " → ".join(texts if texts[0] != texts[1] else (f"{was:,}", f"{now:,}"))
    factor = now / was if was else 1.0
    if factor >= 1.95:
        return f"{change} (×{factor:.1f})"
    return f"{change} (×{factor:.3g})" if abs(factor - 1) >= 0.005 else change


def _in_order(case: Case) -> tuple[Case, list[tuple[str, float, str]]]:
    """A key that sorts cases by their axes and then by their options, numbers by their size."""
    options = options_of(case.options).items()
    sizes = [(name, value if own_axes.is_size(value) else 0, str(value)) for name, value in options]
    return replace(case, options=NO_OPTIONS), sizes


def judge_baseline(
    was: Baseline, now: Baseline, chosen: Collection[Case], timed: bool, error_factor: float = check_rules.ERROR_FACTOR
) -> list[Outcome]:
    """Return an outcome for everything that `was` holds about the `chosen` cases, then for cost models and claims.

    Cases come in sorted order. A cost model or claim covers all cases of an impl in one setting. It is judged only if
    all of them were measured again, and those about time only if `timed`.
    """
    note = f" (torch {was.torch} before, {now.torch} now)" if was.torch != now.torch else ""
    members, whole = was.members(), _complete(was, now, chosen)
    outcomes: list[Outcome] = []
    grown = set()
    metrics = {_GATED[column]: metric for column, metric in _METRICS.items()}
    for case in sorted(chosen, key=_in_order):
        group = was.group(case)
        growth = check_rules.growth(_laws(was, group), _laws(now, group)) if group in whole else {}
        for outcome in judge_case(case, was.cases[case], now.cases.get(case), growth, note, error_factor):
            outcomes.append(outcome)
            if outcome.verdict is Verdict.WORSE and outcome.quantity in metrics:
                grown.add((group, metrics[outcome.quantity]))

    def is_judged(name: FindingId) -> bool:
        return name.group in whole and (timed or not name.of_time)

    for name in filter(is_judged, {**was.laws, **now.laws}):
        column = _COLUMN_OF.get(name.what, "")
        counted = [case for case in members[name.group] if column and was.cases[case].status == "ok"]
        if name not in now.laws and {now.cases[case].count(column) for case in counted} == {0}:
            continue  # it costs nothing any more, which is told for each case
        eased = partial(check_rules.no_longer_rises, was, now, members[name.group], column)
        outcomes += check_rules.judge_law(
            name, was.laws.get(name), now.laws.get(name), (name.group, name.what) in grown, eased, note
        )
    return [*outcomes, *check_rules.judge_claims(was.claims, now.claims, is_judged, note)]


def is_of_time(outcome: Outcome) -> bool:
    """Whether the outcome depends on the clock: a claim or an exponent of time."""
    return outcome.quantity == f"claim of {TIMED}" or outcome.quantity.startswith(f"exponent of {TIMED} ")


def doubtful_cases(was: Baseline, outcomes: Iterable[Outcome]) -> list[Case]:
    """The cases to time a second time.

    These are all cases of every impl and setting whose time seems to have got worse.
    """
    subjects = {outcome.subject for outcome in outcomes if outcome.verdict is Verdict.WORSE and is_of_time(outcome)}
    return [case for case in was.cases if FindingId(*was.group(case), TIMED).subject in subjects]


def with_confirmation(first: Sequence[Outcome], second: Iterable[Outcome]) -> list[Outcome]:
    """Return the `first` outcomes, with each regression of time checked against the `second` measurement.

    A regression counts only if the second measurement shows it too. If that measurement is undecided or failed, the
    outcome becomes undecided or unmeasured, never passed.
    """
    again = {(outcome.subject, outcome.quantity): outcome.verdict for outcome in second}
    confirmed = []
    for outcome in first:
        if outcome.verdict is Verdict.WORSE and is_of_time(outcome):
            verdict = again.get((outcome.subject, outcome.quantity), Verdict.UNMEASURED)
            reason = f"worse at first, {verdict.outcome} when measured a second time: {outcome.reason}"
            if verdict in (Verdict.EQUIVALENT, Verdict.BETTER):
                verdict, reason = Verdict.EQUIVALENT, f"not when measured a second time: {outcome.reason}"
            if verdict is not Verdict.WORSE:
                outcome = replace(outcome, verdict=verdict, reason=reason)
        confirmed.append(outcome)
    return confirmed


def check_remarks(was: Baseline, now: Baseline, chosen: Collection[Case], outcomes: Iterable[Outcome]) -> list[str]:
    """Sentences to print beside the outcomes.

    They name another torch version, other CPU instructions, and groups whose cost models and claims cannot be judged.
    They also suggest a new baseline if anything improved.
    """
    remarks = []
    if was.torch != now.torch:
        remarks.append(
            f"The baseline was measured with torch {was.torch}, this with {now.torch}: what differs may be torch's."
        )
    before, after = (of.machine.get("instructions") for of in (was, now))
    if before and after and before != after:
        remarks.append(f"The baseline's CPU had {before}, this one has {after}: kernels may choose other workspaces.")
    members, whole = was.members(), _complete(was, now, chosen)
    for group, cases in grouped(sorted(chosen, key=_in_order), was.group).items():
        number, why = len(members[group]), "not the same of its cases can be measured as before"
        if len(cases) < number:
            why = f"{len(cases)} of its {number} cases were chosen"
        elif group in was.incomplete:
            why = "its laws in the baseline are of other cases than the baseline holds"
        if group not in whole:
            remarks.append(f"{FindingId(*group, '').subject}: {why}, so no law or claim is judged.")
    if any(outcome.verdict is Verdict.BETTER for outcome in outcomes):
        remarks.append("Better than the baseline: write a new one, so that it stays so.")
    return remarks


def _complete(was: Baseline, now: Baseline, chosen: Collection[Case]) -> set[Group]:
    """The groups (impl and setting) whose cost models and claims cover the same cases in both baselines.

    All cases of the group were chosen, the same ones have status `ok`, and none was removed from the baseline. A case
    that could be measured only before, or only now, would give another cost model.
    """
    measured = [{case for case, facts in of.cases.items() if facts.status == "ok"} for of in (was, now)]
    unlike = measured[0] ^ measured[1] | was.cases.keys() - set(chosen)
    return {group for group, cases in was.members().items() if unlike.isdisjoint(cases)} - was.incomplete


def _laws(of: Baseline, group: Group) -> dict[str, LawKept]:
    return {name.what: law for name, law in of.laws.items() if name.group == group}


class Remeasurement:
    """Measures cases as `sweep` measures a grid, each time into a separate run.

    The first run, `first`, is at the configured `out`, if one is set. `scratch` is an empty temporary directory, used
    for everything else. With `timed` the cases are timed; without it, only their facts are taken. The processes that
    trials are forked from end with the `session`.
    """

    def __init__(self, config: SweepConfig, scratch: Path, console: Console, timed: bool) -> None:
        self.first, self.second = config.out or scratch / "first", scratch / "second"
        self.timed = timed
        self._config, self._console = config, console
        run_directory.check_new(self.first)
        self.session = Session.of(config, scratch / COMPILE_CACHE)

    def take(self, cases: Collection[Case], out: Path) -> Baseline:
        """Measure the cases into a new run at `out`, and return the results as a baseline.

        If a layer can no longer be loaded, its cases end in error.
        """
        machine = self.session.machine()
        with run_directory.locked(out):
            axes = {axis: sorted({getattr(case, axis) for case in cases}) for axis in AXES}
            config = {**yaml.safe_load(self._config.yaml), **axes}
            run_directory.create(out, yaml.safe_dump(config, sort_keys=False, allow_unicode=True), machine)
            lost = self._lost(cases)
            left = [case for case in cases if case.impl not in lost]
            rows = [
                row_of(case, case.impl.partition(".")[0], "plan", TrialOutcome("error", lost[case.impl]).entries)
                for case in sorted(cases)
                if case.impl in lost
            ]
            phase: Phase = "all" if self.timed else "prepare"
            self.session.measure_into(out, left, self._console, phase, first=rows)
        lines, _ = summarise.summarise_run(out, self._config.precision)
        return baseline_of(lines, machine, self._config.seed, harness.__version__)

    def _lost(self, cases: Collection[Case]) -> dict[str, str]:
        """The reason for each layer that can no longer be loaded."""
        lost = {}
        for impl in dict.fromkeys(case.impl for case in cases):
            try:
                layer_lookup.check_name(impl)
                self.session.describe(impl)
            except UsageError as error:
                lost[impl] = str(error)
        return lost


def judge_twice(
    was: Baseline, cases: Collection[Case], measured: Remeasurement, error_factor: float
) -> tuple[list[Outcome], Baseline]:
    """The outcomes of the cases, and the new measurement as a baseline. Doubtful times are measured twice."""
    now = measured.take(cases, measured.first)
    outcomes = judge_baseline(was, now, cases, measured.timed, error_factor)
    if again := doubtful_cases(was, outcomes):
        second = measured.take(again, measured.second)
        outcomes = with_confirmation(outcomes, judge_baseline(was, second, again, measured.timed))
    return outcomes, now


def split_filters(overrides: Iterable[str]) -> tuple[list[str], list[str]]:
    """`(overrides of axes, other overrides)`. Raises UsageError for an override that defines a grid."""
    axes, others = list[str](), list[str]()
    for text in with_options(map(key_value_options.present_option, overrides)):
        name = text.partition("=")[0].lstrip("+~")
        if name in ("preset", "shape"):
            raise UsageError(f"{text}: the cases are those of the file, and {name} chooses none of them; give axes")
        (axes if name in (*AXES, HEAD_DIM) else others).append(text)
    return axes, others


def _of_head_dim(cases: Sequence[Case], sizes: Collection[int]) -> list[Case]:
    """The cases with heads of these widths, and those of the same d_model of layers without heads."""
    with_heads = {case.impl for case in cases if case.num_heads > 1}
    chosen = {case for case in cases if case.impl in with_heads and case.d_model in {s * case.num_heads for s in sizes}}
    widths = {case.d_model for case in chosen}
    return [case for case in cases if case in chosen or (case.impl not in with_heads and case.d_model in widths)]


# A layer in an environment, with the defaults of its options now. A baseline knows those of declared axes alone.
_Described = Callable[[str, str], layer_lookup.Layer]


def _has(case: Case, axis: str, value: object, cases: Collection[Case], described: _Described) -> bool:
    """Whether the case has the value. A default that is given as an option is the usual case."""
    if axis == "options" and value != NO_OPTIONS and isinstance(cases, Mapping):
        options = own_axes.without_default_sizes(cases[case].own_axes, str(value))
        value = without_defaults(options, described(case.impl, case.env).options or {})
    return getattr(case, axis) == value


def choose_cases(
    cases: Collection[Case],
    overrides: Sequence[str],
    place: object,
    described: _Described = lambda impl, env: layer_lookup.Layer(),
) -> list[Case]:
    """The cases that have one of the requested values on each axis. `place` names their origin in messages.

    Raises UsageError for a value that no case has, and if no case matches all overrides.
    """
    left = every = sorted(cases, key=_in_order)
    impls = sorted({case.impl for case in cases})
    hydra_adapter.check_unrepeated(overrides)
    filters = hydra_adapter.split(overrides, (*AXES, HEAD_DIM), {}, impls)[0]
    head_dim = filters.pop(HEAD_DIM, None)
    for axis, values in filters.items():
        requested = key_value_options.flattened(values)
        if axis == "impl":
            requested = [name for value in requested for name in key_value_options.matching(str(value), impls)]
        chosen = set()
        for value in requested:
            having = [case for case in every if _has(case, axis, value, cases, described)]
            if not having:
                present = dict.fromkeys(getattr(case, axis) for case in every)
                names = list(map(str, present if axis == "options" else sorted(present)))
                instead = f"; it has {','.join(names)}"
                if axis == "impl":
                    instead = layer_lookup.near_layer(str(value), names)
                raise UsageError(f"{axis}={value}: no case of {place} has it{instead}")
            chosen.update(having)
        left = [case for case in left if case in chosen]
    if head_dim is not None:
        left = _of_head_dim(left, key_value_options.flattened(head_dim))
    if not left:
        raise UsageError(f"no case of {place} has {' '.join(overrides)} all at once")
    return left
