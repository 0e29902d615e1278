"""A baseline: what is known of some cases, so that somebody can later ask whether any of it got worse."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from harness.case import Case
from harness.findings.laws import FittedLaw
from harness.findings.verdicts import Verdict
from harness.gate.keyed import Named, group
from harness.scaling.law import Range
from harness.summary import Line

# Whole numbers that repeat exactly, in the order in which they stand in the file.
COUNTS = (
    *("flops", "flops_full", "ops", "depth", "depth_declared", "peak_bytes", "min_bytes"),
    *("weights_bytes", "inputs_bytes", "saved_bytes", "transient_bytes"),
)
# What follows from the clock is another at every run.
TIMED = "time"
_DIGITS = 6
_UNKNOWN = "unknown"


@dataclass(frozen=True)
class Facts:
    """What is known of a case: columns of `summary.csv`; None where it is not known."""

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
    """A law as it is written, and how its cost grows at the largest sizes: None along an axis not varied."""

    law: str
    exact: bool
    determined: bool
    exponent_n: Range | None
    exponent_d: Range | None


@dataclass(frozen=True)
class ClaimKept:
    """A claim of theory, and what became of it."""

    claimed: str
    measured: str
    verdict: str


@dataclass(frozen=True)
class Baseline:
    """What is known of `cases`, and of all of an impl's in one setting together: `laws` and `claims`.

    `torch` is the version it was measured with, `machine` says where: both for people to read, as are `times_s`.
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
        """The cases by impl and setting: those that a law or a claim is of."""
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
    """The baseline that a run's lines, laws and verdicts are; `machine` is what its machine.json holds."""
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
    """The last digits are another library's to decide; minus nothing is nothing."""
    if value is None:
        return None
    return Range(*(round(end, _DIGITS) + 0.0 for end in (value.value, value.lo, value.hi)))


def _machine(machine: Mapping[str, Any]) -> dict[str, str]:
    """What does not change from run to run."""
    cpu, torch = machine.get("cpu"), machine.get("torch")
    known = {
        "processor": cpu.get("model") if isinstance(cpu, dict) else None,
        "threads": cpu.get("usable") if isinstance(cpu, dict) else None,
        "instructions": torch.get("cpu_capability") if isinstance(torch, dict) else None,
        "gpu": torch.get("gpu") if isinstance(torch, dict) else None,
        "python": machine.get("python"),
    }
    return {name: str(value) for name, value in known.items() if value is not None}
