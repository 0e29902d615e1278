"""Lines with facts that the test chooses, and the verdict on one claim of them."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from rows import lines
from screens.text_file import titled

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.study.claims.claims_table import ClaimVerdict, verdicts
from harness.study.claims.table1 import Cell
from harness.study.laws.fitted_laws import FittedLaw

CONFIRMED, REFUTED, UNDETERMINED = "confirmed", "refuted", "undetermined"
NOT_MEASURED = "not measured"
SIZES = (64, 128, 256, 512, 1024, 2048)
Cost = Callable[[int, int, int], int]


def attention(n: int, d: int, h: int) -> int:
    return 8 * n * d * d + 4 * n * n * d


def measured(
    impl: str,
    flops: Cost | None = None,
    memory: Cost = lambda n, d, h: 0,
    depth: Cost | None = None,
    sizes: tuple[int, ...] = SIZES,
    widths: tuple[int, ...] = (128, 256),
    heads: tuple[int, ...] = (2, 8),
    **changed: object,
) -> list[CaseResult]:
    """Lines of one impl, with these facts; 2 sequences."""

    def fact(cost: Cost | None, line: CaseResult) -> int | None:
        return cost(line.seq_len, line.d_model, line.num_heads) if cost is not None else None

    cases = [Case(impl, n, d, h, batch_size=2) for n in sizes for d in widths for h in heads]
    bare = lines(cases, lambda case: 1e-9 * case.seq_len * case.d_model, lambda case: 0)
    return [
        replace(
            line,
            flops=(work := 2 * fact(flops, line) if flops else None),
            flops_full=work,
            peak_bytes=fact(memory, line),
            depth=fact(depth, line),
            **changed,
        )
        for line in bare
    ]


def verdict(quantity: str, of: list[CaseResult], laws: Sequence[FittedLaw] = ()) -> ClaimVerdict:
    [one] = [one for one in verdicts(of, laws) if one.quantity == quantity]
    return one


def judged(*states: tuple[str, str, ClaimVerdict | Cell]) -> str:
    """The claim of each state, what was measured, and the reason. Each verdict must be the one stated before it."""
    for title, expected, one in states:
        assert one.verdict == expected, title
    return titled(
        {
            title: f"claimed {one.claimed or '–'}, measured {one.measured or '–'}\n{one.verdict}: {one.reason}"
            for title, _, one in states
        }
    )


SOURCES = (128, 256, 512)


def scores(n: int, m: int, d: int) -> int:
    """Two products of n queries with m keys and values: 2·2nmd FLOPs."""
    return 4 * n * m * d


def cross(n: int, m: int, d: int) -> int:
    """With the projections of queries and outputs, of n tokens, and of keys and values, of m: 2d² for each."""
    return 4 * n * d * d + 4 * m * d * d + scores(n, m, d)


def over_sources(
    cost: Cost, impl: str = "sdpa.fused", sizes: Iterable[int] = SIZES, sources: Iterable[int] = SOURCES, **claims: str
) -> list[CaseResult]:
    """Lines with these counts, of 2 sequences each, and 10 µs and 10⁻¹⁰ s for each FLOP."""
    cases = [Case(impl, n, d, 2, batch_size=2, kv_len=m) for n in sizes for m in sources for d in (128, 256)]

    def work(case: Case) -> int:
        return 2 * cost(case.seq_len, case.kv_len, case.d_model)

    bare = lines(cases, lambda case: 1e-5 + 1e-10 * work(case), lambda case: 8 * case.kv_len * case.d_model)
    stated = json.dumps(claims) if claims else None
    return [replace(line, flops=work(line), flops_full=work(line), claims=stated) for line in bare]
