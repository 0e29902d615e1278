"""*Attention Is All You Need*, table 1 (Vaswani et al. 2017, section 4), with a measured verdict on each cell.

The table counts the work between positions and leaves out the projections. Attention is O(n²·d) there, while its FLOPs
with projections are 4n²d + 8nd². A complexity cell is therefore confirmed if its term is present and no term grows
faster.

`rows_beyond_table1` covers what table 1 leaves out: training, and inference one token at a time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.analysis.claim_rules import judge_depth, judge_path
from harness.analysis.claims import CONFIRMED, REFUTED, UNDETERMINED, degree
from harness.analysis.claims_table import OWN_FORMULA, Verdict
from harness.analysis.fitted_laws import FittedLaw
from harness.analysis.series import Setting, series_groups
from harness.claims import WorkTerm, parse, work_of_next_token, work_text
from harness.results.table import CaseResult
from impls.registry import IMPLS


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


def worst_order(found: Sequence[Cell]) -> Cell:
    """Return the cell that decides over several settings: a refuted one, else a confirmed, else an undetermined one.

    One refuted setting refutes the claim, because the claim must hold in all settings.
    """
    weight = {REFUTED: 0, CONFIRMED: 1, UNDETERMINED: 2}
    return min(found, key=lambda one: weight[one.verdict])


def compared_with_claim(order: Order, terms: Sequence[WorkTerm], at_most: bool = False) -> Cell:
    """Return the cell for FLOPs that are the sum of `terms`. The reason names the terms that come on top.

    `at_most`: the kind was inferred from the family alone. The order is then only an upper bound, and doing less does
    not refute it.
    """
    measured = work_text(terms)
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
    said = " and ".join(_extra_terms(term, of_order) for term in on_top)
    alone = sum(term.n == order.n for term in terms if term not in aside) == 1
    leads = "is the only term of its power of n" if alone else "leads the terms of its power of n"
    return Cell(order.text, measured, CONFIRMED, f"{of_order} {leads}; {said}")


def cost_of_next_token(order: Order, terms: Sequence[WorkTerm], at_most: bool = False) -> Cell:
    """Return the cell of W(n) − W(n − 1), with W the FLOPs of a forward pass.

    If all earlier results are kept, the nth token adds at most this many FLOPs.
    """
    more = work_of_next_token(terms)
    if not more:
        return Cell(order.text, "", UNDETERMINED, "its work has no difference that is a formula")
    cell = compared_with_claim(order, more, at_most)
    said = f"{cell.reason}; decoding itself was not timed"
    if any(term.n > 1 for term in terms):
        said += ", and does less: in it no earlier token meets the new one"
    return Cell(order.text, f"{cell.measured}, by difference of the work", cell.verdict, said)


def _extra_terms(term: WorkTerm, leading: WorkTerm) -> str:
    """Describe a term beside the leading one: `8nd² of the projections comes on top, and is more up to n = 2d`."""
    projections = [(n, leading.d + 1, 0, 0) for n in (leading.n - 1, leading.n)]
    of_what = " of the projections" if (term.n, term.d, term.h, term.log) in projections else ""
    said = f"{term}{of_what} comes on top"
    same = (term.h, term.b, term.log) == (leading.h, leading.b, leading.log)
    if same and (leading.n - term.n, term.d - leading.d) == (1, 1):
        times = f"{term.coefficient / leading.coefficient:.3g}" if term.coefficient != leading.coefficient else ""
        return f"{said}, and is more up to n = {times}d"
    return said


@dataclass(frozen=True)
class Table1Row:
    """One layer beside the table's row of its kind; `impl` is None if no layer of this kind was measured.

    The cells `sequential` and `path` hold the verdicts on the claims of depth and path.
    """

    kind: str
    impl: str | None
    complexity: Cell
    sequential: Cell
    path: Cell


@dataclass(frozen=True)
class BeyondRow:
    """The complexity of training a layer, and of inference for one token after n others.

    At inference, attention keeps the keys and values of all n tokens before. A recurrent layer keeps one state.
    """

    kind: str
    impl: str | None
    training: Cell
    per_token: Cell


class _Kind(NamedTuple):
    """A row of the table, and the order of inference for one token.

    The registry calls the kind of the row's layers `kind`. If the path is that of a stack of layers, `of_stack`
    describes the stack. For a single layer it is empty.
    """

    name: str
    kind: str
    complexity: Order
    sequential: str
    path: str
    per_token: Order
    of_stack: str = ""


# At inference, one token meets n keys and values in attention, or r if restricted. It meets the state in a recurrent
# layer and k inputs in a convolution.
_KINDS = (
    _Kind("Self-Attention", "self-attention", Order("O(n²·d)", 2, 1), "O(1)", "O(1)", Order("O(n·d)", 1, 1)),
    _Kind("Recurrent", "recurrent", Order("O(n·d²)", 1, 2), "O(n)", "O(n)", Order("O(d²)", 0, 2)),
    _Kind(
        *("Convolutional", "convolutional", Order("O(k·n·d²)", 1, 2), "O(1)", "O(log_k n)"),
        *(Order("O(k·d²)", 0, 2), "log_k n dilated layers"),
    ),
    _Kind(
        *("Self-Attention (restricted)", "restricted", Order("O(r·n·d)", 1, 1, True), "O(1)", "O(n/r)"),
        *(Order("O(r·d)", 0, 1, True), "n/r layers"),
    ),
)
# A user's layer is of the kind of most layers of its family.
_OF_FAMILY = {"attention": "self-attention", "sdpa": "self-attention", "rnn": "recurrent", "conv": "convolutional"}
# Terms of a claim, as powers of n, d, h and log n: those of the projections, and of r tokens met by each position.
_PROJECTIONS, _MEETS_R = (1, 2, 0, 0), (1, 1, 0, 0)
_NONE = "no layer of this kind measured"


def table1(lines: Iterable[CaseResult], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> list[Table1Row]:
    """Return the rows of the table, one for each layer measured in `forward`, or one if a kind has no such layer."""
    seen = _Seen(lines, laws, found)
    rows = []
    for kind in _KINDS:
        impls: Sequence[str | None] = seen.impls(kind.kind, "forward") or [None]
        for impl in impls:
            rows.append(
                Table1Row(
                    kind.name,
                    impl,
                    seen.complexity(impl, "forward", kind.complexity),
                    seen.order(impl, "depth", kind.sequential),
                    _of_stack(kind, impl) or seen.order(impl, "path", kind.path),
                )
            )
    return rows


def rows_beyond_table1(
    lines: Iterable[CaseResult], laws: Iterable[FittedLaw], found: Iterable[Verdict]
) -> list[BeyondRow]:
    """Return a row for every measured layer of the table's kinds, or one row if a kind has no such layer."""
    seen = _Seen(lines, laws, found)
    rows = []
    for kind in _KINDS:
        impls: Sequence[str | None] = seen.impls(kind.kind, "forward", "train", "decode") or [None]
        for impl in impls:
            training = seen.complexity(impl, "train", kind.complexity)
            rows.append(BeyondRow(kind.name, impl, training, seen.per_token(impl, kind.per_token)))
    return rows


