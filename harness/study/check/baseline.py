"""A baseline: facts, cost models and claims of some cases, to be compared with a later measurement; and its file.

Every entry has a name: `key=value` for everything that distinguishes it, like a case's key. The file is JSON in a fixed
order, one small item a line, so that diffs are easy to read. Users may edit it. Reading reports a damaged file in one
line.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mode
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, WrapValidator, create_model, model_validator

from harness.core.config import key_value_options
from harness.core.config.machine import Machine, kind_of_machine, part
from harness.core.model import file_io, own_axes
from harness.core.model.errors import UsageError, usage_error_about
from harness.core.model.file_validation import Count, Damaged, FileModel, checked, one_of
from harness.core.model.sweep_axes import AXES, DEFAULTS, STATUSES, Case, Setting, readable
from harness.core.results.columns import COUNTS, CaseResult
from harness.core.results.row import check_facts
from harness.study.claims.claims_table import VERDICTS, verdicts
from harness.study.laws.fitted_laws import METRICS, FittedLaw, fit_laws
from harness.study.laws.laws import Range
from harness.study.laws.roofline import roofs, with_suspects
from harness.study.report.document import grouped
from impls.registry import IMPLS

# The metric that depends on the clock: its values differ from run to run.
TIMED = "time"
# The layer and the setting of a series.
Group = tuple[str, Setting]


@dataclass(frozen=True, order=True)
class FindingId:
    """The name of a cost model or claim: its impl, its setting, and its quantity (`memory`, `work`, …)."""

    impl: str
    setting: Setting
    what: str

    @property
    def key(self) -> str:
        """The key in the file: unique, stable, and one line."""
        parts = {"impl": self.impl, **self.setting.as_dict(), "of": self.what}
        return " ".join(f"{name}={value}" for name, value in parts.items())

    @property
    def group(self) -> Group:
        """The impl and setting."""
        return self.impl, self.setting

    @property
    def of_time(self) -> bool:
        """Whether it depends on the clock."""
        return self.what == TIMED

    @property
    def subject(self) -> str:
        """The readable form: the impl, and whatever is unusual in its setting."""
        return f"{self.impl} {readable(self.setting.as_dict())}".rstrip()


def parse_case(key: str) -> Case:
    """Parse a case's key. Raises ValueError, with the reason, for anything else."""
    return _case(_parts(key, "seq_len"))


def parse_finding_id(key: str) -> FindingId:
    """Parse the key of a cost model or claim. Raises ValueError, with the reason, for anything else."""
    parts = _parts(key, "mode")
    what = parts.pop("of", "")
    if not what:
        raise ValueError("it does not say of what it is (of=…)")
    # A setting has no sizes: complete it to a case of size 1, which can be checked.
    sizes = {name: "1" for name in ("seq_len", "d_model", "num_heads") if name not in parts}
    if parts.get("kv_len") == "m":
        sizes["kv_len"] = "1"
    case = _case({**parts, **sizes})
    setting = Setting.of(case)
    return FindingId(case.impl, setting.of_any_source if "kv_len" in sizes else setting, what)


def _parts(key: str, first: str) -> dict[str, Any]:
    """The values by axis. `first` is the axis that follows the impl."""
    # An impl can be a file's path, which may contain spaces.
    beginning = re.match(rf"impl=(.+) (?={first}=)", key, re.DOTALL)
    if beginning is None:
        raise ValueError(f"it does not begin with impl=… {first}=…")
    parts = {"impl": beginning[1]}
    for word in key[beginning.end() :].split(" "):
        name, equals, value = word.partition("=")
        if not equals or not value or name in parts or name not in (*AXES, "of"):
            raise ValueError(f"'{word}' is not of the form axis=value")
        parts[name] = value
    return parts


def _case(parts: Mapping[str, Any]) -> Case:
    lacking = [name for name in AXES if name not in parts and name not in DEFAULTS]
    if lacking:
        raise ValueError(f"it has no {lacking[0]}")
    if "of" in parts:
        raise ValueError("a case is not of anything")
    values = {name: AXES[name].type(text) for name, text in parts.items()}
    case = Case(**values)
    # A layer that no longer exists does not damage the file: the measurement will report it. A known impl replaces it
    # here, so that only the other axes are checked.
    key_value_options.check_axes(replace(case, impl=next(iter(IMPLS))).as_dict())
    return case


