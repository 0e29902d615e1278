"""Time against the work that it is claimed to take."""

from dataclasses import replace

from study.laws.fitted import fitted, law
from study.laws.measured import CONFIRMED, REFUTED, UNDETERMINED, attention, judged, measured, verdict
from syrupy import SnapshotAssertion

from harness.core.model.polynomial import Term
from harness.study.claims.claims_table import ClaimVerdict
from harness.study.laws.laws import Law

N2D, ND2, N = Term(n=2, d=1), Term(n=1, d=2), Term(n=1)


def fused(fitted_as: Law) -> ClaimVerdict:
    of = measured("attention.fused", attention)
    return verdict("time", of, [fitted(of, "time", fitted_as)])


def rnn(parts: dict[Term, float]) -> ClaimVerdict:
    of = measured("rnn.torch", attention, heads=(1,))
    return verdict("time", of, [fitted(of, "time", law(parts))])


def test_time_is_judged_by_its_exponent_at_the_largest_sizes(snapshot: SnapshotAssertion) -> None:
    usual = law({ND2: 8e-12, N2D: 4e-12})
    of = measured("attention.fused", attention)
    untimed = [replace(line, time_s=None) for line in of]
    told = judged(
        ("as the work", CONFIRMED, fused(usual)),
        ("faster than the work of an RNN", REFUTED, rnn({N: 1e-9, N2D: 4e-12})),
        ("faster than the work of attention", REFUTED, fused(law({ND2: 1e-12, Term(n=3): 1e-10}))),
        ("not yet made of the work", UNDETERMINED, rnn({Term(): 1e-1, ND2: 1e-12})),
        ("constant", UNDETERMINED, rnn({Term(): 1e-3})),
        (
            "a law that is not determined",
            UNDETERMINED,
            fused(law({ND2: 8e-12, N2D: 4e-12}, doubt="n takes 2 values")),
        ),
        ("too wide an interval", UNDETERMINED, fused(replace(usual, covariance=1e6 * usual.covariance))),
        ("n was not varied", UNDETERMINED, fused(law({Term(d=1): 1e-9}, varied=("d",)))),
        ("no law", UNDETERMINED, verdict("time", of)),
        ("not timed", UNDETERMINED, verdict("time", untimed)),
    )
    assert told == snapshot
