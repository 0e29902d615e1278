"""A baseline: facts, cost models and claims of some cases, to be compared with a later measurement.

Every entry has a name: `key=value` for everything that distinguishes it, like a case's key.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_type_hints

from harness import registry
from harness.analysis.claims_table import Verdict
from harness.analysis.fitted_laws import FittedLaw
from harness.analysis.series import Setting
from harness.case import AXES, DEFAULTS, FORMER_AXES, Case
from harness.config.axes import check_axes
from harness.fit.laws import Range
from harness.former_names import FORMER
from harness.results.table import CaseResult

_TYPES = get_type_hints(Case)
# Common values, which the readable form leaves out.
_OMITTED_DEFAULTS = {
    "mode": "forward",
    "dtype": "float32",
    "device": "cpu",
    "allocator": "default",
    "padding_fraction": 0.0,
}
_SETTING = tuple(field.name for field in fields(Setting))


@dataclass(frozen=True, order=True)
class FindingId:
    """The name of a cost model or claim: its impl, its setting, and its quantity (`memory`, `work`, …)."""

    impl: str
    setting: tuple[Any, ...]
    what: str

    @classmethod
    def of(cls, impl: str, setting: Setting, what: str) -> "FindingId":
        """The name for a quantity of an impl in a setting."""
        return cls(impl, tuple(getattr(setting, name) for name in _SETTING), what)

    @property
    def key(self) -> str:
        """The key in the file: unique, stable, and one line."""
        held = {"impl": self.impl, **dict(zip(_SETTING, self.setting, strict=True)), "of": self.what}
        return " ".join(f"{name}={value}" for name, value in held.items())

    @property
    def subject(self) -> str:
        """The readable form: the impl, and whatever is unusual in its setting."""
        return " ".join([self.impl, *_unusual(dict(zip(_SETTING, self.setting, strict=True)))])


def group(case: Case) -> tuple[str, tuple[Any, ...]]:
    """The impl and setting of a case. Cases with the same pair share their cost models and claims."""
    return case.impl, tuple(getattr(case, name) for name in _SETTING)


def subject_of(case: Case) -> str:
    """A case in readable form: its sizes, and whatever is unusual. No two cases have the same."""
    return f"{case.impl} {size_label(case)}"


def size_label(case: Case) -> str:
    """The readable form without the impl: `n=2048 d=128 h=8`."""
    source = [f"m={case.kv_len}"] if case.kv_len else []
    batch = [f"b={case.batch_size}"] if case.batch_size > 1 else []
    sizes = [f"n={case.seq_len}", *source, f"d={case.d_model}", f"h={case.num_heads}", *batch]
    return " ".join([*sizes, *_unusual({name: getattr(case, name) for name in _SETTING if name != "kv_len"})])


def _unusual(setting: Mapping[str, Any]) -> list[str]:
    said = [
        str(value) for name, value in setting.items() if name in _OMITTED_DEFAULTS and value != _OMITTED_DEFAULTS[name]
    ]
    if setting["mask"] != "none":
        said.append(setting["mask"])
    if setting.get("kv_len"):
        said.append(f"m={setting['kv_len']}")
    return [*said, f"threads={setting['threads']}"] if setting["threads"] > 1 else said


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
    impl, setting = group(_case({**parts, **sizes}))
    return FindingId(impl, setting, what)


def _parts(key: str, first: str) -> dict[str, str]:
    """The values by axis. `first` is the axis that follows the impl."""
    # An impl can be a file's path, which may contain spaces.
    impl, begins, others = key.rpartition(f" {first}=")
    if not begins or not impl.removeprefix("impl=") or not impl.startswith("impl="):
        raise ValueError(f"it does not begin with impl=… {first}=…")
    parts = {"impl": impl.removeprefix("impl=")}
    for word in f"{first}={others}".split(" "):
        name, equals, value = word.partition("=")
        if not equals or not value or name in parts or name not in (*AXES, *FORMER_AXES, "of"):
            raise ValueError(f"'{word}' is not of the form axis=value")
        parts[name] = value
    return {FORMER[name][0] if name in FORMER else name: _present_value(name, text) for name, text in parts.items()}


def _present_value(name: str, text: str) -> str:
    """The text of an axis's value. `real_share` was one minus what its axis is now."""
    return str(FORMER[name][1](float(text))) if name == "real_share" else text


def _case(parts: Mapping[str, str]) -> Case:
    lacking = [name for name in AXES if name not in parts and name not in DEFAULTS]
    if lacking:
        raise ValueError(f"it has no {lacking[0]}")
    if "of" in parts:
        raise ValueError("a case is not of anything")
    values = {name: _TYPES[name](text) for name, text in parts.items()}
    case = Case(**values)
    # A layer that no longer exists does not damage the file: the measurement will report it. A known impl replaces it
    # here, so that only the other axes are checked.
    check_axes(replace(case, impl=registry.names()[0]).as_dict())
    return case


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
    laws: Mapping[FindingId, LawKept]
    claims: Mapping[FindingId, ClaimKept]
    times_s: Mapping[Case, float] = field(default_factory=dict)

    def members(self) -> dict[tuple[str, tuple[Any, ...]], list[Case]]:
        """The cases by impl and setting. One cost model or claim covers all cases of a group."""
        found: dict[tuple[str, tuple[Any, ...]], list[Case]] = {}
        for case in self.cases:
            found.setdefault(group(case), []).append(case)
        return found


def baseline_of(
    lines: Sequence[CaseResult],
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
        laws={_kept_law(law): _kept_claims(law) for law in laws},
        claims={
            FindingId.of(one.impl, one.setting, one.quantity): ClaimKept(one.claimed, one.measured, one.verdict)
            for one in verdicts
        },
        times_s={case: time_s for case in sorted(cases) if (time_s := cases[case].time_s) is not None},
    )


def _facts(line: CaseResult) -> Facts:
    return Facts(**{one.name: getattr(line, one.name) for one in fields(Facts)})


def _kept_law(fitted: FittedLaw) -> FindingId:
    return FindingId.of(fitted.series.impl, fitted.series.setting, fitted.series.metric)


def _kept_claims(fitted: FittedLaw) -> LawKept:
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
