"""A baseline as text: JSON in a fixed order, one small item a line, so that diffs are easy to read."""

import json
import math
from typing import Any

from harness.findings.series import METRICS
from harness.gate.baseline import COUNTS, TIMED, Baseline, LawKept
from harness.gate.keyed import Named
from harness.scaling.law import Range

SCHEMA = 1
NOTE = "by the clock: another at every run. Of the laws only how time grows is checked, and no time ever"
AXES = ("n", "d")


def text_of(baseline: Baseline) -> str:
    """The file's text. For two runs of the same code, only the section `timed` can differ."""
    exact, timed = (
        {name: one for name, one in _laws(baseline).items() if (name.what == TIMED) is is_timed}
        for is_timed in (False, True)
    )
    claims, of_time = (
        {name: one for name, one in _claims(baseline).items() if (name.what == TIMED) is is_timed}
        for is_timed in (False, True)
    )
    held = {
        "schema": SCHEMA,
        "harness": baseline.harness,
        "torch": baseline.torch,
        "seed": baseline.seed,
        "machine": dict(baseline.machine),
        "cases": {case.key: _facts(baseline.cases[case]) for case in sorted(baseline.cases)},
        "laws": _by_key(exact),
        "claims": _by_key(claims),
        "timed": {
            "note": NOTE,
            "laws": _by_key(timed),
            "claims": _by_key(of_time),
            "times_s": {case.key: float(f"{baseline.times_s[case]:.3g}") for case in sorted(baseline.times_s)},
        },
    }
    return json.dumps(held, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _facts(facts: Any) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in ("status", "reason", *COUNTS, "backend")}


def _laws(baseline: Baseline) -> dict[Named, dict[str, Any]]:
    return {name: _law(law) for name, law in baseline.laws.items()}


def _law(law: LawKept) -> dict[str, Any]:
    held: dict[str, Any] = {"law": law.law, "exact": law.exact, "determined": law.determined}
    for axis in AXES:
        found: Range | None = getattr(law, f"exponent_{axis}")
        ends = (found.value, found.lo, found.hi) if found else (None, None, None)
        names = (f"exponent_{axis}", f"exponent_{axis}_lo", f"exponent_{axis}_hi")
        # JSON has no infinity, so an unbounded end is null.
        held |= {
            name: end if end is not None and math.isfinite(end) else None for name, end in zip(names, ends, strict=True)
        }
    return held


def _claims(baseline: Baseline) -> dict[Named, dict[str, Any]]:
    return {
        name: {"claimed": one.claimed, "measured": one.measured, "verdict": one.verdict}
        for name, one in baseline.claims.items()
    }


def _by_key(held: dict[Named, dict[str, Any]]) -> dict[str, Any]:
    def order(name: Named) -> tuple[Any, ...]:
        metric = METRICS.index(name.what) if name.what in METRICS else len(METRICS)
        return name.impl, name.setting, metric, name.what

    return {name.key: held[name] for name in sorted(held, key=order)}