_COUNTS: dict[str, Any] = dict.fromkeys(COUNTS, (Count | None, ...))
_COUNTS["transient_bytes"] = (Annotated[int, Field(gt=-(2**63), lt=2**63)] | None, ...)  # may be negative
_COUNTS["kept_bytes"] = (Count | None, None)  # files of earlier versions have none
# Errors against the float64 reference. Files of earlier versions have none.
ERRORS = ("output_error", "gradient_error")
_Error = Annotated[FiniteFloat, Field(ge=0)] | None


class Facts(FileModel):
    """The facts of a case: columns of `summary.csv`. Each of `COUNTS` is a field too. Unknown ones are None."""

    status: Annotated[str, one_of(STATUSES)]
    reason: str | None
    backend: str | None
    output_error: _Error = None
    gradient_error: _Error = None
    own_axes: str | None = None

    @model_validator(mode="after")
    def _agrees(self) -> "Facts":
        check_facts(vars(self))
        return self

    @staticmethod
    def of(line: CaseResult) -> "Facts":
        """The facts in a line of `summary.csv`."""
        facts = {name: getattr(line, name) for name in _FACTS.model_fields}
        # Three digits: the others differ between processors.
        errors = {name: float(f"{facts[name]:.3g}") for name in ERRORS if facts[name] is not None}
        return _FACTS.model_construct(**facts | errors)

    def count(self, column: str) -> int | None:
        """One of `COUNTS`."""
        return getattr(self, column)

    def as_dict(self) -> dict[str, Any]:
        """The facts by column, in the order of the file."""
        facts = self.model_dump()
        last = {name: facts.pop(name) for name in ("backend", *ERRORS, "own_axes")}
        return facts | {name: fact for name, fact in last.items() if fact is not None or name == "backend"}


def _group(case: Case, facts: Facts) -> Group:
    """The impl and setting that name the cost models and claims of a case: other sizes and sources are none of it."""
    options = own_axes.other_options(facts.own_axes, case.options)
    return case.impl, Setting.of(case)._replace(options=options).of_any_source


def _measured(cases: Mapping[Case, Facts]) -> Counter[Group]:
    """The number of measured cases by impl and setting."""
    return Counter(_group(case, facts) for case, facts in cases.items() if facts.status == "ok")


_FACTS = create_model("Facts", __base__=Facts, **_COUNTS)
_End = FiniteFloat | None
_SUFFIXES = ("", "_lo", "_hi")


def _rounded(exponent: Range | None) -> list[float | None]:
    """The exponent and its ends to six digits, since the last ones depend on other libraries. −0.0 becomes 0.0."""
    ends = (exponent.value, exponent.lo, exponent.hi) if exponent else (math.inf,) * 3
    return [round(end, 6) + 0.0 if math.isfinite(end) else None for end in ends]


class LawKept(FileModel):
    """A cost model as text, and its exponents at the largest sizes, with their intervals.

    An axis that did not vary has no exponent. An end of an interval that is infinite is None. `own_exponents` are along
    the layer's own axes: value, lower and upper end by letter. `cases` is the number of measured cases that the model
    covers; None in files of earlier versions.
    """

    law: str
    exact: bool
    determined: bool
    exponent_n: _End
    exponent_n_lo: _End
    exponent_n_hi: _End
    exponent_d: _End
    exponent_d_lo: _End
    exponent_d_hi: _End
    own_exponents: dict[str, Annotated[list[_End], Field(min_length=3, max_length=3)]] = Field(default={})
    cases: Count | None = None

    @staticmethod
    def of(fitted: FittedLaw, cases: int) -> "LawKept":
        """A fitted cost model with its exponents in n, in d, and along the layer's own axes."""
        law = fitted.law
        names = [f"exponent_{axis}{suffix}" for axis in "nd" for suffix in _SUFFIXES]
        ends = dict(zip(names, _rounded(fitted.exponent_n) + _rounded(fitted.exponent_d), strict=True))
        of_own = {axis: _rounded(exponent) for axis, exponent in fitted.own_exponents.items()}
        return LawKept(
            law=str(law), exact=law.exact, determined=law.determined, own_exponents=of_own, cases=cases, **ends
        )

    @property
    def axes(self) -> tuple[str, ...]:
        """The letters of the axes along which a cost may grow."""
        return ("n", "d", *self.own_exponents)

    def exponent(self, axis: str) -> Range | None:
        """The exponent along an axis; None if the axis did not vary."""
        of_size = (getattr(self, f"exponent_{axis}{suffix}", None) for suffix in _SUFFIXES)
        value, lo, hi = self.own_exponents.get(axis, of_size)
        if value is None:
            return None
        return Range(value, -math.inf if lo is None else lo, math.inf if hi is None else hi)

    @model_validator(mode="after")
    def _lies_between_its_ends(self) -> "LawKept":
        for axis in self.axes:
            exponent = self.exponent(axis)
            if exponent and not exponent.lo <= exponent.value <= exponent.hi:
                raise ValueError(f"exponent_{axis} does not lie between its ends")
        return self


