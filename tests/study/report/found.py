"""A run's lines and findings as a report is given them, made of numbers that the test chooses."""

from collections.abc import Sequence
from dataclasses import replace

from rows import usual_lines

from harness.core.model.polynomial import Term
from harness.core.model.sweep_axes import Setting
from harness.core.results.columns import CaseResult
from harness.study.analyse import Analysis
from harness.study.claims.claims_table import ClaimVerdict
from harness.study.claims.table1 import BeyondRow, Cell, Table1Row
from harness.study.laws.crossovers import Crossover
from harness.study.laws.fitted_laws import FittedLaw
from harness.study.laws.laws import Coefficient, Law, Range
from harness.study.laws.predict import HeldOut
from harness.study.laws.roofline import Roof, RoofPoint
from harness.study.laws.series import Series
from harness.study.report.provenance import Provenance

FORWARD = Setting()
EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>|`{{ 7 * 7 }}%{x}"


def some_lines() -> list[CaseResult]:
    """Naive and fused attention and an RNN, forward and in training, with work and a failure."""
    forward = [_with_work(line) for line in usual_lines()]
    train = [_scaled(line, 3.0) for line in forward]
    return [_failed(line) if _largest(line) else line for line in (*forward, *train)]


def _with_work(line: CaseResult) -> CaseResult:
    n, d = line.seq_len, line.d_model
    flops = 4 * n * d * d if line.family == "rnn" else 8 * n * d * d + 4 * n * n * d
    return replace(line, flops=flops, min_bytes=16 * n * d + 16 * d * d, time_lo_s=line.time_s * 0.9)


def _scaled(line: CaseResult, factor: float) -> CaseResult:
    times = {name: getattr(line, name) * factor for name in ("time_s", "time_lo_s", "time_hi_s")}
    return replace(line, mode="train", **times)


def _largest(line: CaseResult) -> bool:
    return (line.impl, line.seq_len, line.d_model, line.num_heads) == ("attention.naive", 2048, 256, 2)


def _failed(line: CaseResult) -> CaseResult:
    nothing = dict.fromkeys(("time_s", "time_lo_s", "time_hi_s", "peak_bytes", "flops", "min_bytes"))
    return replace(line, status="oom", reason="out of memory", **nothing)


def some_findings(lines: Sequence[CaseResult]) -> Analysis:
    """One of each kind, and points under a roof for all of the lines."""
    law = Law(
        (Coefficient(Term(n=1), 2e-6, 1e-6, 3e-6), Coefficient(Term(n=2, d=1), 3e-12, 2e-12, 4e-12)), ("n",), True, ""
    )
    work = Law((Coefficient(Term(n=1, d=2), 4.0, 4.0, 4.0),), ("n", "d"), True, "", exact=True)
    cell = Cell("O(n²·d)", "4n²d + 8nd²", "confirmed", "4n²d is the leading term")
    return Analysis(
        laws=[
            FittedLaw(Series("attention.fused", FORWARD, "time", ()), law, (), Range(1.87, 1.79, 2.0), None, 0.09),
            FittedLaw(Series("rnn.torch", FORWARD, "flops", ()), work, (), Range(1, 1, 1), Range(2, 2, 2), 0.0),
        ],
        verdicts=[
            ClaimVerdict(
                "attention.fused", FORWARD, "work", "8nd² + 4n²d", "4n²·d + 8n·d²", "confirmed", "to the last digit"
            ),
            ClaimVerdict(
                "attention.naive", FORWARD, "memory", "O(n²)", "n^1.10", "refuted", "n: 1.10 where the claim has 2"
            ),
        ],
        table1=[
            Table1Row(
                "Self-Attention", "attention.fused", cell, replace(cell, claimed="O(1)"), replace(cell, reason="")
            ),
            Table1Row("Convolutional", None, *[Cell("O(1)", "", "not measured", "no layer of this kind measured")] * 3),
        ],
        beyond_table1=[BeyondRow("Recurrent", "rnn.torch", *[Cell("O(1)", "", "not measured", "run mode=train")] * 2)],
        crossovers=[
            _crossover("attention.fused", "rnn.torch", 768.0, 700.0, 900.0),
            _crossover("rnn.torch", "attention.fused", None, 0.0, None),
            _crossover("attention.naive", "rnn.torch", None, 128.0, 512.0),
            _crossover("attention.naive", "attention.fused", 0.0, 0.0, 0.0),
        ],
        held_out=[
            HeldOut("rnn.torch", FORWARD, "time", 2048, 256, 1, 1, 512, 0.026, 0.02, 0.03, 0.0268),
            HeldOut("attention.naive", FORWARD, "memory", 2048, 256, 2, 1, 512, 3e7, 2.5e7, 3.2e7, 3.4e7),
        ],
        roofs=[Roof("float32", "cpu", 1, 2e11, 3e10, 1.2)],
        roof_points=[_point(line) for line in lines if line.time_s and line.mode == "forward"],
    )


def _crossover(slower: str, faster: str, n: float | None, lo: float | None, hi: float | None) -> Crossover:
    return Crossover(slower, faster, FORWARD, "time", 256, 8, 1, n, lo, hi, 64, 2048)


def _point(line: CaseResult) -> RoofPoint:
    rate, intensity = line.flops / line.time_s, line.flops / line.min_bytes
    return RoofPoint(line, FORWARD, intensity, rate, rate * 0.9, rate * 1.1, 0.5, 0.45, 0.55, "compute")


def some_origin(**machine: object) -> Provenance:
    """A run on a machine of which as much is known as given."""
    command = "python -m harness sweep impl=rnn.torch"
    return Provenance("2026-11-21_13-36-24", {"impl": "rnn.torch"}, command, machine, target=0.06)


def renamed(lines: Sequence[CaseResult], name: str) -> list[CaseResult]:
    """The lines with `attention.naive` under another name, and the reason of its failure too."""
    return [
        replace(line, impl=name, family="own", reason=name if line.reason else None)
        if line.impl == "attention.naive"
        else line
        for line in lines
    ]


def evil_findings(lines: Sequence[CaseResult]) -> Analysis:
    """Findings in which every text from outside is `EVIL`."""
    found = some_findings(lines)
    law = found.laws[0]
    open_law = replace(law.law, determined=False, reason=EVIL)
    return replace(
        found,
        laws=[replace(law, series=replace(law.series, impl=EVIL), law=open_law)],
        verdicts=[replace(one, impl=EVIL, claimed=EVIL, measured=EVIL, reason=EVIL) for one in found.verdicts],
        table1=[replace(row, impl=EVIL, complexity=Cell(EVIL, EVIL, EVIL, EVIL)) for row in found.table1],
        crossovers=[replace(c, slower=EVIL) for c in found.crossovers[:1]],
        held_out=[replace(one, impl=EVIL) for one in found.held_out],
    )
