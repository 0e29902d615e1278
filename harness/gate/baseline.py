"""A baseline: facts, cost models and claims of some cases, to be compared with a later measurement."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from harness.case import Case
from harness.findings.laws import FittedLaw
from harness.findings.verdicts import Verdict
from harness.gate.keyed import Named, group
from harness.scaling.law import Range
from harness.summary import Line

# Whole numbers that repeat exactly, in the order of the file.
COUNTS = (
    *("flops", "flops_full", "ops", "depth", "depth_declared", "peak_bytes", "min_bytes"),
    *("weights_bytes", "inputs_bytes", "saved_bytes", "transient_bytes"),
)
# The metric that depends on the clock: its values differ from run to run.
TIMED = "time"
_DIGITS = 6
_UNKNOWN = "unknown"


@dataclass(frozen=True)
class Facts:
    """The facts of a case: columns of `summary.csv`. Unknown ones are None."""

    status: str
    reason: str | None = None
    backend: str | None = None
    flops: int | None = None
    flops_full: int | None = None
    ops: int | None = None
    depth: int | None = None
    depth_declared: int | None = None
    peak_bytes: int | None = None
    min_bytes: int | None = None
    weights_bytes: int | None = None
    inputs_bytes: int | None = None
    saved_bytes: int | None = None
    transient_bytes: int | None = None


@dataclass(frozen=True)
class LawKept:
    """A cost model as text, and its exponents at the largest sizes. An axis that did not vary has None."""

    law: str
    exact: bool
    determined: bool
    exponent_n: Range | None
    exponent_d: Range | None


@dataclass(frozen=True)
class ClaimKept:
    """A theoretical claim and its verdict."""

    claimed: str
    measured: str
    verdict: str


@dataclass(frozen=True)
class Baseline:
    """The facts of `cases`, and the `laws` and `claims` of each impl in one setting.

    `torch` is the version that was measured and `machine` describes the machine. Both are for people to read, as is
    `times_s`.
    """

    harness: str
    torch: str
    seed: int
    machine: Mapping[str, str]
    cases: Mapping[Case, Facts]
    laws: Mapping[Named, LawKept]
    claims: Mapping[Named, ClaimKept]
    times_s: Mapping[Case, float] = field(default_factory=dict)

    def members(self) -> dict[tuple[str, tuple[Any, ...]], list[Case]]:
        """The cases by impl and setting. One cost model or claim covers all cases of a group."""
        found: dict[tuple[str, tuple[Any, ...]], list[Case]] = {}
        for case in self.cases:
            found.setdefault(group(case), []).append(case)
        return found


def baseline_of(
    lines: Sequence[Line],
    laws: Iterable[FittedLaw],
    verdicts: Iterable[Verdict],
    machine: Mapping[str, Any],
    seed: int,
    harness: str,
) -> Baseline:
    """Make a baseline from a run's lines, cost models and verdicts.

    `machine` is the content of the run's `machine.json`.
    """
    cases = {line.case: line for line in lines}
    torch = machine.get("torch")
    return Baseline(
        harness=harness,
        torch=str(torch.get("version", _UNKNOWN)) if isinstance(torch, dict) else _UNKNOWN,
        seed=seed,
        machine=_machine(machine),
        cases={case: _facts(cases[case]) for case in sorted(cases)},
        laws={_of_law(law): _kept(law) for law in laws},
        claims={
            Named.of(one.impl, one.setting, one.quantity): ClaimKept(one.claimed, one.measured, one.verdict)
            for one in verdicts
        },
        times_s={case: time_s for case in sorted(cases) if (time_s := cases[case].time_s) is not None},
    )


def _facts(line: Line) -> Facts:
    return Facts(**{one.name: getattr(line, one.name) for one in fields(Facts)})


def _of_law(fitted: FittedLaw) -> Named:
    return Named.of(fitted.series.impl, fitted.series.setting, fitted.series.metric)


def _kept(fitted: FittedLaw) -> LawKept:
    law = fitted.law
    return LawKept(str(law), law.exact, law.determined, _rounded(fitted.exponent_n), _rounded(fitted.exponent_d))


def _rounded(value: Range | None) -> Range | None:
    """Round to six digits, since the last ones depend on other libraries. −0.0 becomes 0.0."""
    if value is None:
        return None
    return Range(*(round(end, _DIGITS) + 0.0 for end in (value.value, value.lo, value.hi)))


def _machine(machine: Mapping[str, Any]) -> dict[str, str]:
    """The properties of the machine that stay the same from run to run."""
    cpu, torch = machine.get("cpu"), machine.get("torch")
    known = {
        "processor": cpu.get("model") if isinstance(cpu, dict) else None,
        "threads": cpu.get("usable") if isinstance(cpu, dict) else None,
        "instructions": torch.get("cpu_capability") if isinstance(torch, dict) else None,
        "gpu": torch.get("gpu") if isinstance(torch, dict) else None,
        "python": machine.get("python"),
    }
    return {name: str(value) for name, value in known.items() if value is not None}