class ClaimKept(FileModel):
    """A theoretical claim and its verdict."""

    claimed: str
    measured: str
    verdict: Annotated[str, one_of(VERDICTS)]


@dataclass(frozen=True)
class Baseline:
    """The facts of `cases`, and the `laws` and `claims` of each impl in one setting.

    `torch` is the version that was measured and `machine` describes the machine. Both are for people to read, as is
    `times_s`. Each commit in `known_bad` made a layer slower than its parent: `compare --prove` must find that.
    """

    harness: str
    torch: str
    seed: int
    machine: Mapping[str, str]
    cases: Mapping[Case, Facts]
    laws: Mapping[FindingId, LawKept]
    claims: Mapping[FindingId, ClaimKept]
    times_s: Mapping[Case, float] = field(default_factory=dict)
    known_bad: tuple[str, ...] = ()

    def group(self, case: Case) -> Group:
        """The impl and setting of the cases that share cost models and claims with this one."""
        return _group(case, self.cases[case])

    def members(self) -> dict[Group, list[Case]]:
        """The cases by impl and setting. One cost model or claim covers all cases of a group."""
        return grouped(self.cases, self.group)

    @property
    def incomplete(self) -> set[Group]:
        """Impls and settings of which cases were added or removed since: their cost models cover other cases."""
        measured = _measured(self.cases)
        return {name.group for name, law in self.laws.items() if law.cases not in (None, measured[name.group])}


def baseline_of(lines: Sequence[CaseResult], machine: Machine, seed: int, harness: str) -> Baseline:
    """A baseline of a run's lines, without suspect times. `machine` is the content of the run's `machine.json`."""
    judged = sorted(with_suspects(lines, roofs(machine)), key=lambda line: line.case)
    laws = fit_laws(judged)
    cases = {line.case: Facts.of(line) for line in judged}
    measured = _measured(cases)
    names = {FindingId(law.series.impl, law.series.setting, law.series.metric): law for law in laws}
    return Baseline(
        harness=harness,
        torch=str(part(machine, "torch").get("version", "unknown")),
        seed=seed,
        machine=kind_of_machine(machine),
        cases=cases,
        laws={name: LawKept.of(fitted, measured[name.group]) for name, fitted in names.items()},
        claims={
            FindingId(claim.impl, claim.setting, claim.quantity): ClaimKept(
                claimed=claim.claimed, measured=claim.measured, verdict=claim.verdict
            )
            for claim in verdicts(judged, laws)
        },
        times_s={line.case: line.time_s for line in judged if line.time_s and not line.suspect},
    )


SCHEMA = 1
NOTE = "by the clock: another at every run. Of the laws only how time grows is checked, and no time ever"


