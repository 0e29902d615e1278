"""A complexity cell: an order, such as O(n²·d), compared with the terms of the counted FLOPs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.findings.claimed import CONFIRMED, REFUTED, UNDETERMINED
from harness.findings.work_terms import WorkTerm, of_one_token_more, written


@dataclass(frozen=True)
class Cell:
    """One cell: the paper's claim, the measured value, one of `verdicts.VERDICTS`, and the reason."""

    claimed: str
    measured: str
    verdict: str
    reason: str


class Order(NamedTuple):
    """An order O(…) as text, and its powers of n and d.

    `beside_projections`: the order is lower than that of the layer's projections, which the table leaves out.
    """

    text: str
    n: int
    d: int
    beside_projections: bool = False


def worst(found: Sequence[Cell]) -> Cell:
    """Return the cell that decides over several settings: a refuted one, else a confirmed, else an undetermined one.

    One refuted setting refutes the claim, because the claim must hold in all settings.
    """
    weight = {REFUTED: 0, CONFIRMED: 1, UNDETERMINED: 2}
    return min(found, key=lambda one: weight[one.verdict])


def held_against(order: Order, terms: Sequence[WorkTerm], at_most: bool = False) -> Cell:
    """Return the cell for FLOPs that are the sum of `terms`.

    `at_most`: the kind was inferred from the family alone. The order is then only an upper bound, and doing less does
    not refute it.
    """
    measured = written(terms)
    projections = (order.n, order.d + 1, 0, 0, 0)
    aside = [t for t in terms if order.beside_projections and (t.n, t.d, t.h, t.b, t.log) == projections]
    faster = [t for t in terms if (t.n, t.log, t.most_d) > (order.n, 0, order.d) and t not in aside]
    if faster:
        return Cell(order.text, measured, REFUTED, f"{faster[0]} grows faster")
    of_that = [term for term in terms if (term.n, term.d, term.log) == (order.n, order.d, 0)]
    of_order = max(of_that, key=lambda term: (term.h, term.b), default=None)
    if of_order is None and at_most:
        why = f"does less than {order.text}, which as a bound from above is not broken: it may be of another kind"
        return Cell(order.text, measured, UNDETERMINED, why)
    if of_order is None or of_order.coefficient <= 0:
        return Cell(order.text, measured, REFUTED, f"there is no term of {order.text}")
    # Terms with fewer factors of n but more of d are not of lower order if d is large.
    on_top = [*aside, *(term for term in terms if term.n < order.n and term.most_d > order.d)]
    if not on_top:
        return Cell(order.text, measured, CONFIRMED, f"{of_order} is its leading term, to the last digit")
    said = " and ".join(_on_top(term, of_order) for term in on_top)
    alone = sum(term.n == order.n for term in terms if term not in aside) == 1
    leads = "is the only term of its power of n" if alone else "leads the terms of its power of n"
    return Cell(order.text, measured, CONFIRMED, f"{of_order} {leads}; {said}")


def one_token_more(order: Order, terms: Sequence[WorkTerm], at_most: bool = False) -> Cell:
    """Return the cell of W(n) − W(n − 1), with W the FLOPs of a forward pass.

    If all earlier results are kept, the nth token adds at most this many FLOPs.
    """
    more = of_one_token_more(terms)
    if not more:
        return Cell(order.text, "", UNDETERMINED, "its work has no difference that is a formula")
    cell = held_against(order, more, at_most)
    said = f"{cell.reason}; decoding itself was not timed"
    if any(term.n > 1 for term in terms):
        said += ", and does less: in it no earlier token meets the new one"
    return Cell(order.text, f"{cell.measured}, by difference of the work", cell.verdict, said)


def _on_top(term: WorkTerm, leading: WorkTerm) -> str:
    """Describe a term beside the leading one: `8nd² of the projections comes on top, and is more up to n = 2d`."""
    projections = [(n, leading.d + 1, 0, 0) for n in (leading.n - 1, leading.n)]
    of_what = " of the projections" if (term.n, term.d, term.h, term.log) in projections else ""
    said = f"{term}{of_what} comes on top"
    same = (term.h, term.b, term.log) == (leading.h, leading.b, leading.log)
    if same and (leading.n - term.n, term.d - leading.d) == (1, 1):
        times = f"{term.coefficient / leading.coefficient:.3g}" if term.coefficient != leading.coefficient else ""
        return f"{said}, and is more up to n = {times}d"
    return said
