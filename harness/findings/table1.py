"""*Attention Is All You Need*, table 1 (Vaswani et al. 2017, section 4), with a measured verdict on each cell.

The table counts the work between positions and leaves out the projections. Attention is O(n²·d) there, while its FLOPs
with projections are 4n²d + 8nd². A complexity cell is therefore confirmed if its term is present and no term grows
faster. The reason names the terms that come on top. The cells of sequential operations and path are the verdicts on
these claims.

The table of `beyond_table1` covers what table 1 leaves out: training, and inference one token at a time. For
inference, attention keeps the keys and values of all n tokens before, and a recurrent layer keeps one state. If
decoding was not measured, one more token is judged by W(n) − W(n − 1), with W the counted FLOPs of a forward pass.

The registry gives the kind of a built-in layer. A user's layer is of the kind of its `family` if its FLOPs were
counted. One exception is attention whose confirmed claim of FLOPs has no n². It is restricted if each position meets
r tokens. Otherwise it has no kind, like the built-in linear attention.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.claims import parse
from harness.findings.claimed import CONFIRMED, UNDETERMINED, degree
from harness.findings.complexity import Cell, Order, held_against, one_token_more, worst
from harness.findings.exact_claims import judge_depth, judge_path
from harness.findings.laws import FittedLaw
from harness.findings.series import Setting, groups
from harness.findings.verdicts import OWN_FORMULA, Verdict
from harness.findings.work_terms import WorkTerm
from harness.summary import Line
from impls.registry import IMPLS


@dataclass(frozen=True)
class Table1Row:
    """One layer beside the table's row of its kind; `impl` is None if no layer of this kind was measured."""

    kind: str
    impl: str | None
    complexity: Cell
    sequential: Cell
    path: Cell


@dataclass(frozen=True)
class BeyondRow:
    """The complexity of training a layer, and of inference for one token after n others."""

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


def table1(lines: Iterable[Line], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> list[Table1Row]:
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


def beyond_table1(lines: Iterable[Line], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> list[BeyondRow]:
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

    def __init__(self, lines: Iterable[Line], laws: Iterable[FittedLaw], found: Iterable[Verdict]) -> None:
        self._lines = groups(lines)
        self._work = {(law.series.impl, law.series.setting): law for law in laws if law.series.metric == "flops"}
        self._verdicts = {(one.impl, one.setting, one.quantity): one for one in found}

    def impls(self, kind: str, *modes: str) -> list[str]:
        """Return the layers of a kind that were measured in one of the modes.

        Built-in layers come first, in the registry's order. Other layers are included only if their FLOPs were counted.
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
        """The kind of a user's layer: that of its family, unless its confirmed claim of FLOPs is of another kind."""
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
        return worst([self._order_in(impl, setting, quantity, claimed) for setting in self._settings(impl, "forward")])

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
        return worst([self._complexity_in(impl, setting, order) for setting in settings])

    def per_token(self, impl: str | None, order: Order) -> Cell:
        """Return the cell of inference for one token: from decoding if measured, else from forward passes.

        The latter is the difference between the FLOPs of forward passes over n and n − 1 tokens.
        """
        if impl is None or self._settings(impl, "decode") or not self._settings(impl, "forward"):
            return self.complexity(impl, "decode", order)
        settings = self._settings(impl, "forward")
        return worst([self._complexity_in(impl, setting, order, by_difference=True) for setting in settings])

    def _complexity_in(self, impl: str, setting: Setting, order: Order, by_difference: bool = False) -> Cell:
        if len({line.seq_len for line in self._lines[impl, setting]}) < 2:
            return Cell(order.text, "", UNDETERMINED, f"n was not varied (mode={setting.mode})")
        terms = self._work_terms(impl, setting)
        if not terms:
            return Cell(order.text, "", UNDETERMINED, f"its work is not known as a formula (mode={setting.mode})")
        hold = one_token_more if by_difference else held_against
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