def baseline_text(baseline: Baseline) -> str:
    """The file's text. For two runs of the same code, only the section `timed` can differ."""

    def section(findings: Mapping[FindingId, LawKept | ClaimKept], of_time: bool) -> dict[str, Any]:
        chosen = [name for name in findings if name.of_time is of_time]
        chosen.sort(key=lambda name: (name.impl, name.setting, (*METRICS, name.what).index(name.what), name.what))
        # A layer without own axes has no exponents along them.
        return {name.key: findings[name].model_dump(exclude_defaults=True) for name in chosen}

    content = {
        "schema": SCHEMA,
        "harness": baseline.harness,
        "torch": baseline.torch,
        "seed": baseline.seed,
        **({"known_bad": list(baseline.known_bad)} if baseline.known_bad else {}),
        "machine": dict(baseline.machine),
        "cases": {case.key: baseline.cases[case].as_dict() for case in sorted(baseline.cases)},
        "laws": section(baseline.laws, of_time=False),
        "claims": section(baseline.claims, of_time=False),
        "timed": {
            "note": NOTE,
            "laws": section(baseline.laws, of_time=True),
            "claims": section(baseline.claims, of_time=True),
            "times_s": {case.key: float(f"{baseline.times_s[case]:.3g}") for case in sorted(baseline.times_s)},
        },
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _named_by(parse: Callable[[str], Any]) -> WrapValidator:
    """The validator of an object whose names are keys: `parse` makes each of them a value."""

    def validate(entries: Any, of_values: Callable[[Any], Any]) -> Any:
        by_name: dict[Any, Any] = {}
        for text, value in of_values(entries).items():
            try:
                name = parse(text)
            except (ValueError, UsageError) as error:
                raise ValueError(f"'{text[:200]}' names nothing: {error}") from error
            if name in by_name:
                raise ValueError(f"'{text}' occurs twice")
            by_name[name] = value
        return by_name

    return WrapValidator(validate)


class _Findings(FileModel):
    laws: Annotated[dict[Any, LawKept], _named_by(parse_finding_id)]
    claims: Annotated[dict[Any, ClaimKept], _named_by(parse_finding_id)]


class _Timed(_Findings):
    note: Any
    times_s: Any


class _File(_Findings):
    harness: str
    torch: str
    seed: Count
    known_bad: list[Annotated[str, Field(pattern="^[0-9a-f]{40,64}$")]] = Field(default_factory=list)
    machine: dict[str, Any]
    cases: Annotated[dict[Any, _FACTS], _named_by(parse_case)]  # type: ignore[valid-type]
    timed: _Timed

    @model_validator(mode="after")
    def _belongs_together(self) -> "_File":
        if not self.cases:
            raise ValueError("it names no case")
        groups = {_group(case, facts) for case, facts in self.cases.items()}
        for section, of_time in ((self, False), (self.timed, True)):
            for name in (*section.laws, *section.claims):
                if name.of_time is not of_time:
                    raise ValueError(f"'{name.key}': `timed` must hold everything about time, and nothing else")
                if name.group not in groups:
                    raise ValueError(f"'{name.key}' is of no case that it names")
                if name in section.laws and name.what not in METRICS:
                    raise ValueError(f"'{name.key}': a law is of one of {', '.join(METRICS)}")
        return self


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Replace the file's content with the baseline, whole or not at all. Raises UsageError if it cannot be written."""
    text = baseline_text(baseline)
    target = path.resolve()  # replace a link's target, not the link
    with usage_error_about(path):
        if target.exists() and not target.is_file():  # a directory raises OSError; a pipe is written to directly
            target.write_text(text, encoding="utf-8", errors="replace")
        else:
            file_io.write_atomically(target, text)


def read_baseline(path: Path) -> Baseline:
    """The baseline in the file. Raises UsageError, with a message of one line, if the file holds none."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory; a baseline is a file: python -m harness baseline RUN -o FILE")
    try:
        with usage_error_about(path):
            text = file_io.read_text(path)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a baseline: it is no text") from error
    try:
        return _baseline(_parsed(text))
    except Damaged as damage:
        raise UsageError(f"{path} is not a baseline that can be read: {damage}") from damage


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except Damaged:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} is not JSON, or the file is cut off" if text.strip() else "it is empty"
        raise Damaged(where) from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or lists nested too deeply
        raise Damaged("it is not JSON that anybody wrote") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise Damaged(f"'{mode(name for name, _ in pairs)}' occurs twice")
    return entries


def _no_number(name: str) -> float:
    raise Damaged(f"{name} is no number")


def _baseline(content: Any) -> Baseline:
    schema = content.pop("schema", None) if isinstance(content, dict) else None
    if schema is None:
        raise Damaged("it has no schema")
    if type(schema) is not int or schema != SCHEMA:
        raise Damaged(f"its schema is {schema!r}, this harness reads {SCHEMA}: write a new one with `baseline`")
    file = checked(_File, content)
    machine = {name: str(value) for name, value in file.machine.items()}
    laws, claims = file.laws | file.timed.laws, file.claims | file.timed.claims
    known_bad = tuple(file.known_bad)
    return Baseline(file.harness, file.torch, file.seed, machine, file.cases, laws, claims, known_bad=known_bad)
