"""Which law is found for which costs: a confusion table, beside google-benchmark's rule and the big-O package.

Costs are drawn from one term or the sum of two, whose bend (where both are equal) lies within the sizes measured, with
noise; each tool names the law. Four outcomes: `told`, every term and no other; `leading`, the leading term, and that
there are others that cannot be told; `undetermined`; `wrong`. The other tools know one term: of a sum of two, the
faster growing one counts as `leading`.

Three more tables count the determined laws and those determined wrongly: laws of three and four sizes with the terms of
the counts, costs that are no sum of terms, and powers of n at several widths. The last one tells how many predictions
beyond the sizes hold the cost.

    HARNESS_BENCH_DRAWS=1000      of each of the 21 laws at each level of noise (about six minutes)
"""

import itertools
import os
from collections import Counter
from collections.abc import Callable

import big_o
import numpy as np
from study.laws.costs import DOUBLING, UNDETERMINED, attention, grid, law_name, noisy
from study.laws.test_foreign_laws import COUNTS, LINEAR, RANGES, fitted, is_within

from harness.core.model.polynomial import Term
from harness.study.laws.fit_law import fit_law
from harness.study.laws.laws import Costs, Floats, Law, Sizes, exponent_of
from harness.study.laws.piecewise import fit_pieces

DRAWS = int(os.environ.get("HARNESS_BENCH_DRAWS", "100"))
NOISES = (0.0, 0.01, 0.03, 0.10)
TERMS = (Term(), Term(log=1), Term(n=1), Term(n=1, log=1), Term(n=2), Term(n=3))
TRUTHS = [(term,) for term in TERMS] + list(itertools.combinations(TERMS, 2))
OUTCOMES = ("told", "leading", "undetermined", "incorrect")
GRIDS = ((64, 2048, 6), (64, 8192, 8), (16, 4096, 12), (100, 10_000, 24))

Namer = Callable[[Floats, Floats], str | Term]


def test_confusion() -> None:
    namers: dict[str, Namer] = {"this harness": _harness, "google-benchmark": _google_benchmark, "big-O": _big_o}
    for noise in NOISES:
        print(f"\nnoise {noise:.0%}, {DRAWS} draws of each law")
        counts = {tool: {truth: Counter() for truth in TRUTHS} for tool in namers}
        for truth in TRUTHS:
            for draw in range(DRAWS):
                n, costs = _drawn(truth, noise, draw)
                for tool, namer in namers.items():
                    counts[tool][truth][_outcome(namer(n, costs), truth)] += 1
        _print(counts)
        assert not any(counts["this harness"][truth]["incorrect"] for truth in TRUTHS)


def test_attention() -> None:
    """t = 20 µs + (8nd² + 4n²d)/10¹³ s: how often both terms are within 5 %."""
    print("\nboth terms of attention within 5 %, and how far off the worse one is (median, largest)")
    for title, n in (("n = 64 … 2048, doubling", DOUBLING), ("n = 64 … 2048 in steps of 64", range(64, 2049, 64))):
        sizes = grid(n, (512, 1024, 2048))
        for noise in (0.0, 0.01, 0.03):
            errors, logs, determined = [], 0, 0
            for seed in range(10 * DRAWS):
                law = fit_law(Costs(sizes, noisy(attention(sizes), noise, seed)))
                found = {c.term: c.value for c in law.coefficients}
                errors.append(
                    max(abs(found.get(Term(n=1, d=2), 0) / 8e-13 - 1), abs(found.get(Term(n=2, d=1), 0) / 4e-13 - 1))
                )
                logs += max(law.terms).log > 0
                determined += law.determined
            within = np.mean(np.array(errors) < 0.05)
            print(
                f"  {title}, noise {noise:.0%}: {within:.1%} ({np.median(errors):.2%}, {max(errors):.2%}); "
                f"led by n log n {logs}, determined {determined / (10 * DRAWS):.0%}"
            )


FEW_SIZES = ((128, 256, 512), (128, 256, 512, 1024))
# 80 µs and a cost in n² or n, with the terms of the counts.
FEW_LAWS = {"1 + n²": (1.1e-8, Term(n=2)), "1 + n": (3e-6, Term(n=1))}


