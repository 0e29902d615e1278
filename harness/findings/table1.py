"""*Attention Is All You Need*, table 1 (Vaswani et al. 2017, section 4), and what was measured of each cell.

The table counts what a layer does between positions and leaves its projections out: O(n²·d) of attention, whose work
with projections is 4n²d + 8nd². A cell of complexity is therefore confirmed where its term is there and is the only
one of its power of n; what comes on top is said in the reason. Sequential operations and path are those of the claims.

`beyond_table1` is the same of what the table leaves out: training a layer, and inference a token at a time, for which
attention keeps the keys and values of all n tokens before, and a recurrent layer one state. Where decoding was not
measured, one token more is held against W(n) − W(n − 1), W being the counted work of a forward pass.

A layer is of the kind that its `family` says, somebody's own too if its work was counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.claims import parse
from harness.findings.claimed import CONFIRMED, REFUTED, UNDETERMINED
from harness.findings.exact_claims import judge_depth, judge_path
from harness.findings.laws import FittedLaw
from harness.findings.series import Setting, groups
from harness.findings.verdicts import OWN_FORMULA, Verdict
from harness.findings.work_terms import WorkTerm, of_one_token_more, written
from harness.summary import Line
from impls.registry import IMPLS


@dataclass(frozen=True)
class Cell:
    """One cell: what the paper has, what was measured, one of `verdicts.VERDICTS`, and why."""

    claimed: str
    measured: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class Table1Row:
    """One layer beside the row of its kind; `impl` is None where no layer of this kind was measured."""

    kind: str
    impl: str | None
    complexity: Cell
    sequential: Cell
    path: Cell


@dataclass(frozen=True)
class BeyondRow:
    """Complexity of a layer in training, and of one token at inference with n tokens before it."""

    kind: str
    impl: str | None
    training: Cell
    per_token: Cell


class _Order(NamedTuple):
    """O(…) as it is written, and its powers of n and d.

    `beside_projections`: it is of lower order than the layer's projections, which the table leaves out.
    """

    text: str
    n: int
    d: int
    beside_projections: bool = False


class _Kind(NamedTuple):
    """A row of the table, and what one token costs at inference. `kind`: that of its impls in the registry.

    `of_stack`: of how many layers its path is that of.
    """

    name: str
    kind: str
    complexity: _Order
    sequential: str
    path: str
    per_token: _Order
    of_stack: str = ""


# Of one token at inference: attention meets n keys and values, or r; a recurrent layer its state; a convolution k
# inputs.
_KINDS = (
    _Kind("Self-Attention", "self-attention", _Order("O(n²·d)", 2, 1), "O(1)", "O(1)", _Order("O(n·d)", 1, 1)),
    _Kind("Recurrent", "recurrent", _Order("O(n·d²)", 1, 2), "O(n)", "O(n)", _Order("O(d²)", 0, 2)),
    _Kind(
        *("Convolutional", "convolutional", _Order("O(k·n·d²)", 1, 2), "O(1)", "O(log_k n)"),
        *(_Order("O(k·d²)", 0, 2), "log_k n dilated layers"),
    ),
    _Kind(
        *("Self-Attention (restricted)", "restricted", _Order("O(r·n·d)", 1, 1, True), "O(1)", "O(n/r)"),
        *(_Order("O(r·d)", 0, 1, True), "n/r layers"),
    ),
)
# Somebody's own layer is of the kind that most of its family are.
_OF_FAMILY = {"attention": "self-attention", "rnn": "recurrent", "conv": "convolutional"}
_NONE = "no layer of this kind measured"


def table1(lines: Iterable[Line], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> list[Table1Row]:
    """The rows of the table, each as often as layers of its kind were measured in `forward`, once where none was."""
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


def beyond_table1(lines: Iterable[Line], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> list[BeyondRow]:
    """Training and inference of every layer measured of the two kinds, once where none was."""
    seen = _Seen(lines, laws, found)
    rows = []
    for kind in _KINDS:
        impls: Sequence[str | None] = seen.impls(kind.kind, "forward", "train", "decode") or [None]
        for impl in impls:
            training = seen.complexity(impl, "train", kind.complexity)
            rows.append(BeyondRow(kind.name, impl, training, seen.per_token(impl, kind.per_token)))
    return rows


def _of_stack(kind: _Kind, impl: str | None) -> Cell | None:
    """The cell of a path that is no matter of one layer."""
    if not kind.of_stack or impl is None:
        return None
    return Cell(kind.path, "", UNDETERMINED, f"that of a stack of {kind.of_stack}: one layer was measured")


class _Seen:
    """What was measured and found, by impl and setting: a cell is of a mode, in the worst of its settings."""

    def __init__(self, lines: Iterable[Line], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> None:
        self._lines = groups(lines)
        self._work = {(law.series.impl, law.series.setting): law for law in laws if law.series.metric == "flops"}
        self._verdicts = {(one.impl, one.setting, one.quantity): one for one in found}

    def impls(self, kind: str, *modes: str) -> list[str]:
        """Those of a kind that were measured in one of the modes: ours in the registry's order, then others.

        Others only where their work was counted.
        """
        measured = {name for name, setting in self._lines if setting.mode in modes}
        ours = [name for name, impl in IMPLS.items() if impl.kind == kind and name in measured]
        others = {
            name: None
            for (name, setting), lines in self._lines.items()
            if name not in IMPLS
            and setting.mode in modes
            and any(_OF_FAMILY.get(line.family) == kind and line.flops is not None for line in lines)
        }
        return [*ours, *others]

    def _settings(self, impl: str, mode: str) -> list[Setting]:
        return [setting for name, setting in self._lines if (name, setting.mode) == (impl, mode)]

    def order(self, impl: str | None, quantity: str, claimed: str) -> Cell:
        """The cell of a claim by order: the verdict on the impl's own claim if it is the table's, else one on that."""
        if impl is None:
            return Cell(claimed, "", UNDETERMINED, _NONE)
        return _worst([self._order_in(impl, setting, quantity, claimed) for setting in self._settings(impl, "forward")])

    def _order_in(self, impl: str, setting: Setting, quantity: str, claimed: str) -> Cell:
        own = self._verdicts.get((impl, setting, quantity))
        if own is not None and own.claimed == claimed:
            return Cell(claimed, own.measured, own.verdict, own.reason)
        judge = {"depth": judge_depth, "path": judge_path}[quantity]
        one = judge(self._lines[impl, setting], parse(claimed.removeprefix("O(").removesuffix(")")))
        said = f"; the layer itself claims {own.claimed}" if own is not None else ""
        return Cell(claimed, one.measured, one.verdict, one.reason + said)

    def complexity(self, impl: str | None, mode: str, order: _Order) -> Cell:
        """The cell of complexity, from the polynomial that the counted work is."""
        if impl is None:
            return Cell(order.text, "", UNDETERMINED, _NONE)
        settings = self._settings(impl, mode)
        if not settings:
            return Cell(order.text, "", UNDETERMINED, f"not measured (mode={mode})")
        return _worst([self._complexity_in(impl, setting, order) for setting in settings])

    def per_token(self, impl: str | None, order: _Order) -> Cell:
        """The cell of one token at inference: as decoded, else what a forward pass of one token more does more."""
        if impl is None or self._settings(impl, "decode") or not self._settings(impl, "forward"):
            return self.complexity(impl, "decode", order)
        settings = self._settings(impl, "forward")
        return _worst([self._complexity_in(impl, setting, order, by_difference=True) for setting in settings])

    def _complexity_in(self, impl: str, setting: Setting, order: _Order, by_difference: bool = False) -> Cell:
        if len({line.seq_len for line in self._lines[impl, setting]}) < 2:
            return Cell(order.text, "", UNDETERMINED, f"n was not varied (mode={setting.mode})")
        terms = self._work_terms(impl, setting)
        if not terms:
            return Cell(order.text, "", UNDETERMINED, f"its work is not known as a formula (mode={setting.mode})")
        return _one_token_more(order, terms) if by_difference else _held_against(order, terms)

    def _work_terms(self, impl: str, setting: Setting) -> list[WorkTerm]:
        """What the work is made of: the claim that every count bears out, else the exact law of the counts."""
        quantity = "work" if setting.mode == "forward" else f"work_{setting.mode}"
        one = self._verdicts.get((impl, setting, quantity))
        if one is not None and one.verdict == CONFIRMED and one.claimed != OWN_FORMULA:
            return [WorkTerm(t.coefficient, t.n, t.d, t.h, log=t.log) for t in parse(one.claimed).terms]
        fitted = self._work.get((impl, setting))
        if fitted is None or fitted.law.breaks or "d" not in fitted.law.varied:
            return []
        if not (fitted.law.exact and fitted.law.determined):
            return []
        parts = [(part.value, part.term) for part in fitted.law.coefficients]
        return [WorkTerm(value, term.n, term.d, term.h, term.b, term.log) for value, term in parts]


def _worst(found: Sequence[Cell]) -> Cell:
    """Of several settings the one that says most against the claim: a claim must hold in all of them."""
    weight = {REFUTED: 0, CONFIRMED: 1, UNDETERMINED: 2}
    return min(found, key=lambda one: weight[one.verdict])


def _held_against(order: _Order, terms: Sequence[WorkTerm]) -> Cell:
    measured = written(terms)
    projections = (order.n, order.d + 1, 0, 0, 0)
    aside = [t for t in terms if order.beside_projections and (t.n, t.d, t.h, t.b, t.log) == projections]
    faster = [t for t in terms if (t.n, t.log, t.most_d) > (order.n, 0, order.d) and t not in aside]
    if faster:
        return Cell(order.text, measured, REFUTED, f"{faster[0]} grows faster")
    of_that = [term for term in terms if (term.n, term.d, term.log) == (order.n, order.d, 0)]
    of_order = max(of_that, key=lambda term: (term.h, term.b), default=None)
    if of_order is None or of_order.coefficient <= 0:
        return Cell(order.text, measured, REFUTED, f"there is no term of {order.text}")
    # Fewer factors of n but more of d: not of lower order where d is large.
    on_top = [*aside, *(term for term in terms if term.n < order.n and term.most_d > order.d)]
    if not on_top:
        return Cell(order.text, measured, CONFIRMED, f"{of_order} is its leading term, to the last digit")
    said = " and ".join(_on_top(term, of_order) for term in on_top)
    alone = sum(term.n == order.n for term in terms if term not in aside) == 1
    leads = "is the only term of its power of n" if alone else "leads the terms of its power of n"
    return Cell(order.text, measured, CONFIRMED, f"{of_order} {leads}; {said}")


def _one_token_more(order: _Order, terms: Sequence[WorkTerm]) -> Cell:
    """The cell of W(n) − W(n − 1): with all that was computed before kept, the nth token adds no more than this."""
    more = of_one_token_more(terms)
    if not more:
        return Cell(order.text, "", UNDETERMINED, "its work has no difference that is a formula")
    cell = _held_against(order, more)
    said = f"{cell.reason}; decoding itself was not timed"
    if any(term.n > 1 for term in terms):
        said += ", and does less: in it no earlier token meets the new one"
    return Cell(order.text, f"{cell.measured}, by difference of the work", cell.verdict, said)


def _on_top(term: WorkTerm, leading: WorkTerm) -> str:
    """`8nd² of the projections comes on top, and is more up to n = 2d`."""
    projections = [(n, leading.d + 1, 0, 0) for n in (leading.n - 1, leading.n)]
    of_what = " of the projections" if (term.n, term.d, term.h, term.log) in projections else ""
    said = f"{term}{of_what} comes on top"
    same = (term.h, term.b, term.log) == (leading.h, leading.b, leading.log)
    if same and (leading.n - term.n, term.d - leading.d) == (1, 1):
        times = f"{term.coefficient / leading.coefficient:.3g}" if term.coefficient != leading.coefficient else ""
        return f"{said}, and is more up to n = {times}d"
    return said