def _of_stack(kind: _Kind, impl: str | None) -> Cell | None:
    """The cell of a path that concerns a stack of layers; None if the path is that of one layer."""
    if not kind.of_stack or impl is None:
        return None
    return Cell(kind.path, "", UNDETERMINED, f"that of a stack of {kind.of_stack}: one layer was measured")


class _Seen:
    """The measurements and verdicts by layer and setting. A cell is that of the worst setting with its mode."""

    def __init__(self, lines: Iterable[CaseResult], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> None:
        self._lines = series_groups(lines)
        self._work = {(law.series.impl, law.series.setting): law for law in laws if law.series.metric == "flops"}
        self._verdicts = {(one.impl, one.setting, one.quantity): one for one in found}

    def impls(self, kind: str, *modes: str) -> list[str]:
        """Return the layers of a kind that were measured in one of the modes.

        Built-in layers come first, in the registry's order; the registry gives their kind. Other layers are included
        only if their FLOPs were counted.
        """
        measured = {name for name, setting in self._lines if setting.mode in modes}
        ours = [name for name, impl in IMPLS.items() if impl.kind == kind and name in measured]
        others = {
            name: None
            for (name, setting), lines in self._lines.items()
            if name not in IMPLS
            and setting.mode in modes
            and any(self._kind(name, line.family) == kind and line.flops is not None for line in lines)
        }
        return [*ours, *others]

    def _kind(self, impl: str, family: str) -> str | None:
        """The kind of a user's layer: that of its family, with one exception.

        The exception is attention whose confirmed claim of FLOPs has no n². It is restricted if each position meets r
        tokens. Otherwise it has no kind, like the built-in linear attention.
        """
        of_family = _OF_FAMILY.get(family)
        claimed = [
            parse(one.claimed)
            for (name, _, quantity), one in self._verdicts.items()
            if name == impl and quantity in ("work", "work_train") and one.verdict == CONFIRMED
            if one.claimed != OWN_FORMULA
        ]
        if of_family != "self-attention" or not claimed or degree(claimed[0], "n") > 1:
            return of_family
        between = {term.factors for term in claimed[0].terms if term.n} - {_PROJECTIONS}
        return "restricted" if between == {_MEETS_R} else None

    def _settings(self, impl: str, mode: str) -> list[Setting]:
        return [setting for name, setting in self._lines if (name, setting.mode) == (impl, mode)]

    def order(self, impl: str | None, quantity: str, claimed: str) -> Cell:
        """Return the cell of a claim by order.

        This is the verdict on the layer's own claim if it equals the table's. Otherwise the table's claim is judged.
        """
        if impl is None:
            return Cell(claimed, "", UNDETERMINED, _NONE)
        return worst_order(
            [self._order_in(impl, setting, quantity, claimed) for setting in self._settings(impl, "forward")]
        )

    def _order_in(self, impl: str, setting: Setting, quantity: str, claimed: str) -> Cell:
        own = self._verdicts.get((impl, setting, quantity))
        if own is not None and own.claimed == claimed:
            return Cell(claimed, own.measured, own.verdict, own.reason)
        judge = {"depth": judge_depth, "path": judge_path}[quantity]
        one = judge(self._lines[impl, setting], parse(claimed.removeprefix("O(").removesuffix(")")))
        said = f"; the layer itself claims {own.claimed}" if own is not None else ""
        return Cell(claimed, one.measured, one.verdict, one.reason + said)

    def complexity(self, impl: str | None, mode: str, order: Order) -> Cell:
        """Return the complexity cell, from the counted FLOPs as a polynomial."""
        if impl is None:
            return Cell(order.text, "", UNDETERMINED, _NONE)
        settings = self._settings(impl, mode)
        if not settings:
            return Cell(order.text, "", UNDETERMINED, f"not measured (mode={mode})")
        return worst_order([self._complexity_in(impl, setting, order) for setting in settings])

    def per_token(self, impl: str | None, order: Order) -> Cell:
        """Return the cell of inference for one token: from decoding if measured, else from forward passes.

        The latter is W(n) − W(n − 1), the difference between the FLOPs of forward passes over n and n − 1 tokens.
        """
        if impl is None or self._settings(impl, "decode") or not self._settings(impl, "forward"):
            return self.complexity(impl, "decode", order)
        settings = self._settings(impl, "forward")
        return worst_order([self._complexity_in(impl, setting, order, by_difference=True) for setting in settings])

    def _complexity_in(self, impl: str, setting: Setting, order: Order, by_difference: bool = False) -> Cell:
        if len({line.seq_len for line in self._lines[impl, setting]}) < 2:
            return Cell(order.text, "", UNDETERMINED, f"n was not varied (mode={setting.mode})")
        terms = self._work_terms(impl, setting)
        if not terms:
            return Cell(order.text, "", UNDETERMINED, f"its work is not known as a formula (mode={setting.mode})")
        hold = cost_of_next_token if by_difference else compared_with_claim
        return hold(order, terms, at_most=impl not in IMPLS)

    def _work_terms(self, impl: str, setting: Setting) -> list[WorkTerm]:
        """The terms of the FLOPs: those of a confirmed claim, else of the exact law of the counts."""
        quantity = "work" if setting.mode == "forward" else f"work_{setting.mode}"
        one = self._verdicts.get((impl, setting, quantity))
        exact = setting.mask == "none" or setting.mode == "decode"  # a confirmed claim may exceed the count if masked
        if one is not None and one.verdict == CONFIRMED and one.claimed != OWN_FORMULA and exact:
            return [WorkTerm(t.coefficient, t.n, t.d, t.h, log=t.log) for t in parse(one.claimed).terms]
        fitted = self._work.get((impl, setting))
        if fitted is None or fitted.law.breaks or "d" not in fitted.law.varied:
            return []
        if not (fitted.law.exact and fitted.law.determined):
            return []
        parts = [(part.value, part.term) for part in fitted.law.coefficients]
        return [WorkTerm(value, term.n, term.d, term.h, term.b, term.log) for value, term in parts]