def test_few_sizes() -> None:
    print("\nthree and four sizes with the terms of the counts: determined, and of these led by a wrong term")
    for (title, (slope, term)), sizes in itertools.product(FEW_LAWS.items(), FEW_SIZES):
        for noise in (0.005, 0.02, 0.05):
            n = np.array(sizes, dtype=float)
            costs = 8e-5 + slope * term(_sizes(n))
            laws = [
                fit_law(Costs(_sizes(n), noisy(costs, noise, draw), np.full(len(n), noise)), (Term(), term))
                for draw in range(DRAWS)
            ]
            _print_wrong(
                f"{title}, {len(n)} sizes, noise {noise:.1%}", laws, lambda law, term=term: law.terms[-1] == term
            )


FOREIGN = {
    "n^1.5": (lambda n: n**1.5, lambda n: 1.5),
    "n^1.8": (lambda n: n**1.8, lambda n: 1.8),
    "n^2.5": (lambda n: n**2.5, lambda n: 2.5),
    "n²·log n": (lambda n: n**2 * np.log(n), lambda n: 2 + 1 / np.log(n)),
    "n² with a cliff": (lambda n: n**2 * np.where(n >= 700, 1.5, 1.0), lambda n: 2.0),
}


def test_foreign() -> None:
    print("\ncosts that are no sum of terms: determined, and of these with an interval that excludes the exponent")
    for (title, (curve, exponent)), points in itertools.product(FOREIGN.items(), (6, 8, 12, 24)):
        n = np.round(np.geomspace(64, 4096, points))
        for noise in (0.0, 0.005, 0.02, 0.05):
            errors = np.full(points, max(noise, 0.002))
            draws = range(-(-DRAWS // 5) if noise else 1)
            laws = [fit_pieces(Costs(_sizes(n), noisy(1e-6 * curve(n), noise, draw), errors)) for draw in draws]
            truth = exponent(n[-1])
            _print_wrong(
                f"{title}, {points} sizes, noise {noise:.1%}", laws, lambda law, n=n, truth=truth: _holds(law, n, truth)
            )


# In microseconds, with the terms of the counts.
PREDICTED = {
    "max(a, bn), flat": (lambda n: np.maximum(500, 0.2 * n), LINEAR),
    "max(a, bn), bent": (lambda n: np.maximum(300, 0.4 * n), LINEAR),
    "n^1.2": (lambda n: 0.1 * n**1.2, COUNTS),
    "n^1.5": (lambda n: 0.01 * n**1.5, COUNTS),
    "a + bn": (lambda n: 100 + 0.2 * n, LINEAR),
    "a + bn + cn²": (lambda n: 100 + 0.1 * n + 5e-4 * n**2, COUNTS),
    "a + bn²": (lambda n: 100 + 2e-4 * n**2, COUNTS),
}


def test_predictions() -> None:
    print("\npredictions twice and four times beyond the sizes that hold the cost, and their median width")
    for (title, (curve, counts)), noise in itertools.product(PREDICTED.items(), (0.005, 0.02, 0.05)):
        cells = []
        for factor in (2, 4):
            held, widths = [], []
            for n, draw in itertools.product(RANGES, range(-(-DRAWS // 20))):
                said = fitted(curve, n, noise, draw, counts).predict(factor * n[-1], 64, 1, 1)
                held.append(is_within(said, curve, factor * n[-1]))
                widths.append(said.hi / said.lo)
            cells.append(f"{np.mean(held):5.0%}, {np.median(widths):6.2f}")
        print(f"{title:>20}, noise {noise:.1%}: " + "   ".join(cells))


WIDTHS = {
    "default grid": grid(DOUBLING, (128, 256), (2, 8)),
    "4 n, 3 d": grid((128, 256, 512, 1024), (64, 128, 256)),
}


def test_several_widths() -> None:
    print("\nn^p·d with the terms 1, nd, n²d: determined, and of these with an interval that excludes p")
    for (title, sizes), power in itertools.product(WIDTHS.items(), (1.0, 1.3, 1.5, 1.8, 2.0)):
        for noise in (0.005, 0.01, 0.02, 0.05):
            costs, errors = 1e-9 * sizes.n**power * sizes.d, np.full(len(sizes), noise)
            terms = (Term(), Term(n=1, d=1), Term(n=2, d=1))
            laws = [fit_pieces(Costs(sizes, noisy(costs, noise, draw), errors), terms) for draw in range(DRAWS)]
            _print_wrong(
                f"n^{power}·d, {title}, noise {noise:.1%}",
                laws,
                lambda law, sizes=sizes, power=power: _holds(law, sizes.n, power, sizes.d[-1]),
                allowed=0.05,  # the share that 95 % intervals may miss
            )


def _holds(law: Law, n: Floats, truth: float, d: float = 1) -> bool:
    exponent = exponent_of(law, "n", n[-1], d)
    return exponent is not None and exponent.lo <= truth <= exponent.hi


def _print_wrong(title: str, laws: list[Law], is_right: Callable[[Law], bool], allowed: float = 0.0) -> None:
    determined = [law for law in laws if law.determined]
    wrong = sum(not is_right(law) for law in determined)
    print(f"{title:>44}: {len(determined):4} of {len(laws)} determined, {wrong} wrong")
    assert wrong <= allowed * len(laws)


def _drawn(truth: tuple[Term, ...], noise: float, draw: int) -> tuple[Floats, Floats]:
    random = np.random.default_rng([draw, TRUTHS.index(truth), round(1000 * noise)])
    low, high, points = GRIDS[draw % len(GRIDS)]
    n = np.unique(np.round(np.geomspace(low, high, points)))
    sizes = _sizes(n)
    bend = _sizes(np.array([np.exp(random.uniform(np.log(2 * low), np.log(high / 2)))]))
    costs = sum(term(sizes) / term(bend) for term in truth)
    return n, costs * np.exp(random.normal(0, noise, len(n)))


def _sizes(n: Floats) -> Sizes:
    return Sizes.of([(value, 1, 1, 1) for value in n])


def _outcome(named: str | Term, truth: tuple[Term, ...]) -> str:
    leading = max(truth, key=Term.growth)
    if isinstance(named, Term):  # by a tool that knows one term
        return "incorrect" if named != leading else "told" if len(truth) == 1 else "leading"
    if named == UNDETERMINED:
        return "undetermined"
    if named == f"O({' + '.join(str(term) for term in truth)})":
        return "told"
    return "leading" if named == f"O({leading} + …)" else "incorrect"


def _harness(n: Floats, costs: Floats) -> str:
    return law_name(fit_law(Costs(_sizes(n), costs)))


def _google_benchmark(n: Floats, costs: Floats) -> Term:
    """Its oAuto: one coefficient through the origin for each law, least root mean square; see complexity.cc."""
    sizes = _sizes(n)

    def rms(term: Term) -> float:
        values = term(sizes)
        return float(np.sqrt(np.mean((costs - values * (costs @ values) / (values @ values)) ** 2)))

    return min(TERMS, key=rms)


_CLASSES = {
    big_o.complexities.Constant: Term(),
    big_o.complexities.Logarithmic: Term(log=1),
    big_o.complexities.Linear: Term(n=1),
    big_o.complexities.Linearithmic: Term(n=1, log=1),
    big_o.complexities.Quadratic: Term(n=2),
    big_o.complexities.Cubic: Term(n=3),
}


def _big_o(n: Floats, costs: Floats) -> Term:
    best, _ = big_o.infer_big_o_class(n, costs, classes=list(_CLASSES))
    return _CLASSES[type(best)]


def _print(counts: dict[str, dict[tuple[Term, ...], Counter]]) -> None:
    print(f"{'':>16}" + "".join(f"{tool:>52}" for tool in counts))
    print(f"{'the law':>16}" + "".join(f"{outcome:>13}" for _ in counts for outcome in OUTCOMES))
    for truth in (*TRUTHS, None):
        found = {tool: table[truth] if truth else sum(table.values(), Counter()) for tool, table in counts.items()}
        cells = [found[tool][outcome] for tool in counts for outcome in OUTCOMES]
        print(f"{' + '.join(map(str, truth)) if truth else 'all':>16}" + "".join(f"{cell:>13}" for cell in cells))
